"""SepNorm against torch's own norms, in both layouts, and the masked batch norm alone."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from molsepnorm.sepnorm import MaskedBatchNorm1d, SepNorm, SharedNorm
from molsepnorm.sepnorm.batch_norm import synchronize_norms

GRAPHS, SLOTS, WIDTH = 6, 5, 4


def some_input(seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """(n, l, d) with different mean and spread for graph tokens and other tokens."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(GRAPHS, SLOTS, WIDTH, generator=generator, dtype=dtype)
    x[:, 0] = 3 * x[:, 0] + 7
    return x


def some_mask() -> Tensor:
    """(n, l): graph i has 1 + i mod 4 atoms; neither graph tokens nor padding are true."""
    atoms = 1 + torch.arange(GRAPHS) % (SLOTS - 1)
    place = torch.arange(SLOTS)
    return (place >= 1) & (place <= atoms[:, None])


def packed(x: Tensor) -> tuple[Tensor, Tensor]:
    """The packed layout of (n, l, d), and the slots of its graph tokens."""
    return x.reshape(-1, x.shape[-1]), torch.arange(0, GRAPHS * SLOTS, SLOTS)


def normalised(norm: nn.Module, x: Tensor, mask: Tensor, layout: str) -> Tensor:
    """The normalised input (n, l, d), given as it is (rectangular) or packed."""
    if layout == "rectangular":
        return norm(x, mask=mask)
    rows, graph_token = packed(x)
    return norm(rows, graph_token, mask.reshape(-1)).view_as(x)


def perturbed(norm: nn.Module) -> nn.Module:
    """The norm with random affine parameters."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return norm


def test_published_behaviour_equals_batch_norm_on_the_token_and_layer_norm_on_the_rest() -> None:
    """Values, gradients, running statistics and evaluation equal those of torch's two layers."""
    torch.manual_seed(1)
    ours = perturbed(SepNorm(WIDTH))
    assert type(ours.cls_norm) is nn.BatchNorm1d
    assert type(ours.tok_norm) is nn.LayerNorm
    batch_norm, layer_norm = copy.deepcopy(ours.cls_norm), copy.deepcopy(ours.tok_norm)

    for step in range(3):
        x = some_input(step).requires_grad_()
        x_theirs = x.detach().clone().requires_grad_()
        weight = torch.randn(x.shape)
        y = ours(x)
        expected = torch.cat([batch_norm(x_theirs[:, 0])[:, None], layer_norm(x_theirs[:, 1:])], 1)
        torch.testing.assert_close(y, expected)
        (y * weight).sum().backward()
        (expected * weight).sum().backward()
        torch.testing.assert_close(x.grad, x_theirs.grad)
    for mine, theirs in ((ours.cls_norm, batch_norm), (ours.tok_norm, layer_norm)):
        for name, parameter in theirs.named_parameters():
            torch.testing.assert_close(mine.get_parameter(name).grad, parameter.grad)
    torch.testing.assert_close(ours.cls_norm.running_mean, batch_norm.running_mean)
    torch.testing.assert_close(ours.cls_norm.running_var, batch_norm.running_var)
    assert int(ours.cls_norm.num_batches_tracked) == 3

    ours.eval(), batch_norm.eval()
    x = some_input(9)
    expected = torch.cat([batch_norm(x[:, 0])[:, None], layer_norm(x[:, 1:])], 1)
    torch.testing.assert_close(ours(x), expected)
    assert not torch.allclose(ours(x), ours.train()(x))


@pytest.mark.parametrize("tok_norm", [nn.LayerNorm, nn.BatchNorm1d])
@pytest.mark.parametrize("masked", [False, True])
def test_packed_equals_rectangular(tok_norm: type[nn.Module], masked: bool) -> None:
    """Outputs and gradients of (m, d) with the tokens' slots equal those of (n, l, d)."""
    torch.manual_seed(2)
    one = perturbed(SepNorm(WIDTH, tok_norm=tok_norm))
    other = copy.deepcopy(one)
    x = some_input().requires_grad_()
    x_other = x.detach().clone().requires_grad_()
    mask = some_mask() if masked else None
    rows, graph_token = packed(x_other)
    y = one(x, mask=mask)
    y_other = other(rows, graph_token, None if mask is None else mask.reshape(-1))
    torch.testing.assert_close(y.reshape(-1, WIDTH), y_other)
    weight = torch.randn(x.shape)
    (y * weight).sum().backward()
    (y_other * weight.reshape(-1, WIDTH)).sum().backward()
    torch.testing.assert_close(x.grad, x_other.grad)
    for (name, mine), theirs in zip(
        one.state_dict().items(), other.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(mine, theirs, msg=name)


@pytest.mark.claim("SepNorm(LN, LN) with tied weights is a layer norm.")
def test_two_layer_norms_with_tied_weights_are_one_layer_norm() -> None:
    """SepNorm of two layer norms with equal weights is a layer norm of all slots."""
    torch.manual_seed(3)
    one = perturbed(nn.LayerNorm(WIDTH))
    sep = SepNorm(WIDTH, cls_norm=nn.LayerNorm, tok_norm=nn.LayerNorm)
    sep.cls_norm.load_state_dict(one.state_dict())
    sep.tok_norm.load_state_dict(one.state_dict())
    torch.testing.assert_close(sep(some_input()), one(some_input()))
    rows, graph_token = packed(some_input())
    torch.testing.assert_close(sep(rows, graph_token), one(rows))


@pytest.mark.claim(
    "The graph token's statistics come from graph tokens only. In evaluation, changing one "
    "graph changes no other graph."
)
def test_the_tokens_statistics_come_from_tokens_alone() -> None:
    """The other slots have no effect on the output and the statistics of graph tokens."""
    one, other = SepNorm(WIDTH), SepNorm(WIDTH)
    x = some_input()
    changed = x.clone()
    changed[:, 1:] = 1e4 * torch.randn(GRAPHS, SLOTS - 1, WIDTH)
    torch.testing.assert_close(one(x)[:, 0], other(changed)[:, 0], rtol=0, atol=0)
    for name, value in one.cls_norm.state_dict().items():
        torch.testing.assert_close(other.cls_norm.state_dict()[name], value, rtol=0, atol=0)


def test_batch_norm_of_tokens_counts_real_tokens_only() -> None:
    """tok_norm=BatchNorm1d: normalised over channels with the real tokens' mean and variance."""
    torch.manual_seed(4)
    norm = perturbed(SepNorm(WIDTH, tok_norm=nn.BatchNorm1d))
    assert isinstance(norm.tok_norm, MaskedBatchNorm1d)
    x, mask = some_input(), some_mask()
    x[:, 1:] += 5
    real = x[mask].double()
    y = norm(x, mask=mask)[mask]

    mean, variance = real.mean(0), real.var(0, correction=0)
    scaled = (real - mean) / (variance + 1e-5).sqrt()
    expected = scaled * norm.tok_norm.weight + norm.tok_norm.bias
    torch.testing.assert_close(y, expected.float())
    # the running statistics: a tenth of the way from (0, 1), with the unbiased variance
    torch.testing.assert_close(norm.tok_norm.running_mean, (0.1 * mean).float())
    unbiased = real.var(0, correction=1)
    torch.testing.assert_close(norm.tok_norm.running_var, (0.9 + 0.1 * unbiased).float())
    assert int(norm.tok_norm.num_batches_tracked) == 1


@pytest.mark.parametrize("layout", ["packed", "rectangular"])
def test_the_graph_token_is_not_counted_if_the_mask_is_true_there(layout: str) -> None:
    """As in the attention masks of `transformers`."""
    one = SepNorm(WIDTH, tok_norm=nn.BatchNorm1d)
    other = copy.deepcopy(one)
    x, mask = some_input(), some_mask()
    with_token = mask.clone()
    with_token[:, 0] = True
    y = normalised(one, x, with_token, layout)
    torch.testing.assert_close(y, other(x, mask=mask))
    torch.testing.assert_close(one.tok_norm.running_mean, other.tok_norm.running_mean)
    assert with_token[:, 0].all()


@pytest.mark.parametrize("shared", [False, True])
def test_padding_has_no_effect(shared: bool) -> None:
    """It has no effect on other slots, gradients and running statistics."""
    batch_norm = nn.BatchNorm1d
    one = SharedNorm(WIDTH, batch_norm) if shared else SepNorm(WIDTH, tok_norm=batch_norm)
    other = copy.deepcopy(one)
    mask = some_mask()
    counted = mask.clone()
    counted[:, 0] = True
    x = some_input()
    rubbish = torch.where(counted[..., None], x, 1e3 * torch.randn(x.shape))
    gradients = []
    for layer, values in ((one, x), (other, rubbish)):
        leaf = values.clone().requires_grad_()
        rows, graph_token = packed(leaf)
        y = layer(rows, graph_token, mask.reshape(-1)).view_as(x)
        y[counted].square().sum().backward()
        gradients.append(leaf.grad)
        assert leaf.grad is not None
        assert not leaf.grad[~counted].any()
    torch.testing.assert_close(gradients[0], gradients[1])
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=0, atol=0)


def test_masked_batch_norm_without_a_mask_equals_that_of_torch() -> None:
    """Values, gradients and running statistics over several steps, then evaluation mode."""
    ours, theirs = MaskedBatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)
    for step in range(3):
        x = some_input(step).reshape(-1, WIDTH).requires_grad_()
        x_theirs = x.detach().clone().requires_grad_()
        torch.testing.assert_close(ours(x), theirs(x_theirs))
        weight = torch.randn(x.shape)
        (ours(x) * weight).sum().backward()
        (theirs(x_theirs) * weight).sum().backward()
        torch.testing.assert_close(x.grad, x_theirs.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x = some_input(9).reshape(-1, WIDTH)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_masked_batch_norm_without_running_statistics_uses_those_of_the_batch() -> None:
    """track_running_stats=False: evaluation normalises by the batch, as in torch."""
    ours = MaskedBatchNorm1d(WIDTH, track_running_stats=False).eval()
    theirs = nn.BatchNorm1d(WIDTH, track_running_stats=False).eval()
    x, mask = some_input(), some_mask()
    torch.testing.assert_close(ours(x, mask)[mask], theirs(x[mask]))


def test_masked_batch_norm_gradcheck() -> None:
    """First and second derivatives through the statistics equal finite differences."""
    norm = perturbed(MaskedBatchNorm1d(3)).double()
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([True, True, False, True, False, True, True])
    parameters = tuple(norm.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: norm(x, mask), (x, *parameters))
    assert torch.autograd.gradgradcheck(lambda x, *_: norm(x, mask), (x, *parameters))


def test_gradients_of_each_sample_by_torch_func() -> None:
    """vmap over grad equals a loop; with statistics of the batch and without running ones."""
    norm = perturbed(MaskedBatchNorm1d(WIDTH, track_running_stats=False)).double()
    parameters = dict(norm.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor, mask: Tensor) -> Tensor:
        return torch.func.functional_call(norm, parameters, (x, mask)).pow(3).sum()

    x, mask = some_input(dtype=torch.float64), some_mask()
    mask[:, :3] = True
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, mask)
    for index in range(GRAPHS):
        one = torch.autograd.grad(loss(parameters, x[index], mask[index]), [*parameters.values()])
        for name, gradient in zip(parameters, one, strict=True):
            torch.testing.assert_close(each[name][index], gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.claim("Autocast to bfloat16 keeps statistics in float32.")
def test_autocast_keeps_statistics_in_float32() -> None:
    """Under bfloat16 autocast the statistics are those of a float32 computation."""
    norm = SepNorm(WIDTH, tok_norm=nn.BatchNorm1d)
    mask = some_mask()
    with torch.autocast("cpu", torch.bfloat16):
        x = nn.Linear(WIDTH, WIDTH)(some_input())
        assert x.dtype == torch.bfloat16
        y = norm(x, mask=mask)
    assert y.dtype == torch.bfloat16
    for layer, rows in ((norm.cls_norm, x[:, 0]), (norm.tok_norm, x[mask])):
        assert layer.running_mean.dtype == layer.running_var.dtype == torch.float32
        rows = rows.detach().float()
        torch.testing.assert_close(layer.running_mean, 0.1 * rows.mean(0), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.running_var, 0.9 + 0.1 * rows.var(0), rtol=1e-5, atol=1e-6)


@pytest.mark.claim("A batch of one graph is refused in training, with advice, and evaluated.")
def test_one_graph_cannot_train_but_can_be_evaluated() -> None:
    """A batch norm of a single graph token has no variance."""
    norm = SepNorm(WIDTH)
    x = some_input()[:1]
    with pytest.raises(ValueError, match="cannot train on a batch of one graph"):
        norm(x)
    with pytest.raises(ValueError, match="cannot train on a batch of one graph"):
        norm(x[0], torch.tensor([0]))
    assert int(norm.cls_norm.num_batches_tracked) == 0
    assert norm.eval()(x).isfinite().all()
    assert SepNorm(WIDTH, cls_norm=nn.LayerNorm)(x).isfinite().all()


def test_a_single_token_cannot_train_a_masked_batch_norm() -> None:
    norm = MaskedBatchNorm1d(WIDTH)
    with pytest.raises(ValueError, match="cannot train on 1 token"):
        norm(torch.randn(1, WIDTH))
    assert norm.eval()(torch.randn(1, WIDTH)).shape == (1, WIDTH)


def test_an_identity_does_not_write_to_its_input() -> None:
    """With tok_norm=nn.Identity; gradients are right."""
    norm = SepNorm(WIDTH, tok_norm=nn.Identity)
    x = some_input()
    before = x.clone()
    rows, graph_token = packed(x)
    y = norm(rows, graph_token).view_as(x)
    torch.testing.assert_close(x, before, rtol=0, atol=0)
    torch.testing.assert_close(y[:, 1:], x[:, 1:], rtol=0, atol=0)
    assert not torch.allclose(y[:, 0], x[:, 0])
    leaf = some_input().requires_grad_()
    norm(leaf).square().sum().backward()
    torch.testing.assert_close(leaf.grad[:, 1:], 2 * x[:, 1:])


def test_shared_layer_norm_is_a_layer_norm() -> None:
    """The default of SharedNorm, in both layouts."""
    norm = perturbed(SharedNorm(WIDTH))
    x = some_input()
    rows, graph_token = packed(x)
    torch.testing.assert_close(norm(x), norm.norm(x), rtol=0, atol=0)
    torch.testing.assert_close(
        norm(rows, graph_token, some_mask().reshape(-1)), norm.norm(rows), rtol=0, atol=0
    )


@pytest.mark.parametrize("layout", ["packed", "rectangular"])
def test_shared_batch_norm_counts_tokens_and_atoms(layout: str) -> None:
    """Its statistics are those of atoms and graph tokens, without padding."""
    norm, theirs = SharedNorm(WIDTH, nn.BatchNorm1d), nn.BatchNorm1d(WIDTH)
    x, mask = some_input(), some_mask()
    counted = mask.clone()
    counted[:, 0] = True
    y = normalised(norm, x, mask, layout)
    torch.testing.assert_close(y[counted], theirs(x[counted]))
    torch.testing.assert_close(norm.norm.running_mean, theirs.running_mean)
    torch.testing.assert_close(norm.norm.running_var, theirs.running_var)


def test_in_evaluation_a_graph_has_no_effect_on_others() -> None:
    """If a graph changes, all slots of other graphs keep their bits, for all kinds of norms."""
    for cls_norm in (nn.BatchNorm1d, nn.LayerNorm):
        for tok_norm in (nn.LayerNorm, nn.BatchNorm1d, nn.Identity):
            norm = perturbed(SepNorm(WIDTH, cls_norm, tok_norm))
            norm(some_input())
            norm.eval()
            x = some_input(1)
            changed = x.clone()
            changed[2] = 1e3 * torch.randn(SLOTS, WIDTH)
            expected, y = norm(x), norm(changed)
            others = [graph for graph in range(GRAPHS) if graph != 2]
            torch.testing.assert_close(y[others], expected[others], rtol=0, atol=0)
            assert not torch.allclose(y[2], expected[2])
            # if only atoms change, their own graph token keeps its bits, too
            changed = x.clone()
            changed[2, 1:] = 1e3 * torch.randn(SLOTS - 1, WIDTH)
            torch.testing.assert_close(norm(changed)[:, 0], expected[:, 0], rtol=0, atol=0)


@pytest.mark.claim("Atom tokens under a layer norm never depend on batch statistics.")
def test_atom_tokens_do_not_depend_on_the_batch() -> None:
    """With the published norms, in training, a changed graph changes the tokens of other graphs
    through the variance of the batch, but no bit of their atoms and the atoms' gradients."""
    norm = perturbed(SepNorm(WIDTH))
    x = some_input()
    changed = x.clone()
    changed[2] = 50 * torch.randn(SLOTS, WIDTH)
    weight = torch.randn(x.shape)
    weight[:, 0] = 0  # the loss reads only atoms
    results = []
    for values in (x, changed):
        leaf = values.clone().requires_grad_()
        y = norm(leaf)
        (y * weight).sum().backward()
        results.append((y.detach(), leaf.grad))
    others = [graph for graph in range(GRAPHS) if graph != 2]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one[others, 1:], other[others, 1:], rtol=0, atol=0)
    assert not torch.allclose(results[0][0][others, 0], results[1][0][others, 0])
    assert not results[0][1][:, 0].any()


@pytest.mark.claim("SepNorm and the masked batch norm equal loops over single numbers.")
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), graphs=st.integers(2, 7), slots=st.integers(2, 9))
def test_equals_plain_loops_over_graphs_slots_and_channels(
    seed: int, graphs: int, slots: int
) -> None:
    """Both kinds of norm, for any sizes and any padding, in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(graphs, slots, 3, generator=generator, dtype=torch.float64) + 1
    atoms = torch.randint(1, slots, (graphs,), generator=generator).tolist()
    mask = torch.tensor([[1 <= slot <= n for slot in range(slots)] for n in atoms])
    for tok_norm in (nn.LayerNorm, nn.BatchNorm1d):
        norm = perturbed(SepNorm(3, tok_norm=tok_norm)).double()
        y = norm(x, mask=mask)
        for channel in range(3):
            token = [x[graph, 0, channel].item() for graph in range(graphs)]
            real = [
                x[graph, slot, channel].item()
                for graph in range(graphs)
                for slot in range(1, atoms[graph] + 1)
            ]
            for graph in range(graphs):
                expected = _normalised(token, token[graph], norm.cls_norm, channel)
                assert y[graph, 0, channel].item() == pytest.approx(expected, rel=1e-8, abs=1e-8)
                for slot in range(1, atoms[graph] + 1):
                    value = x[graph, slot, channel].item()
                    row = x[graph, slot].tolist() if tok_norm is nn.LayerNorm else real
                    expected = _normalised(row, value, norm.tok_norm, channel)
                    got = y[graph, slot, channel].item()
                    assert got == pytest.approx(expected, rel=1e-8, abs=1e-8)


def _normalised(among: list[float], value: float, norm: nn.Module, channel: int) -> float:
    mean = math.fsum(among) / len(among)
    variance = math.fsum((number - mean) ** 2 for number in among) / len(among)
    scaled = (value - mean) / math.sqrt(variance + 1e-5)
    return scaled * norm.weight[channel].item() + norm.bias[channel].item()


@pytest.mark.claim(
    "torch.compile compiles SepNorm as one graph without changing results; functional_call, "
    "deepcopy and safetensors preserve it."
)
@pytest.mark.parametrize("tok_norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_compiled_equals_eager(tok_norm: type[nn.Module]) -> None:
    """As a single graph: outputs, gradients and running statistics, in training and evaluation, in
    both layouts."""
    torch.manual_seed(6)
    eager = perturbed(SepNorm(WIDTH, tok_norm=tok_norm))
    inner = copy.deepcopy(eager)
    compiled = torch.compile(inner, backend="aot_eager", fullgraph=True)
    mask, weight = some_mask(), torch.randn(GRAPHS, SLOTS, WIDTH)
    gradients = []
    for norm in (eager, compiled):
        x = some_input().requires_grad_()
        y = norm(x, mask=mask)
        (y * weight).sum().backward()
        gradients.append((y, x.grad))
    torch.testing.assert_close(*gradients)
    for (name, one), other in zip(eager.named_parameters(), inner.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    rows, graph_token = packed(some_input(3))
    for training in (True, False):
        eager.train(training), inner.train(training)
        torch.testing.assert_close(
            compiled(rows, graph_token, mask.reshape(-1)),
            eager(rows, graph_token, mask.reshape(-1)),
        )
    for (name, one), other in zip(eager.named_buffers(), inner.buffers(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


# --- synchronised over processes; what needs several is in tests/training/test_distributed.py -----


def test_synchronize_norms_keeps_everything_but_the_class() -> None:
    """Parameters, buffers and their names, the options and the mode are the same."""
    network = nn.Sequential(SepNorm(WIDTH, tok_norm=nn.BatchNorm1d), nn.LayerNorm(WIDTH))
    network[0].cls_norm.eps, network[0].cls_norm.momentum = 0.01, 0.3
    network[0].tok_norm.eval()
    state = network.state_dict(keep_vars=True)
    synchronize_norms(network)
    for norm in (network[0].cls_norm, network[0].tok_norm):
        assert isinstance(norm, MaskedBatchNorm1d)
        assert norm.synchronized
    assert network[0].cls_norm.training
    assert not network[0].tok_norm.training
    assert (network[0].cls_norm.eps, network[0].cls_norm.momentum) == (0.01, 0.3)
    after = network.state_dict(keep_vars=True)
    assert list(after) == list(state)
    assert all(after[name] is value for name, value in state.items())
    assert copy.deepcopy(network)[0].cls_norm.synchronized


def test_a_synchronised_norm_of_one_process_is_the_plain_one() -> None:
    """Without torch.distributed: values, gradients, statistics and errors."""
    torch.manual_seed(6)
    plain = perturbed(SepNorm(WIDTH))
    ours = copy.deepcopy(plain)
    synchronize_norms(ours)
    weight = torch.randn(GRAPHS, SLOTS, WIDTH)
    leaves = [some_input().requires_grad_() for _ in range(2)]
    for norm, leaf in zip((plain, ours), leaves, strict=True):
        (norm(leaf) * weight).sum().backward()
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    with pytest.raises(ValueError, match="cannot train on a batch of one graph"):
        ours(some_input()[:1])


@pytest.mark.claim("Under gradient accumulation, statistics are computed for each micro-batch.")
def test_gradient_accumulation_normalises_each_micro_batch_separately() -> None:
    """Each micro-batch is normalised by its own statistics, gradients are summed, and running
    statistics are updated once per micro-batch. As with any batch norm, the step is not that of the
    whole batch. With two layer norms it is."""
    x, weight = some_input(), torch.randn(GRAPHS, SLOTS, WIDTH)
    halves = slice(0, GRAPHS // 2), slice(GRAPHS // 2, GRAPHS)
    accumulated, whole, apart = (SepNorm(WIDTH) for _ in range(3))
    gradients = []
    for half in halves:
        (accumulated(x[half]) * weight[half]).sum().backward()
        apart.zero_grad()
        (apart(x[half]) * weight[half]).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in apart.parameters()])
    (whole(x) * weight).sum().backward()
    for parameter, first, second in zip(accumulated.parameters(), *gradients, strict=True):
        torch.testing.assert_close(parameter.grad, first + second)
    assert not torch.allclose(accumulated.cls_norm.weight.grad, whole.cls_norm.weight.grad)

    means = [x[half, 0].mean(0) for half in halves]
    torch.testing.assert_close(
        accumulated.cls_norm.running_mean, 0.9 * 0.1 * means[0] + 0.1 * means[1]
    )
    assert int(accumulated.cls_norm.num_batches_tracked) == 2

    parts, whole = (SepNorm(WIDTH, cls_norm=nn.LayerNorm) for _ in range(2))
    for half in halves:
        (parts(x[half]) * weight[half]).sum().backward()
    (whole(x) * weight).sum().backward()
    for one, other in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
