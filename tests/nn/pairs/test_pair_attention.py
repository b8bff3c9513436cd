"""Attention with pair vectors, readable and fast, against a loop over pairs."""

from __future__ import annotations

import pytest
import torch
from tape import record
from torch import Tensor
from torch.nn.functional import pad

from molsepnorm.nn import PaddedGroup
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.pair_attention import FastPairAttention
from molsepnorm.nn.pairs.pair_attention import PairAttention, PairEmbedding
from molsepnorm.nn.pairs.tensors import PairTensors

GROUPS = (
    PaddedGroup(graphs=2, slots=4),
    PaddedGroup(graphs=3, slots=2),
    PaddedGroup(graphs=1, slots=5),
    PaddedGroup(1, 1),
)
WIDTH, HEADS, PAIR_WIDTH = 6, 2, 3
STARTS = [0, 4, 8, 10, 12, 14, 19]
SLOTS = 20
EXACT = {"rtol": 1e-11, "atol": 1e-12}


def some_layer(
    dropout: float = 0.0,
    groups: tuple[PaddedGroup, ...] = GROUPS,
    update_pairs: bool = True,
    kind: type[PairAttention] = FastPairAttention,
) -> tuple[PairAttention, Tensor, list[Tensor], list[Tensor]]:
    """A float64 layer with random parameters, and x, pairs and bias, all with gradients."""
    torch.manual_seed(0)
    layer = kind(WIDTH, HEADS, PAIR_WIDTH, ByteDropout(dropout), update_pairs).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    real = {"dtype": torch.float64, "requires_grad": True}
    x = torch.randn(sum(group.graphs * group.slots for group in groups), WIDTH, **real)
    pairs = [torch.randn(g.graphs, g.slots, g.slots, PAIR_WIDTH, **real) for g in groups]
    bias = [torch.randn(HEADS, g.graphs, g.slots, g.slots, **real) for g in groups]
    return layer, x, pairs, bias


def attend(
    layer: PairAttention,
    x: Tensor,
    vectors: list[Tensor],
    bias: list[Tensor],
    groups: tuple[PaddedGroup, ...] = GROUPS,
    tokens_only: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """The outputs, for all slots or for the graph tokens only, and the new pair vectors."""
    pairs = PairTensors(bias, vectors=vectors)
    y, new = layer(x, pairs.first_query() if tokens_only else pairs, groups)
    return y, new.vectors


def hidden_of(layer: PairAttention, x_i: Tensor, x_j: Tensor, e: Tensor) -> Tensor:  # (E,)
    """ê of a single pair."""
    q = (layer.qkv.weight @ x_i + layer.qkv.bias)[:PAIR_WIDTH]
    k = (layer.qkv.weight @ x_j + layer.qkv.bias)[PAIR_WIDTH : 2 * PAIR_WIDTH]
    centred = e - e.mean()
    normed = centred / (centred.square().mean() + layer.pair_norm.eps).sqrt()
    normed = normed * layer.pair_norm.weight + layer.pair_norm.bias
    scale, shift = (layer.pair_in.weight @ normed + layer.pair_in.bias).split(PAIR_WIDTH)
    z = (q + k) * scale
    return torch.relu(z / (z.abs() + 1e-3).sqrt() + shift)


def loop(
    layer: PairAttention,
    x: Tensor,
    pairs: list[Tensor],
    bias: list[Tensor],
    masks: list[Tensor] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The equations in a loop over graphs, queries, keys and heads."""
    size, start, rows, updated = WIDTH // HEADS, 0, [], []
    values = (x @ layer.qkv.weight.T + layer.qkv.bias)[:, 2 * PAIR_WIDTH :]
    for index, group in enumerate(GROUPS):
        new = []
        for graph in range(group.graphs):
            e, own = pairs[index][graph], range(start, start + group.slots)
            start += group.slots
            for i in range(group.slots):
                hidden = [hidden_of(layer, x[own[i]], x[j], e[i, j - own[0]]) for j in own]
                heads = []
                for head in range(HEADS):
                    part = slice(head * size, (head + 1) * size)
                    logits = torch.stack([layer.logits.weight[head] @ each for each in hidden])
                    weights = torch.softmax(logits + bias[index][head, graph, i], dim=0)
                    if masks is not None:
                        weights = weights * masks[index][graph, i, head]
                    seen = [
                        values[j, part] + layer.pair_values.weight[part] @ each
                        for j, each in zip(own, hidden, strict=True)
                    ]
                    heads.append(sum(w * s for w, s in zip(weights, seen, strict=True)))
                rows.append(layer.out(torch.cat(heads)))
                if layer.pair_out is not None:
                    out = layer.pair_out
                    new += [e[i, j] + out.weight @ each + out.bias for j, each in enumerate(hidden)]
        updated.append(torch.stack(new).view_as(pairs[index]) if new else pairs[index])
    return torch.stack(rows), updated


def fix_masks(layer: PairAttention, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Make the layer's dropout use the same factors at every call, and return them."""
    shapes = [(g.graphs, g.slots, HEADS, g.slots) for g in GROUPS]
    masks = [(torch.rand(shape) > 0.4).double() * layer.dropout.scale for shape in shapes]
    by_shape = dict(zip(shapes, masks, strict=True))
    monkeypatch.setattr(layer.dropout, "forward", lambda x: x * by_shape[tuple(x.shape)])
    return masks


def gradients_of(y: Tensor, pairs: list[Tensor], inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The gradients of a weighted sum of all outputs."""
    torch.manual_seed(3)
    total = sum((part * torch.randn_like(part)).sum() for part in (y, *pairs))
    return list(torch.autograd.grad(total, inputs))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("update_pairs", [True, False])
@pytest.mark.parametrize("kind", [PairAttention, FastPairAttention])
def test_attention_equals_a_loop_over_pairs(
    kind: type[PairAttention], dropout: float, update_pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, and gradients of all inputs and weights, for four groups of different shapes."""
    layer, x, pairs, bias = some_layer(dropout, update_pairs=update_pairs, kind=kind)
    masks = fix_masks(layer, monkeypatch) if dropout else None
    mine, theirs = attend(layer, x, pairs, bias), loop(layer, x, pairs, bias, masks)
    torch.testing.assert_close(mine, theirs, **EXACT)
    inputs = (x, *pairs, *bias, *layer.parameters())
    gradients = [gradients_of(*outputs, inputs) for outputs in (mine, theirs)]
    torch.testing.assert_close(*gradients, **EXACT)


@pytest.mark.parametrize("tokens_only", [True, False])
def test_gradients_equal_finite_differences(tokens_only: bool) -> None:
    """Gradients of x, pairs, bias and every weight."""
    groups = (PaddedGroup(2, 3), PaddedGroup(1, 2))
    layer, x, pairs, bias = some_layer(groups=groups)

    def outputs(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        y, new = attend(layer, x, [*rest[:2]], [*rest[2:4]], groups, tokens_only)
        return y, *(() if tokens_only else new)

    assert torch.autograd.gradcheck(outputs, (x, *pairs, *bias, *layer.parameters()))


@pytest.mark.parametrize(
    ("update_pairs", "tokens_only"), [(True, False), (False, False), (False, True)]
)
def test_every_parameter_has_a_gradient(update_pairs: bool, tokens_only: bool) -> None:
    """A last layer has no `pair_out` and returns the pair vectors unchanged."""
    layer, x, pairs, bias = some_layer(update_pairs=update_pairs)
    y, new = attend(layer, x, pairs, bias, tokens_only=tokens_only)
    if not update_pairs:
        given = [e[:, :1] for e in pairs] if tokens_only else pairs
        assert all(torch.equal(one, other) for one, other in zip(new, given, strict=True))
    sum(part.square().sum() for part in (y, *new)).backward()
    assert all(parameter.grad.any() for parameter in layer.parameters())
    assert (layer.pair_out is not None) == update_pairs


def test_queries_of_graph_tokens_give_the_first_rows_of_each_graph() -> None:
    """Values and gradients equal those with the queries of all slots."""
    layer, x, pairs, bias = some_layer(update_pairs=False)
    inputs = (x, *pairs, *bias, *layer.parameters())
    alone = attend(layer, x, pairs, bias, tokens_only=True)[0]
    whole = attend(layer, x, pairs, bias)[0][STARTS]
    torch.testing.assert_close(alone, whole, **EXACT)
    gradients = [gradients_of(y, [], inputs) for y in (alone, whole)]
    torch.testing.assert_close(*gradients, **EXACT)


def test_renumbered_slots_give_renumbered_outputs() -> None:
    layer, x, pairs, bias = some_layer()
    orders = [torch.randperm(group.slots) for group in GROUPS]
    rows = torch.cat(
        [
            graph * group.slots + start + order
            for group, order, start in zip(GROUPS, orders, (0, 8, 14, 19), strict=True)
            for graph in range(group.graphs)
        ]
    )
    assert not torch.equal(rows, torch.arange(SLOTS))
    moved = [e[:, order][:, :, order] for e, order in zip(pairs, orders, strict=True)]
    moved_bias = [b[:, :, order][..., order] for b, order in zip(bias, orders, strict=True)]
    y, new = attend(layer, x, pairs, bias)
    y_moved, new_moved = attend(layer, x[rows], moved, moved_bias)
    torch.testing.assert_close(y_moved, y[rows], **EXACT)
    expected = [e[:, order][:, :, order] for e, order in zip(new, orders, strict=True)]
    torch.testing.assert_close(new_moved, expected, **EXACT)


@pytest.mark.parametrize("junk", [0.0, 1e4])
def test_padding_and_groups_change_nothing(junk: float) -> None:
    """All graphs in one group of six slots, x and pairs being junk where there is no slot."""
    layer, x, pairs, bias = some_layer()
    x, pairs, bias = x.detach(), [e.detach() for e in pairs], [b.detach() for b in bias]
    sizes = torch.tensor([group.slots for group in GROUPS for _ in range(group.graphs)])
    real = (torch.arange(6) < sizes[:, None]).flatten()
    wide_x = torch.full((len(real), WIDTH), junk, dtype=x.dtype)
    wide_x[real] = x
    added = [6 - group.slots for group in GROUPS]
    wide_pairs = torch.cat(
        [pad(e, (0, 0, 0, n, 0, n), value=junk) for e, n in zip(pairs, added, strict=True)]
    )
    wide_bias = torch.cat([pad(b, (0, n, 0, n)) for b, n in zip(bias, added, strict=True)], dim=1)
    wide_bias.masked_fill_(~real.view(1, -1, 1, 6), -torch.inf)
    wide = (wide_x, wide_pairs, wide_bias)
    for tensor in (x, *pairs, *bias, *wide):
        tensor.requires_grad_()

    y, new = attend(layer, x, pairs, bias)
    y_wide, new_wide = attend(
        layer, wide_x, [wide_pairs], [wide_bias], (PaddedGroup(len(sizes), 6),)
    )
    assert y_wide.isfinite().all() and new_wide[0].isfinite().all()
    torch.testing.assert_close(y_wide[real], y, **EXACT)
    both = (real.view(-1, 6, 1) & real.view(-1, 1, 6)).flatten()
    flat = torch.cat([e.flatten(0, 2) for e in new])
    torch.testing.assert_close(new_wide[0].flatten(0, 2)[both], flat, **EXACT)

    torch.manual_seed(4)
    by_y, by_pair = torch.randn_like(y), torch.randn_like(flat)
    total = (y * by_y).sum() + (flat * by_pair).sum()
    total_wide = (y_wide[real] * by_y).sum()
    total_wide = total_wide + (new_wide[0].flatten(0, 2)[both] * by_pair).sum()
    parameters = tuple(layer.parameters())
    grad_x, *grads = torch.autograd.grad(total, (x, *parameters))
    grad_wide_x, grad_pairs, grad_bias, *grads_wide = torch.autograd.grad(
        total_wide, (*wide, *parameters)
    )
    torch.testing.assert_close(grads_wide, grads, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(grad_wide_x[real], grad_x, rtol=1e-9, atol=1e-9)
    assert not grad_wide_x[~real].any()
    assert not grad_pairs.flatten(0, 2)[~both].any()
    assert not grad_bias.flatten(1)[:, ~both].any()


def test_slope_at_zero_is_finite() -> None:
    """If queries and keys cancel, the argument of ρ is 0, where its slope is ε^(−1/2)."""
    layer, x, pairs, bias = some_layer(groups=(PaddedGroup(1, 2),))
    with torch.no_grad():
        layer.qkv.weight[: 2 * PAIR_WIDTH] = 0
        layer.qkv.bias[: 2 * PAIR_WIDTH] = 0
        layer.pair_in.weight.zero_()
        layer.pair_in.bias.fill_(1)  # the scale, and ReLU's argument
        layer.pair_out.weight.copy_(torch.eye(PAIR_WIDTH))
    new = attend(layer, x, pairs, bias, (PaddedGroup(1, 2),))[1]
    (slope,) = torch.autograd.grad(new[0][0, 0, 1].sum(), layer.qkv.bias)
    expected = torch.full_like(slope[: 2 * PAIR_WIDTH], 1e-3**-0.5)
    torch.testing.assert_close(slope[: 2 * PAIR_WIDTH], expected)


def test_dropout_is_applied_in_training_only() -> None:
    layer, x, pairs, bias = some_layer(dropout=0.5)
    first, second = (attend(layer, x, pairs, bias) for _ in range(2))
    assert not torch.allclose(first[0], second[0])
    torch.testing.assert_close(first[1], second[1])
    expected = loop(layer, x, pairs, bias)
    torch.testing.assert_close(attend(layer.eval(), x, pairs, bias), expected, **EXACT)


@pytest.mark.parametrize("tokens_only", [True, False])
def test_attention_can_be_captured(tokens_only: bool) -> None:
    """As a CUDA graph: no number is read by the host, and new inputs give new outputs."""
    layer, x, pairs, bias = some_layer()
    embed = PairEmbedding(HEADS, PAIR_WIDTH, PAIR_WIDTH).double()
    result: list[Tensor] = []

    def work() -> None:
        y, new = attend(layer, x, embed(bias, pairs), bias, tokens_only=tokens_only)
        gradients = torch.autograd.grad(sum(e.square().sum() for e in (y, *new)), (x, *bias))
        result[:] = [y, *new, *gradients]

    again = record(work, list)
    recorded = list(result)
    with torch.no_grad():
        for tensor in (x, *pairs, *bias):
            tensor.normal_()
    again()
    work()
    torch.testing.assert_close(recorded, result, **EXACT)


@pytest.mark.parametrize("tokens_only", [True, False])
def test_autocast_trains(tokens_only: bool) -> None:
    """Under bfloat16 autocast gradients are close to those in float32, and tensors of the size of
    the pairs are float32."""
    layer, x, pairs, bias = some_layer()
    layer = layer.float()
    x, pairs, bias = (
        x.detach().float().requires_grad_(),
        [e.detach().float().requires_grad_() for e in pairs],
        [b.detach().float().requires_grad_() for b in bias],
    )
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            y, new = attend(layer, x, pairs, bias, tokens_only=tokens_only)
        assert all(e.dtype == torch.float32 for e in new)
        gradients = gradients_of(y.float(), new, (x, *pairs, *bias))
        found.append((y.float(), *new, *gradients))
    for full, half in zip(*found, strict=True):
        assert half.dtype == torch.float32
        torch.testing.assert_close(
            half, full, rtol=0.1, atol=0.1 * float(full.detach().abs().max()) + 1e-5
        )


def test_pairs_are_computed_in_float32_under_autocast() -> None:
    """Without queries, keys and values only the last projection of x is rounded. Logits of
    hundreds, which bfloat16 would round by one, give the same weights."""
    layer, x, pairs, bias = some_layer()
    layer, x = layer.float(), torch.zeros(SLOTS, WIDTH)
    with torch.no_grad():
        layer.qkv.bias.zero_()
        layer.logits.weight *= 200
        layer.out.weight.copy_(torch.eye(WIDTH))
    given = [part.detach().float() for part in pairs], [part.detach().float() for part in bias]
    with torch.autocast("cpu", torch.bfloat16):
        rounded, new = attend(layer, x, *given)
    y, expected = attend(layer, x, *given)
    torch.testing.assert_close(new, expected, rtol=0, atol=0)
    torch.testing.assert_close(rounded.float(), y, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("features", [0, 4])
def test_pair_embedding_is_a_linear_map_of_features_and_finite_bias(features: int) -> None:
    torch.manual_seed(1)
    embed = PairEmbedding(HEADS, features, PAIR_WIDTH).double()
    bias = [torch.randn(HEADS, g.graphs, g.slots, g.slots).double() for g in GROUPS]
    bias[0][..., -1] = -torch.inf
    given = [torch.randn(g.graphs, g.slots, g.slots, 4).double() for g in GROUPS]
    for part in bias:
        part.requires_grad_()
    found = embed(bias, given if features else None)
    for e, f, part in zip(found, given, bias, strict=True):
        for g in range(len(e)):
            for i in range(e.shape[1]):
                for j in range(e.shape[1]):
                    b = part[:, g, i, j]
                    b = torch.zeros_like(b) if b.isinf().any() else b
                    read = torch.cat([f[g, i, j], b]) if features else b
                    torch.testing.assert_close(e[g, i, j], embed.linear(read), **EXACT)
    gradients = torch.autograd.grad(sum(e.square().sum() for e in found), bias)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][..., -1].any() and gradients[0][..., 0].all()


def test_pair_embedding_is_computed_in_float32_under_autocast() -> None:
    embed = PairEmbedding(HEADS, 0, PAIR_WIDTH)
    bias = [torch.randn(HEADS, 1, 3, 3)]
    with torch.autocast("cpu", torch.bfloat16):
        found = embed(bias)
    torch.testing.assert_close(found, embed(bias), rtol=0, atol=0)
