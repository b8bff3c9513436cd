"""The mixed norm and batch renormalisation against plain loops, and every kind inside SepNorm."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.nn import MaskedBatchNorm1d, SepNorm, SharedNorm
from molsepnorm.sepnorm.batch_norm import synchronize_norms
from molsepnorm.sepnorm.kinds import BATCH_KINDS, BatchRenorm1d, MixNorm, make_norm
from molsepnorm.training.statistics import estimate_statistics

WIDTH = 3
KINDS = ("layer", "batch", "rms", "none", "mix", "renorm")
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def some_rows(seed: int = 0, rows: int = 8) -> Tensor:
    """(m, d) in float64, each channel of another mean and spread."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    return x * torch.tensor([0.5, 1.0, 3.0]) + torch.tensor([4.0, 0.0, -1.0])


def perturbed(norm: nn.Module, seed: int = 7) -> nn.Module:
    """The norm in float64 with parameters that tell channels apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in norm.double().parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return norm


def opened(**options: float) -> BatchRenorm1d:
    """A batch renormalisation whose limits are already where they rise to."""
    norm = BatchRenorm1d(WIDTH, start=0, rise=1, **options).double()
    norm.steps.fill_(1)
    return norm


def lagging(norm: nn.Module) -> nn.Module:
    """The norm with running statistics that are near `some_rows`' but not the same."""
    norm.running_mean.copy_(torch.tensor([3.5, 0.2, -2.0]))
    norm.running_var.copy_(torch.tensor([0.4, 1.5, 6.0]))
    return norm


def mean_and_variance(numbers: list[float]) -> tuple[float, float]:
    mean = math.fsum(numbers) / len(numbers)
    return mean, math.fsum((number - mean) ** 2 for number in numbers) / len(numbers)


def clip(number: float, least: float, most: float) -> float:
    return min(max(number, least), most)


# --- against plain loops -------------------------------------------------------------------------


class Loops:
    """Both norms, number by number, with the running statistics as lists."""

    def __init__(self, norm: nn.Module) -> None:
        self.norm = norm
        self.mean, self.variance, self.steps = [0.0] * WIDTH, [1.0] * WIDTH, 0

    def __call__(self, x: list[list[float]], real: list[bool], training: bool) -> list[list[float]]:
        y = [[0.0] * WIDTH for _ in x]
        for channel in range(WIDTH):
            column = [row[channel] for row, counts in zip(x, real, strict=True) if counts]
            batch = mean_and_variance(column)
            running = self.mean[channel], self.variance[channel]
            for row, numbers in enumerate(x):
                one = self.mixed if isinstance(self.norm, MixNorm) else self.renormalised
                value = one(numbers, channel, batch if training else running, running)
                weight, bias = self.norm.weight[channel].item(), self.norm.bias[channel].item()
                y[row][channel] = value * weight + bias
            if training:
                unbiased = batch[1] * len(column) / (len(column) - 1)
                self.mean[channel] += 0.1 * (batch[0] - running[0])
                self.variance[channel] += 0.1 * (unbiased - running[1])
        self.steps += training
        return y

    def mixed(self, row: list[float], channel: int, batch, running) -> float:
        own = mean_and_variance(row)
        a, b = (1 / (1 + math.exp(-logit)) for logit in self.norm.mix.tolist())
        mean = a * own[0] + (1 - a) * batch[0]
        variance = b * own[1] + (1 - b) * batch[1]
        return (row[channel] - mean) / math.sqrt(variance + 1e-5)

    def renormalised(self, row: list[float], channel: int, batch, running) -> float:
        spread, of_running = math.sqrt(batch[1] + 1e-5), math.sqrt(running[1] + 1e-5)
        risen = clip((self.steps - 1) / 2, 0, 1)
        most, furthest = 1 + (1.5 - 1) * risen, 0.5 * risen
        r = clip(spread / of_running, 1 / most, most)
        d = clip((batch[0] - running[0]) / of_running, -furthest, furthest)
        return (row[channel] - batch[0]) / spread * r + d


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(2, 7), padding=st.integers(0, 3))
def test_equals_plain_loops(seed: int, rows: int, padding: int) -> None:
    """Four steps of training with padding among the rows, and an evaluation; in float64."""
    real = torch.tensor([True] * rows + [False] * padding)
    real = real[torch.randperm(len(real), generator=torch.Generator().manual_seed(seed))]
    renorm = BatchRenorm1d(WIDTH, largest_scale=1.5, largest_shift=0.5, start=1, rise=2)
    for norm in (MixNorm(WIDTH), renorm):
        loops = Loops(perturbed(norm))
        for step in range(5):
            x = some_rows(seed + step, rows + padding)
            norm.train(step < 4)
            expected = loops(x.tolist(), real.tolist(), norm.training)
            torch.testing.assert_close(
                norm(x, real), torch.tensor(expected, dtype=x.dtype), rtol=1e-6, atol=1e-6
            )
        torch.testing.assert_close(norm.running_mean, torch.tensor(loops.mean).double())
        torch.testing.assert_close(norm.running_var, torch.tensor(loops.variance).double())


# --- the mixed norm ------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("logit", "theirs"), [(40.0, nn.LayerNorm), (-40.0, nn.BatchNorm1d)])
def test_mix_at_either_end_is_layer_or_batch_norm(logit: float, theirs, training: bool) -> None:
    """Values, the gradients of input and affine part, and running statistics."""
    norm, end = perturbed(MixNorm(WIDTH)), theirs(WIDTH).double()
    with torch.no_grad():
        norm.mix.fill_(logit)
    state = {name: value for name, value in norm.state_dict().items() if name in end.state_dict()}
    end.load_state_dict(state)
    norm.train(training), end.train(training)
    leaves = [some_rows().requires_grad_() for _ in range(2)]
    for layer, leaf in zip((norm, end), leaves, strict=True):
        (layer(leaf) * some_rows(1)).sum().backward()
    torch.testing.assert_close(norm(leaves[0]), end(leaves[1]), **EXACT)
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **EXACT)
    torch.testing.assert_close(norm.weight.grad, end.weight.grad, **EXACT)
    for name in set(end.state_dict()) - {"weight", "bias"}:
        torch.testing.assert_close(norm.state_dict()[name], end.state_dict()[name])


@pytest.mark.parametrize("training", [True, False])
def test_mix_gradcheck(training: bool) -> None:
    """Through both kinds of statistics, and to the mixing weights."""
    norm = lagging(perturbed(MixNorm(WIDTH))).train(training)
    mask = torch.tensor([True, True, False, True, True])
    inputs = (some_rows(rows=5).requires_grad_(), *norm.parameters())
    assert len(inputs) == 4
    assert torch.autograd.gradcheck(lambda x, *_: norm(x, mask), inputs)


def test_mix_evaluates_as_it_trains_where_the_statistics_are_the_batchs() -> None:
    norm, x = perturbed(MixNorm(WIDTH)), some_rows()
    expected = norm(x)
    norm.running_mean.copy_(x.mean(0))
    norm.running_var.copy_(x.var(0, correction=0))
    torch.testing.assert_close(norm.eval()(x), expected, **EXACT)


def test_mix_of_tokens_that_are_all_alike_is_their_layer_norm_scaled() -> None:
    """As before the first layer: no variance over the batch, but nothing blows up."""
    token = some_rows(rows=1)
    y = MixNorm(WIDTH).double()(token.expand(6, -1))
    layer = nn.LayerNorm(WIDTH, eps=2e-5).double()  # half of its variance counts, all of its eps
    torch.testing.assert_close(y, (layer(token) * 0.5**0.5).expand(6, -1), **EXACT)


# --- batch renormalisation -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"start": 4}, {"start": 0, "rise": 1, "largest_scale": 1, "largest_shift": 0}]
)
def test_renorm_is_batch_norm_before_it_starts_and_at_the_narrowest_limits(options: dict) -> None:
    """Values, gradients, running statistics; with limits r = 1 and d = 0 that never rise."""
    norm, theirs = perturbed(BatchRenorm1d(WIDTH, **options)), nn.BatchNorm1d(WIDTH).double()
    theirs.load_state_dict({k: v for k, v in norm.state_dict().items() if k != "steps"})
    for step in range(4):
        leaves = [some_rows(step).requires_grad_() for _ in range(2)]
        outputs = [layer(leaf) for layer, leaf in zip((norm, theirs), leaves, strict=True)]
        torch.testing.assert_close(*outputs, **EXACT)
        for output in outputs:
            (output * some_rows(9)).sum().backward()
        torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **EXACT)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value)
    torch.testing.assert_close(norm.eval()(some_rows()), theirs.eval()(some_rows()), **EXACT)


def test_renorm_within_its_limits_trains_on_what_it_evaluates_to() -> None:
    """Then no token depends on the others of its batch; outside of the limits it does."""
    norm, x = lagging(perturbed(opened(largest_scale=10.0))), some_rows()
    narrow = copy.deepcopy(norm)
    narrow.largest_shift = 0.1
    expected = copy.deepcopy(norm).eval()(x)
    torch.testing.assert_close(copy.deepcopy(norm)(x), expected, **EXACT)
    torch.testing.assert_close(copy.deepcopy(norm)(x[:5]), expected[:5], **EXACT)
    assert not torch.allclose(narrow(x), expected, atol=0.1)


def test_renorm_s_gradient_takes_r_and_d_as_constants() -> None:
    """It is that of batch norm times r, whatever the running statistics say."""
    norm, x = lagging(perturbed(opened())), some_rows()
    sigma = (norm.running_var + 1e-5).sqrt()
    r = (x.var(0, correction=0) + 1e-5).sqrt() / sigma
    d = (x.mean(0) - norm.running_mean) / sigma
    weight = some_rows(1)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    (norm(leaf) * weight).sum().backward()
    standard = (other - other.mean(0)) / (other.var(0, correction=0) + 1e-5).sqrt()
    ((standard * r + d) * norm.weight.detach() * weight).sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad, **EXACT)
    torch.testing.assert_close(norm.weight.grad, ((standard * r + d) * weight).sum(0), **EXACT)


def test_renorm_gradcheck_at_its_limits() -> None:
    """Clipped r and d are constants, so there the gradient is the true one."""
    norm = lagging(perturbed(opened(largest_scale=1.01, largest_shift=0.01, momentum=0.0)))
    mask = torch.tensor([True, True, False, True, True])
    inputs = (some_rows(rows=5).requires_grad_(), *norm.parameters())
    assert not torch.allclose(norm(inputs[0]), copy.deepcopy(norm).eval()(inputs[0]))
    assert torch.autograd.gradcheck(lambda x, *_: norm(x, mask), inputs)


def test_renorm_s_limits_rise_with_the_training_steps() -> None:
    """Evaluation is no step; the next step's limits are told."""
    norm = BatchRenorm1d(WIDTH, largest_scale=3, largest_shift=8, start=2, rise=4).double()
    told = []
    for _ in range(8):
        told.append([limit.item() for limit in norm.limits()])
        norm.train()(some_rows())
        norm.eval()(some_rows())
    assert told == [
        *([1, 0], [1, 0], [1, 0]),
        *([1.5, 2], [2, 4], [2.5, 6], [3, 8], [3, 8]),
    ]


def test_renorm_s_limits_stay_while_statistics_are_estimated() -> None:
    """An estimate is batch norm's own and no training step; then training goes on as it was."""
    norm = lagging(opened())
    plain = nn.BatchNorm1d(WIDTH).double()
    batches = [some_rows(seed) for seed in range(3)]
    followed = [nn.Sequential(layer, nn.BatchNorm1d(WIDTH).double()) for layer in (norm, plain)]
    for network in followed:
        estimate_statistics(network, batches)
    for one, other in zip(*(network.modules() for network in followed), strict=True):
        if isinstance(one, nn.BatchNorm1d):
            torch.testing.assert_close(one.running_mean, other.running_mean)
            torch.testing.assert_close(one.running_var, other.running_var)
    torch.testing.assert_close(norm.running_mean, torch.stack([x.mean(0) for x in batches]).mean(0))
    assert (norm.momentum, int(norm.steps)) == (0.1, 1)
    torch.testing.assert_close(norm.limits()[0], torch.tensor(3.0))


@pytest.mark.parametrize(
    "wrong", [{"largest_scale": 0.5}, {"largest_shift": -1.0}, {"start": -1}, {"rise": 0}]
)
def test_renorm_refuses_limits_that_make_no_sense(wrong: dict) -> None:
    name, value = next(iter(wrong.items()))
    with pytest.raises(ConfigError, match=rf"batch renormalisation needs .*; got .*{name}={value}"):
        BatchRenorm1d(WIDTH, **wrong)


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_statistics_are_estimated_over_batches(kind: str) -> None:
    """As plain batch norm's are, and the momentum comes back."""
    norm = make_norm(kind, momentum=0.25)(WIDTH).double()
    batches = [some_rows(seed, rows) for seed, rows in ((0, 4), (1, 9))]
    norm(some_rows(5) + 100)
    estimate_statistics(norm, batches)
    means, variances = zip(*((x.mean(0), x.var(0)) for x in batches), strict=True)
    torch.testing.assert_close(norm.running_mean, torch.stack(means).mean(0), **EXACT)
    torch.testing.assert_close(norm.running_var, torch.stack(variances).mean(0), **EXACT)
    assert norm.momentum == 0.25
    assert not norm.training


@pytest.mark.parametrize("make", [MixNorm, BatchRenorm1d])
def test_without_affine_part(make: type[MaskedBatchNorm1d]) -> None:
    plain, affine = make(WIDTH, affine=False).double(), make(WIDTH).double()
    torch.testing.assert_close(plain(some_rows()), affine(some_rows()), rtol=0, atol=0)
    assert plain.weight is None


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_reset_parameters_forgets_everything(kind: str) -> None:
    norm = perturbed(make_norm(kind)(WIDTH))
    for step in range(3):
        norm(some_rows(step))
    fresh = make_norm(kind)(WIDTH).double()
    changed = [k for k, v in fresh.state_dict().items() if not torch.equal(norm.state_dict()[k], v)]
    assert changed == list(fresh.state_dict())
    norm.reset_parameters()
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_files_and_copies_go_on_alike(kind: str, tmp_path: Path) -> None:
    """The next training step, after a safetensors file and a deep copy, has the same bits."""
    norm = perturbed(make_norm(kind)(WIDTH))
    for module in norm.modules():
        if isinstance(module, BatchRenorm1d):
            module.steps.fill_(600)
    norm(some_rows(1))
    save_file(norm.state_dict(), tmp_path / "norm.safetensors")
    loaded = make_norm(kind)(WIDTH).double()
    loaded.load_state_dict(load_file(tmp_path / "norm.safetensors"))
    copied = copy.deepcopy(norm)
    expected = norm(some_rows(2))
    for twin in (loaded, copied):
        torch.testing.assert_close(twin(some_rows(2)), expected, rtol=0, atol=0)
        for name, value in norm.state_dict().items():
            assert torch.equal(twin.state_dict()[name], value), name


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_a_single_token_cannot_train(kind: str) -> None:
    norm = make_norm(kind)(WIDTH).double()
    with pytest.raises(ValueError, match="cannot train on 1 token"):
        norm(some_rows(rows=1))
    with pytest.raises(ValueError, match="cannot train on a batch of one graph"):
        SepNorm(WIDTH, make_norm(kind)).double()(some_rows(rows=4)[None])
    assert norm.eval()(some_rows(rows=1)).isfinite().all()


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_bfloat16_comes_back_and_statistics_are_float32(kind: str) -> None:
    norm, exact = make_norm(kind)(WIDTH), make_norm(kind)(WIDTH)
    x = some_rows().bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    assert (y.dtype, norm.running_mean.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(y, exact(x.float()).bfloat16())
    for name, value in exact.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_synchronised_in_a_single_process_nothing_changes(kind: str) -> None:
    """They are found and told; with several processes see tests/training/test_distributed.py."""
    network = SepNorm(WIDTH, make_norm(kind), make_norm(kind)).double()
    twin = copy.deepcopy(network)
    synchronize_norms(network)
    assert type(network.cls_norm) is type(twin.cls_norm)
    assert network.cls_norm.synchronized
    assert network.tok_norm.synchronized
    assert not twin.cls_norm.synchronized
    x = some_rows(rows=12).view(3, 4, WIDTH)
    torch.testing.assert_close(network(x), twin(x), rtol=0, atol=0)


# --- the factory and SepNorm ---------------------------------------------------------------------


def test_kinds() -> None:
    made = {kind: make_norm(kind, momentum=0.25)(WIDTH) for kind in KINDS}
    assert {kind: type(norm) for kind, norm in made.items()} == {
        "layer": nn.LayerNorm,
        "batch": nn.BatchNorm1d,
        "rms": nn.RMSNorm,
        "none": nn.Identity,
        "mix": MixNorm,
        "renorm": BatchRenorm1d,
    }
    with_momentum = {kind for kind, norm in made.items() if hasattr(norm, "momentum")}
    assert with_momentum == BATCH_KINDS
    assert {made[kind].momentum for kind in BATCH_KINDS} == {0.25}


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"one of layer, batch, rms, .*; got 'group'"):
        make_norm("group")


def test_rms_is_the_root_of_the_mean_square() -> None:
    x = some_rows()
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(make_norm("rms")(WIDTH).double()(x), expected, **EXACT)


@pytest.mark.parametrize("options", [{"momentum": 0.01}, {"eps": 0.1}, {"affine": False}])
def test_a_batch_norm_of_the_tokens_keeps_what_it_was_made_with(options: dict) -> None:
    """Whatever makes an nn.BatchNorm1d: the mask-aware one shares its parameters and options."""
    made = []

    def make(width: int) -> nn.Module:
        made.append(perturbed(nn.BatchNorm1d(width, **options)))
        return made[-1]

    norms = SepNorm(WIDTH, tok_norm=make).tok_norm, SharedNorm(WIDTH, make).norm
    for norm, plain in zip(norms, made, strict=True):
        assert type(norm) is MaskedBatchNorm1d
        for name in ("momentum", "eps", "affine"):
            assert getattr(norm, name) == getattr(plain, name)
        for name, value in plain.state_dict(keep_vars=True).items():
            assert norm.state_dict(keep_vars=True)[name] is value
        torch.testing.assert_close(norm(some_rows()), plain(some_rows()), **EXACT)


@pytest.mark.parametrize("tok_kind", KINDS)
@pytest.mark.parametrize("cls_kind", KINDS)
def test_sepnorm_of_any_two_kinds(cls_kind: str, tok_kind: str) -> None:
    """Token and atoms as by the two norms alone, also in evaluation; gradients in float64."""
    norm = SepNorm(WIDTH, make_norm(cls_kind, 0.0), make_norm(tok_kind, 0.0))
    apart = copy.deepcopy(perturbed(norm))
    x = some_rows(rows=12).view(3, 4, WIDTH)
    before = x.clone()
    for training in (True, False):
        norm.train(training), apart.train(training)
        rest = apart.tok_norm(x[:, 1:].reshape(-1, WIDTH)).view(3, 3, WIDTH)
        expected = torch.cat([apart.cls_norm(x[:, 0])[:, None], rest], 1)
        torch.testing.assert_close(norm(x), expected, **EXACT)
    assert torch.equal(x, before)
    norm.train()
    inputs = (x.requires_grad_(), *norm.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: norm(x), inputs)


@pytest.mark.parametrize("kind", ["batch", "mix", "renorm"])
@pytest.mark.parametrize("shared", [False, True])
def test_padding_never_counts(kind: str, shared: bool) -> None:
    """What it holds changes no real slot, no gradient and no statistic; open limits included."""
    slots = torch.arange(6)
    mask = (slots >= 1) & (slots <= torch.tensor([[5], [2], [1], [3]]))
    counted = mask | (slots == 0)
    x = some_rows(rows=24).view(4, 6, WIDTH)
    rubbish = torch.where(counted[..., None], x, 1e3 * x.flip(0, 1))
    results = []
    for values in (x, rubbish):
        make = make_norm(kind)
        norm = SharedNorm(WIDTH, make) if shared else SepNorm(WIDTH, tok_norm=make)
        for module in perturbed(norm).modules():
            if isinstance(module, BatchRenorm1d):
                module.steps.fill_(600)
        leaf = values.clone().requires_grad_()
        y = norm(leaf.view(-1, WIDTH), torch.arange(0, 24, 6), mask.view(-1)).view_as(x)
        (y[counted] * x[counted]).sum().backward()
        gradients = {name: p.grad for name, p in norm.named_parameters()}
        results.append((y[counted], leaf.grad, gradients, dict(norm.named_buffers())))
        assert not leaf.grad[~counted].any()
    torch.testing.assert_close(results[0], results[1], **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_waits_for_the_device(kind: str) -> None:
    """Tensors of the device "meta" have shapes but no numbers: who looks at one fails."""
    with torch.device("meta"):
        norm = SepNorm(WIDTH, make_norm(kind), make_norm(kind))
        rows = torch.randn(12, WIDTH, requires_grad=True)
        token, mask = torch.arange(0, 12, 4), torch.ones(12, dtype=torch.bool)
        y = norm(rows, token, mask)
        y.sum().backward()
    assert y.shape == rows.grad.shape == (12, WIDTH)
    norm.eval()(rows, token, mask)


@pytest.mark.parametrize("kind", ["mix", "renorm"])
def test_compiled_equals_eager(kind: str) -> None:
    """As one graph: outputs, gradients and all that is kept."""
    eager = perturbed(make_norm(kind)(WIDTH))
    inner = copy.deepcopy(eager)
    compiled = torch.compile(inner, backend="aot_eager", fullgraph=True)
    results = []
    for norm in (eager, compiled):
        x = some_rows().requires_grad_()
        y = norm(x, torch.arange(8) < 6)
        (y * some_rows(1)).sum().backward()
        results.append((y, x.grad))
    torch.testing.assert_close(*results, **EXACT)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(inner.state_dict()[name], value, **EXACT)
