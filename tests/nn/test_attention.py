"""Self-attention, readable and fast, against a loop over graphs and heads."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from molsepnorm.nn import PaddedGroup
from molsepnorm.nn.attention import BiasedSelfAttention, FastSelfAttention
from molsepnorm.nn.dropout import ByteDropout
from molsepnorm.nn.pairs.neighbours import PairTensors

GROUPS = (PaddedGroup(2, 4), PaddedGroup(3, 2), PaddedGroup(1, 6), PaddedGroup(1, 1))
HEADS, WIDTH = 2, 6
SLOTS = sum(group.graphs * group.slots for group in GROUPS)
both_kinds = pytest.mark.parametrize("kind", [BiasedSelfAttention, FastSelfAttention])


def some_layer(
    dropout: float = 0.0,
    groups: tuple[PaddedGroup, ...] = GROUPS,
    kind: type[BiasedSelfAttention] = FastSelfAttention,
) -> tuple:
    """A float64 layer with an input and a bias for each group, all with gradients."""
    torch.manual_seed(0)
    layer = kind(WIDTH, HEADS, ByteDropout(dropout)).double()
    slots = sum(group.graphs * group.slots for group in groups)
    x = torch.randn(slots, WIDTH, dtype=torch.float64, requires_grad=True)
    bias = [
        torch.randn(HEADS, g.graphs, g.slots, g.slots, dtype=torch.float64, requires_grad=True)
        for g in groups
    ]
    return layer, x, bias


def attend(
    layer: BiasedSelfAttention,
    x: Tensor,
    bias: list[Tensor],
    groups: tuple[PaddedGroup, ...] = GROUPS,
    tokens_only: bool = False,
) -> Tensor:
    """The layer's output for all slots, or for the graph tokens only."""
    pairs = PairTensors(bias)
    return layer(x, pairs.first_query() if tokens_only else pairs, groups)


def loop(
    layer: BiasedSelfAttention,
    x: Tensor,
    bias: list[Tensor],
    groups: tuple[PaddedGroup, ...] = GROUPS,
    masks: list[Tensor] | None = None,
) -> Tensor:
    """softmax(Q Kᵀ / √(C/H) + b) V, in a loop over graphs and heads."""
    size = WIDTH // HEADS
    rows, start = [], 0
    for index, group in enumerate(groups):
        for graph in range(group.graphs):
            q, k, v = layer.qkv(x[start : start + group.slots]).split(WIDTH, dim=1)
            start += group.slots
            heads = []
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                logits = q[:, own] @ k[:, own].T / size**0.5 + bias[index][head, graph]
                weights = torch.softmax(logits, dim=-1)
                if masks is not None:
                    weights = weights * masks[index][head, graph].double() * layer.dropout.scale
                heads.append(weights @ v[:, own])
            rows.append(torch.cat(heads, dim=1))
    return layer.out(torch.cat(rows))


def fix_masks(
    layer: BiasedSelfAttention, bias: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> list[Tensor]:
    """Make the layer's dropout use the same masks at every call, and return them."""
    masks = [(torch.rand_like(part) > 0.4).to(torch.uint8) for part in bias]
    by_shape = {part.shape: mask for part, mask in zip(bias, masks, strict=True)}
    monkeypatch.setattr(layer.dropout, "dropout_mask", lambda part: by_shape[part.shape])
    return masks


def assert_same_values_and_gradients(
    layer: BiasedSelfAttention,
    x: Tensor,
    bias: list[Tensor],
    masks: list[Tensor] | None,
) -> None:
    inputs = (x, *bias, *layer.parameters())
    weight = torch.randn(SLOTS, WIDTH, dtype=torch.float64)
    results = attend(layer, x, bias), loop(layer, x, bias, GROUPS, masks)
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    mine, theirs = (torch.autograd.grad((y * weight).sum(), inputs) for y in results)
    for gradient, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)
    assert all(
        gradient.any() for gradient in theirs[: len(GROUPS)]
    )  # the last group has a single slot


@pytest.mark.claim(
    "Attention without row maxima, and a last layer for the graph token only, equal the plain"
    " versions, gradients included."
)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@both_kinds
def test_attention_equals_a_loop_over_graphs_and_heads(
    kind: type[BiasedSelfAttention], dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, and gradients of input, biases and weights, for four groups of different shapes."""
    layer, x, bias = some_layer(dropout, kind=kind)
    masks = fix_masks(layer, bias, monkeypatch) if dropout else None
    assert_same_values_and_gradients(layer, x, bias, masks)


def test_dropout_is_applied_in_training_only() -> None:
    layer, x, bias = some_layer(dropout=0.5)
    assert not torch.allclose(attend(layer, x, bias), attend(layer, x, bias))
    torch.testing.assert_close(attend(layer.eval(), x, bias), loop(layer, x, bias))


@pytest.mark.parametrize("tokens_only", [False, True])
def test_attention_on_devices_is_equal(tokens_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own attention, which devices other than the CPU use: outputs and gradients."""
    layer, x, bias = some_layer()
    inputs = (x, *bias, *layer.parameters())
    results = []
    for attend_by in (FastSelfAttention.attend, FastSelfAttention.attend_on_device):
        monkeypatch.setattr(FastSelfAttention, "attend", attend_by)
        y = attend(layer, x, bias, tokens_only=tokens_only)
        results.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradcheck(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of input, biases and weights equal finite differences."""
    groups = (PaddedGroup(2, 3), PaddedGroup(1, 2))
    layer, x, bias = some_layer(dropout, groups)
    if dropout:
        fix_masks(layer, bias, monkeypatch)

    def function(x: Tensor, first: Tensor, second: Tensor, *rest: Tensor) -> Tensor:
        return attend(layer, x, [first, second], groups)

    assert torch.autograd.gradcheck(function, (x, *bias, *layer.parameters()))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_padding_keys_have_no_weight_and_no_gradient(dropout: float) -> None:
    """The bias is −∞ at the last slot of each graph. Its input has no effect and no gradient."""
    layer, x, bias = some_layer(dropout)
    padded = [part.detach().clone() for part in bias]
    real = torch.ones(SLOTS, dtype=torch.bool)
    start = 0
    for group, part in zip(GROUPS, padded, strict=True):
        if group.slots > 1:
            part[..., -1] = -torch.inf
            real[start + group.slots - 1 : start + group.graphs * group.slots : group.slots] = False
        start += group.graphs * group.slots
        part.requires_grad_()

    torch.manual_seed(1)
    y = attend(layer, x, padded)
    assert y.isfinite().all()
    gradients = torch.autograd.grad(y[real].square().sum(), (x, *padded, *layer.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][~real].any()
    for part, gradient in zip(padded, gradients[1:], strict=False):
        assert not gradient[part.isinf()].any()

    other = x.detach().clone()
    other[~real] = 100 * torch.randn_like(other[~real])
    torch.manual_seed(1)
    torch.testing.assert_close(attend(layer, other, padded)[real], y[real], rtol=1e-12, atol=1e-12)


@both_kinds
def test_queries_of_graph_tokens_give_the_first_rows_of_each_graph(
    kind: type[BiasedSelfAttention],
) -> None:
    """Values and gradients equal those with the queries of all slots."""
    layer, x, bias = some_layer(kind=kind)
    starts = [0, 4, 8, 10, 12, 14, 20]
    inputs = (x, *bias, *layer.parameters())
    alone = attend(layer, x, bias, tokens_only=True)
    whole = attend(layer, x, bias)[starts]
    torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(alone)
    mine, theirs = (torch.autograd.grad((y * weight).sum(), inputs) for y in (alone, whole))
    for gradient, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.claim("Float32 attention keeps its precision where exponentials nearly overflow.")
@pytest.mark.parametrize("shift", [-100, -85, -70, -60, 55, 60, 70, 80, 85, 87, 88, 100])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_float32_is_accurate_near_the_range_of_exponentials(shift: float, size: float) -> None:
    """e⁸⁷ is a float32 number, but a weighted sum overflows, and ∂y divided by it vanishes.

    Compared with float64, for values and gradients of ordinary and of small size."""
    exact, x, bias = some_layer()
    with torch.no_grad():
        exact.qkv.weight[2 * WIDTH :] *= size
    x, bias = x.detach().float(), [part.detach().float() for part in bias]
    rough = copy.deepcopy(exact).float()
    with torch.no_grad():  # the same numbers
        for one, other in zip(exact.parameters(), rough.parameters(), strict=True):
            one.copy_(other)
    results = []
    for layer, dtype, added in ((exact, torch.float64, 0.0), (rough, torch.float32, shift)):
        inputs = [tensor.to(dtype) for tensor in (x, *bias)]
        inputs[1:] = [part + added for part in inputs[1:]]
        for tensor in inputs:
            tensor.requires_grad_()
        y = attend(layer, inputs[0], inputs[1:])
        gradients = torch.autograd.grad(1e-9 * y.square().sum(), inputs)
        results.append([y.double(), *(1e9 * gradient.double() for gradient in gradients)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * size**2)
