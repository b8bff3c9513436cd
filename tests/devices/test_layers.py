"""The checks of the attention pass, and fail where an operation is broken."""

from __future__ import annotations

import fast_paths
import pytest
import torch

from molsepnorm.devices import layers
from molsepnorm.nn.kernels import attention
from molsepnorm.nn.kernels import fused_attention as fused

CPU = torch.device("cpu")


def test_the_attention_equals_its_formula():
    verdict = layers.check_attention(CPU)
    assert verdict.passed, str(verdict)


def test_wrong_outputs_of_attention_are_found(monkeypatch):
    plain = attention._exponentials

    def wrong(*args):
        weights, total = plain(*args)
        return weights, total * 1.001

    monkeypatch.setattr(attention, "_exponentials", wrong)
    assert not layers.check_attention(CPU).passed


def test_wrong_gradients_of_attention_are_found(monkeypatch):
    plain = attention._Attend.backward

    def wrong(ctx, grad):
        first, *rest = plain(ctx, grad)
        return (first * 1.001, *rest)

    monkeypatch.setattr(attention._Attend, "backward", staticmethod(wrong))
    verdict = layers.check_attention(CPU)
    assert verdict.figures["outputs"] < 1e-6
    assert verdict.figures["gradients"] > 5e-4


def test_dropout_of_the_kernels_is_checked(monkeypatch):
    """The kernels pass, in Triton's interpreter; a function with another dropout rate fails."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    verdict = layers.check_fused_dropout(CPU, heads=2, size=16, bound=1e-5)
    assert verdict.passed, str(verdict)
    monkeypatch.setattr(
        layers, "fused_attention", lambda qkv, bias, *_: fast_paths.attend(qkv, bias, 26, 256 / 230)
    )
    assert not layers.check_fused_dropout(CPU, heads=2, size=16, bound=1e-5).passed
    monkeypatch.setattr(layers, "fused_attention", fast_paths.raising)
    verdict = layers.check_fused_dropout(CPU, heads=2, size=16, bound=1e-5)
    assert verdict.error == "RuntimeError: an illegal memory access was encountered"


def test_dropout_of_the_kernels_is_checked_in_bfloat16(monkeypatch):
    """A function in place of the kernels passes, and fails if it is 10 % off."""
    for factor, passes in ((1.0, True), (1.1, False)):
        monkeypatch.setattr(
            layers, "fused_attention", lambda *of, f=factor: fast_paths.attend(*of) * f
        )
        verdict = layers.check_fused_dropout(CPU, 2, 16, 0.06, torch.bfloat16)
        assert verdict.passed is passes, str(verdict)
