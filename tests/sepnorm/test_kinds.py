"""Every kind of norm, by itself and inside SepNorm."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from molsepnorm.sepnorm import MaskedBatchNorm1d, SepNorm, SharedNorm

WIDTH = 3
KINDS = {
    "layer": nn.LayerNorm,
    "batch": nn.BatchNorm1d,
    "rms": partial(nn.RMSNorm, eps=1e-5),
    "none": nn.Identity,
}
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def some_rows(seed: int = 0, rows: int = 8) -> Tensor:
    """(m, d) in float64, with a different mean and spread in each channel."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    return x * torch.tensor([0.5, 1.0, 3.0]) + torch.tensor([4.0, 0.0, -1.0])


def perturbed(norm: nn.Module, seed: int = 7) -> nn.Module:
    """The norm in float64 with random parameters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in norm.double().parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return norm


@pytest.mark.parametrize("options", [{"momentum": 0.01}, {"eps": 0.1}, {"affine": False}])
def test_a_batch_norm_of_the_tokens_keeps_its_options(options: dict) -> None:
    """The masked batch norm shares the parameters and options of the `nn.BatchNorm1d`."""
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
def test_sepnorm_of_any_two_kinds_equals_the_two_norms(cls_kind: str, tok_kind: str) -> None:
    """In training and evaluation, in float64; the gradients equal finite differences, also for
    packed rows, which are overwritten in place."""
    norm = SepNorm(WIDTH, KINDS[cls_kind], KINDS[tok_kind])
    for module in norm.modules():
        module.momentum = 0.0  # so that the finite differences leave running statistics alone
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
    token = torch.arange(0, 12, 4)
    assert torch.autograd.gradcheck(lambda x, *_: norm(x.flatten(0, 1), token), inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_read_from_the_device(kind: str) -> None:
    """Tensors on the device "meta" have shapes but no numbers, so reading one fails."""
    with torch.device("meta"):
        norm = SepNorm(WIDTH, KINDS[kind], KINDS[kind])
        rows = torch.randn(12, WIDTH, requires_grad=True)
        token, mask = torch.arange(0, 12, 4), torch.ones(12, dtype=torch.bool)
        y = norm(rows, token, mask)
        y.sum().backward()
    assert y.shape == rows.grad.shape == (12, WIDTH)
    norm.eval()(rows, token, mask)
