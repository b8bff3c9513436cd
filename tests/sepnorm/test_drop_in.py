"""SepNorm in the place of the published module, for every norm that the published one accepts."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm import (
    MultiTokenSepNorm,
    SepNorm,
    SharedNorm,
    synchronize_norms,
)

WIDTH = 8
Factory = Callable[[int], nn.Module]


class Published(nn.Module):
    """The published equations."""

    def __init__(self, cls_norm: Factory = nn.BatchNorm1d, tok_norm: Factory = nn.LayerNorm):
        super().__init__()
        self.cls_norm_layer, self.tok_norm_layer = cls_norm(WIDTH), tok_norm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.cls_norm_layer(x[:, 0])[:, None], self.tok_norm_layer(x[:, 1:])], 1)


class OverSlots(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-2, keepdim=True)) / x.std(-2, keepdim=True)


class Transposed(nn.BatchNorm1d):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.mT).mT


class Subclass(nn.BatchNorm1d):
    pass


def perturbed(norm: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(torch.randn_like(parameter))
    return norm


def some_input() -> Tensor:  # (n, l, d)
    x = torch.randn(6, 5, WIDTH, generator=torch.Generator().manual_seed(0)) + 2
    x[:, 0] += 10
    return x


def padded() -> tuple[Tensor, Tensor, Tensor]:
    """Sequences (n, l, d), their mask, and the right output (k, d) of a batch norm of tokens."""
    mask = torch.ones(6, 5, dtype=torch.bool)
    mask[:, 0], mask[:3, 3:] = False, False
    x = torch.where(mask[..., None], some_input(), -100)
    real = x[mask]
    return x, mask, (real - real.mean(0)) / (real.var(0, correction=0) + 1e-5).sqrt()


@pytest.mark.parametrize("make", [SepNorm, MultiTokenSepNorm])
@pytest.mark.parametrize(
    "tok_norm", [nn.LayerNorm, OverSlots, Transposed, lambda _: nn.InstanceNorm1d(4)]
)
def test_every_norm_of_the_tokens_gets_what_the_published_module_passes(
    make: type[SepNorm], tok_norm: Factory
) -> None:
    """Values and gradients."""
    ours, theirs = (
        perturbed(make(WIDTH, tok_norm=tok_norm)),
        perturbed(Published(tok_norm=tok_norm)),
    )
    leaves = [some_input().requires_grad_() for _ in range(2)]
    outputs = [norm(x) for norm, x in zip((ours, theirs), leaves, strict=True)]
    torch.testing.assert_close(*outputs)
    for y in outputs:
        y.pow(3).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("make", [SepNorm, MultiTokenSepNorm])
def test_the_state_of_the_published_module_is_loaded(make: type[SepNorm]) -> None:
    theirs = perturbed(Published())
    theirs(some_input())
    ours = nn.ModuleDict({"norm": make(WIDTH)})
    ours.load_state_dict(nn.ModuleDict({"norm": theirs}).state_dict())
    x = some_input() + 1
    torch.testing.assert_close(ours.eval()["norm"](x), theirs.eval()(x))


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, Subclass, nn.SyncBatchNorm])
@pytest.mark.parametrize("make", [SepNorm, MultiTokenSepNorm, SharedNorm])
@pytest.mark.parametrize("converted", [False, True])
def test_batch_norms_count_real_tokens_only(make: type, kind: Factory, converted: bool) -> None:
    """Also after torch's conversion to synchronised norms."""
    x, mask, right = padded()
    norm = make(WIDTH, kind) if make is SharedNorm else make(WIDTH, tok_norm=kind)
    if converted:
        norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(norm))[0]
        assert norm.tok_norm.synchronized
    if make is SharedNorm:  # it counts the graph token, too
        counted = mask.clone()
        counted[:, 0] = True
        right = nn.BatchNorm1d(WIDTH)(x[counted])
        torch.testing.assert_close(norm(x, mask=mask)[counted], right)
    else:
        torch.testing.assert_close(norm(x, mask=mask)[mask], right)


@pytest.mark.parametrize("kind", [Transposed, pyg.BatchNorm])
@pytest.mark.parametrize("make", [SepNorm, MultiTokenSepNorm, SharedNorm])
def test_batch_norms_that_cannot_read_a_mask_are_refused_with_one(
    make: type, kind: Factory
) -> None:
    """Also if one is assigned afterwards."""
    x, mask, _ = padded()
    norm = make(WIDTH, kind) if make is SharedNorm else make(WIDTH, tok_norm=kind)
    with pytest.raises(ConfigError):
        norm(x, mask=mask)
    replaced = make(WIDTH)
    setattr(replaced, "norm" if make is SharedNorm else "tok_norm", nn.BatchNorm1d(WIDTH))
    with pytest.raises(ConfigError):
        replaced(x, mask=mask)


@pytest.mark.parametrize("make", [SepNorm, SharedNorm])
def test_packed_rows_are_refused_for_a_norm_of_sequences(make: type) -> None:
    norm = make(WIDTH, OverSlots) if make is SharedNorm else make(WIDTH, tok_norm=OverSlots)
    with pytest.raises(ConfigError):
        norm(some_input().flatten(0, 1), torch.arange(0, 30, 5))


@pytest.mark.parametrize("length", [5, WIDTH])
def test_synchronize_norms_keeps_channels_at_dimension_1(length: int) -> None:
    """In training and evaluation, for sequences and images, without an affine part or bias."""
    x = torch.randn(4, 3, length, length) + 1
    network = nn.Sequential(
        nn.Conv2d(3, WIDTH, 1),
        nn.BatchNorm2d(WIDTH),
        nn.Flatten(2),
        nn.BatchNorm1d(WIDTH, bias=False),
    )
    ours = copy.deepcopy(network)
    synchronize_norms(ours)
    assert ours[1].synchronized
    for training in (True, False):
        torch.testing.assert_close(ours.train(training)(x), network.train(training)(x))
    with pytest.raises(ConfigError):
        synchronize_norms(nn.Sequential(Transposed(WIDTH)))


def test_torch_fx_traces_what_it_traces_of_the_published_module() -> None:
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), perturbed(SepNorm(WIDTH)))
    traced = torch.fx.symbolic_trace(copy.deepcopy(network))
    torch.testing.assert_close(traced(some_input()), network(some_input()))
    torch.testing.assert_close(
        torch.fx.symbolic_trace(network[1])(some_input()), network[1](some_input())
    )
    with pytest.raises(ConfigError):
        torch.fx.symbolic_trace(SepNorm(WIDTH, tok_norm=nn.BatchNorm1d))


def test_empty_nested_sequences_have_no_graph_token() -> None:
    norm = SepNorm(WIDTH)
    rows = [torch.randn(3, WIDTH), torch.randn(0, WIDTH), torch.randn(2, WIDTH)]
    nested = norm(torch.nested.nested_tensor(rows)).unbind()
    token = torch.stack([rows[0][0], rows[2][0]])
    expected = nn.BatchNorm1d(WIDTH)(token)
    assert nested[1].shape == (0, WIDTH)
    torch.testing.assert_close(torch.stack([nested[0][0], nested[2][0]]), expected)
    torch.testing.assert_close(nested[2][1:], norm.tok_norm(rows[2][1:]))
