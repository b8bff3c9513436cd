"""The blocked attention with its hand-written gradient, against one graph and head at a time."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from molsepnorm.nn import Block, attention
from molsepnorm.nn.attention import BiasedSelfAttention

BLOCKS = (Block(graphs=2, slots=4), Block(graphs=3, slots=2), Block(graphs=1, slots=6), Block(1, 1))
HEADS, WIDTH = 2, 6
SLOTS = sum(block.graphs * block.slots for block in BLOCKS)


def some_layer(dropout: float = 0.0, blocks: tuple[Block, ...] = BLOCKS) -> tuple:
    """A float64 layer with an input and a bias for each block, all with gradients."""
    torch.manual_seed(0)
    layer = BiasedSelfAttention(WIDTH, HEADS, dropout).double()
    slots = sum(block.graphs * block.slots for block in blocks)
    x = torch.randn(slots, WIDTH, dtype=torch.float64, requires_grad=True)
    bias = [
        torch.randn(HEADS, b.graphs, b.slots, b.slots, dtype=torch.float64, requires_grad=True)
        for b in blocks
    ]
    return layer, x, bias


def plain(
    layer: BiasedSelfAttention,
    x: Tensor,
    bias: list[Tensor],
    blocks: tuple[Block, ...] = BLOCKS,
    masks: list[Tensor] | None = None,
    gates: list[Tensor] | None = None,
) -> Tensor:
    """(softmax(Q Kᵀ / √(C/H) + b) ⊙ G) V, for one graph and one head after the other."""
    size = WIDTH // HEADS
    rows, start = [], 0
    for index, block in enumerate(blocks):
        for graph in range(block.graphs):
            q, k, v = layer.qkv(x[start : start + block.slots]).split(WIDTH, dim=1)
            start += block.slots
            heads = []
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                logits = q[:, own] @ k[:, own].T / size**0.5 + bias[index][head, graph]
                weights = torch.softmax(logits, dim=-1)
                if masks is not None:
                    weights = weights * masks[index][head, graph].double() * layer.dropout.scale
                if gates is not None:
                    weights = weights * gates[index][head, graph]
                heads.append(weights @ v[:, own])
            rows.append(torch.cat(heads, dim=1))
    return layer.out(torch.cat(rows))


def some_gates(blocks: tuple[Block, ...] = BLOCKS) -> list[Tensor]:
    """Gates for `some_layer`, of both signs, some of them 0."""
    torch.manual_seed(3)
    shapes = [(HEADS, block.graphs, block.slots, block.slots) for block in blocks]
    gates = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    return [(gate * (gate.abs() > 0.2)).requires_grad_() for gate in gates]


def fix_masks(
    layer: BiasedSelfAttention, bias: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> list[Tensor]:
    """Make the layer's dropout give the same masks at every call; returns them."""
    masks = [(torch.rand_like(part) > 0.4).to(torch.uint8) for part in bias]
    by_shape = {part.shape: mask for part, mask in zip(bias, masks, strict=True)}
    monkeypatch.setattr(layer.dropout, "kept", lambda part: by_shape[part.shape])
    return masks


def assert_same_values_and_gradients(
    layer: BiasedSelfAttention,
    x: Tensor,
    bias: list[Tensor],
    masks: list[Tensor] | None,
    gates: list[Tensor] | None = None,
) -> None:
    inputs = (x, *bias, *(gates or ()), *layer.parameters())
    weight = torch.randn(SLOTS, WIDTH, dtype=torch.float64)
    results = layer(x, bias, BLOCKS, gates=gates), plain(layer, x, bias, BLOCKS, masks, gates)
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    mine, theirs = (torch.autograd.grad((y * weight).sum(), inputs) for y in results)
    for gradient, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)
    assert all(gradient.any() for gradient in theirs[: len(BLOCKS)])  # the last block has one slot


def test_equals_plain_attention() -> None:
    """Four blocks of unlike shapes: values, and gradients of input, biases and weights."""
    layer, x, bias = some_layer()
    assert_same_values_and_gradients(layer, x, bias, masks=None)


def test_equals_plain_attention_with_the_same_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """With given masks the weights are masked and scaled after the softmax, gradients too."""
    layer, x, bias = some_layer(dropout=0.4)
    masks = fix_masks(layer, bias, monkeypatch)
    assert_same_values_and_gradients(layer, x, bias, masks)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_equals_plain_attention_with_gates(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are multiplied after the softmax; the gradient by the gates too."""
    layer, x, bias = some_layer(dropout)
    masks = fix_masks(layer, bias, monkeypatch) if dropout else None
    gates = some_gates()
    assert_same_values_and_gradients(layer, x, bias, masks, gates)
    assert not torch.allclose(layer(x, bias, BLOCKS, gates=gates), layer(x, bias, BLOCKS))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("tokens_only", [False, True])
def test_gates_of_one_change_no_bit(dropout: float, tokens_only: bool) -> None:
    """Values, and gradients of input, biases and weights, are those without gates."""
    layer, x, bias = some_layer(dropout)
    inputs = (x, *bias, *layer.parameters())
    ones = [torch.ones_like(part) for part in bias]
    results = []
    for gates in (ones, None):
        torch.manual_seed(4)
        y = layer(x, bias, BLOCKS, tokens_only, gates)
        results.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_a_gate_of_zero_closes() -> None:
    """What a slot says is not heard where its gate is 0: where only a slot's own gate is open, a
    changed value changes its own output alone. Weights that are closed are not given to others."""
    layer, x, bias = some_layer()
    with torch.no_grad():
        layer.qkv.weight[: 2 * WIDTH] = 0  # queries and keys: the weights follow from the bias
    own = [torch.eye(part.shape[-1], dtype=torch.float64).expand_as(part) for part in bias]
    y = layer(x, bias, BLOCKS, gates=own)
    other = x.detach().clone()
    other[1:3] += 1
    changed = (layer(other, bias, BLOCKS, gates=own) != y).any(dim=1)
    assert changed.nonzero().flatten().tolist() == [1, 2]
    rest = [1 - gate for gate in own]
    both = layer(x, bias, BLOCKS, gates=own) + layer(x, bias, BLOCKS, gates=rest)
    torch.testing.assert_close(both - layer.out.bias, layer(x, bias, BLOCKS))


def test_the_kernels_know_no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """With gates the plain attention is used, also where the fused one would do."""
    layer, x, bias = some_layer()
    gates = some_gates()
    expected = layer(x, bias, BLOCKS, gates=gates)
    monkeypatch.setattr(attention, "fits", lambda *_: True)
    monkeypatch.setattr(attention, "fused_attention", lambda qkv, *_: qkv[:, :WIDTH])
    assert torch.equal(layer(x, bias, BLOCKS, gates=gates), expected)
    assert not torch.allclose(layer(x, bias, BLOCKS), plain(layer, x, bias))  # the stand-in


def test_dropout_acts_in_training_alone() -> None:
    """Training drops attention weights at random, evaluation is the plain formula."""
    layer, x, bias = some_layer(dropout=0.5)
    assert not torch.allclose(layer(x, bias, BLOCKS), layer(x, bias, BLOCKS))
    torch.testing.assert_close(layer.eval()(x, bias, BLOCKS), plain(layer, x, bias))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradcheck(dropout: float, gated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole layer's gradient by input, every bias, gate and weight, by finite differences."""
    blocks = (Block(2, 3), Block(1, 2))
    layer, x, bias = some_layer(dropout, blocks)
    if dropout:
        fix_masks(layer, bias, monkeypatch)
    gates = some_gates(blocks) if gated else []

    def attend(x: Tensor, first: Tensor, second: Tensor, *rest: Tensor) -> Tensor:
        return layer(x, [first, second], blocks, gates=list(rest[:2]) if gated else None)

    assert torch.autograd.gradcheck(attend, (x, *bias, *gates, *layer.parameters()))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_padding_keys_have_no_weight_and_no_gradient(dropout: float) -> None:
    """−∞ for the last slot of each graph: its value changes nothing, its gradients are zero."""
    layer, x, bias = some_layer(dropout)
    padded = [part.detach().clone() for part in bias]
    real = torch.ones(SLOTS, dtype=torch.bool)
    start = 0
    for block, part in zip(BLOCKS, padded, strict=True):
        if block.slots > 1:
            part[..., -1] = -torch.inf
            real[start + block.slots - 1 : start + block.graphs * block.slots : block.slots] = False
        start += block.graphs * block.slots
        part.requires_grad_()

    torch.manual_seed(1)
    y = layer(x, padded, BLOCKS)
    assert y.isfinite().all()
    gradients = torch.autograd.grad(y[real].square().sum(), (x, *padded, *layer.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][~real].any()
    for part, gradient in zip(padded, gradients[1:], strict=False):
        assert not gradient[part.isinf()].any()

    other = x.detach().clone()
    other[~real] = 100 * torch.randn_like(other[~real])
    torch.manual_seed(1)
    torch.testing.assert_close(layer(other, padded, BLOCKS)[real], y[real], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gates_of_padding_do_not_matter(dropout: float) -> None:
    """Where a key is padding (−∞) any finite gate gives the same bits, and gets no gradient."""
    layer, x, bias = some_layer(dropout)
    padded = [part.detach().clone() for part in bias]
    for part in padded:
        part[..., 1:][..., -1:] = -torch.inf  # of graphs with two slots or more the last
    gates, results = some_gates(), []
    for filled in (0.0, -1e6):
        filling = [
            gate.detach().masked_fill(part.isinf(), filled).requires_grad_()
            for gate, part in zip(gates, padded, strict=True)
        ]
        torch.manual_seed(5)
        y = layer(x, padded, BLOCKS, gates=filling)
        results.append([y, *torch.autograd.grad(y.square().sum(), (x, *filling))])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    for part, gradient in zip(padded, results[0][2:], strict=True):
        assert not gradient[part.isinf()].any()
        assert gradient.any() or part.shape[-1] == 1


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("gated", [False, True])
def test_autocast_trains(dropout: float, gated: bool) -> None:
    """Under bfloat16 autocast forward and backward run, near the float32 values."""
    layer, x, bias = some_layer(dropout)
    layer, x = layer.float(), x.detach().float().requires_grad_()
    bias = [part.detach().float().requires_grad_() for part in bias]
    gates = [gate.detach().float().requires_grad_() for gate in some_gates()] if gated else None
    gradients = []
    for enabled in (False, True):
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            y = layer(x, bias, BLOCKS, gates=gates)
        inputs = (x, *bias, *(gates or ()))
        gradients.append(torch.autograd.grad(y.float().square().sum(), inputs))
    for full, half in zip(*gradients, strict=True):
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, full, rtol=0.1, atol=0.1 * float(full.abs().max()) + 1e-6)


def test_a_model_of_bfloat16_reads_gates_of_float32() -> None:
    """The gates are brought to the type of the weights, their gradient to theirs."""
    layer, x, bias = some_layer()
    exact = layer(x, bias, BLOCKS, gates=some_gates())
    rough = layer.bfloat16()
    gates = [gate.detach().float().requires_grad_() for gate in some_gates()]
    y = rough(x.bfloat16(), [part.bfloat16() for part in bias], BLOCKS, gates=gates)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), exact, rtol=0.1, atol=0.1)
    gradients = torch.autograd.grad(y.float().sum(), gates)
    assert all(gradient.dtype == torch.float32 for gradient in gradients)


@pytest.mark.parametrize("gated", [False, True])
def test_tokens_only_are_the_first_rows_of_each_graph(gated: bool) -> None:
    """Values and gradients equal those of attention between all slots."""
    layer, x, bias = some_layer()
    gates = some_gates() if gated else None
    starts = [0, 4, 8, 10, 12, 14, 20]
    inputs = (x, *bias, *(gates or ()), *layer.parameters())
    alone = layer(x, bias, BLOCKS, tokens_only=True, gates=gates)
    whole = layer(x, bias, BLOCKS, gates=gates)[starts]
    torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(alone)
    mine, theirs = (torch.autograd.grad((y * weight).sum(), inputs) for y in (alone, whole))
    for gradient, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("shift", [-2000.0, 2000.0])
def test_logits_whose_exponentials_leave_the_range(shift: float, gated: bool) -> None:
    """Adding a number to all logits of a row changes nothing, however large it is."""
    layer, x, bias = some_layer()
    shifted = [part.detach() + shift for part in bias]
    for part in shifted:
        part.requires_grad_()
    gates = some_gates() if gated else None
    results = layer(x, shifted, BLOCKS, gates=gates), layer(x, bias, BLOCKS, gates=gates)
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)
    gradients = [
        torch.autograd.grad(y.square().sum(), (x, *biases, *(gates or ())))
        for y, biases in zip(results, (shifted, bias), strict=True)
    ]
    for gradient, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shift", [-100, -85, -70, -60, 55, 60, 70, 80, 85, 87, 88, 100])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_float32_keeps_its_digits_where_exponentials_barely_fit(shift: float, size: float) -> None:
    """e⁸⁷ is a float32, a sum of values under such weights is none, and ∂y divided by it vanishes.

    Against float64, with values and gradients of ordinary and of small size."""
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
        y = layer(inputs[0], inputs[1:], BLOCKS)
        gradients = torch.autograd.grad(1e-9 * y.square().sum(), inputs)
        results.append([y.double(), *(1e9 * gradient.double() for gradient in gradients)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * size**2)
