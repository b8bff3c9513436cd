"""The checks of single operations pass as things are, and fail where one is broken."""

from __future__ import annotations

import fast_paths
import pytest
import torch

from molsepnorm.devices import layers
from molsepnorm.nn.kernels import attention
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.sepnorm import batch_norm, kernels

CPU = torch.device("cpu")


def test_all_pass():
    for verdict in (
        layers.check_attention(CPU),
        layers.check_attention(CPU, dropout=0.0),
        layers.check_batch_norm(),
        layers.check_dropout(),
    ):
        assert verdict.passed, str(verdict)


def test_a_wrong_attention(monkeypatch):
    plain = attention._exponentials

    def wrong(*args):
        weights, total = plain(*args)
        return weights, total * 1.001

    monkeypatch.setattr(attention, "_exponentials", wrong)
    assert not layers.check_attention(CPU).passed


def test_a_wrong_gradient_of_attention(monkeypatch):
    plain = attention._Attend.backward

    def wrong(ctx, grad):
        first, *rest = plain(ctx, grad)
        return (first * 1.001, *rest)

    monkeypatch.setattr(attention._Attend, "backward", staticmethod(wrong))
    verdict = layers.check_attention(CPU)
    assert verdict.figures["outputs"] < 1e-6
    assert verdict.figures["gradients"] > 5e-4


def test_a_wrong_batch_norm(monkeypatch):
    def all_rows(x, counts, count, *others):
        return kernels.normalize(x, torch.ones_like(counts), torch.tensor(len(x)), *others)

    monkeypatch.setattr(batch_norm, "normalize", all_rows)
    assert not layers.check_batch_norm().passed


def test_a_wrong_dropout(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ByteDropout, "add", lambda self, residual, x: residual + x)
        assert not layers.check_dropout().passed
    monkeypatch.setattr(ByteDropout, "dropout_mask", lambda self, x: torch.ones_like(x).byte())
    assert (
        layers.check_dropout().error == "ValueError: 1.000 of the elements are kept, expected 0.75"
    )


def test_dropout_of_the_kernels(monkeypatch):
    """By Triton's interpreter; and by a function whose masks have another share."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    verdict = layers.check_fused_dropout(CPU, heads=2, size=16, bound=1e-5)
    assert verdict.passed, str(verdict)
    monkeypatch.setattr(
        layers, "fused_attention", lambda qkv, bias, *_: fast_paths.attend(qkv, bias, 26, 256 / 230)
    )
    verdict = layers.check_fused_dropout(CPU, heads=2, size=16, bound=1e-5)
    assert not verdict.passed


def test_dropout_of_the_kernels_in_bfloat16(monkeypatch):
    """By a function in place of the kernels; and it fails where that is 10 % off."""
    for factor, passes in ((1.0, True), (1.1, False)):
        monkeypatch.setattr(
            layers, "fused_attention", lambda *of, f=factor: fast_paths.attend(*of) * f
        )
        verdict = layers.check_fused_dropout(CPU, 2, 16, 0.06, torch.bfloat16)
        assert verdict.passed is passes, str(verdict)
