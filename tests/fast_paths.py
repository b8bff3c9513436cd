"""Make a CPU use the fast paths of a GPU: captured steps and a fused attention in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tape import record
from torch import Tensor

from molsepnorm import devices
from molsepnorm.devices import layers, network, verdict
from molsepnorm.nn.kernels import attention
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.training.steps import step


def attend(qkv: Tensor, bias: Sequence[Tensor], dropped: int = 0, scale: float = 1.0) -> Tensor:
    """Compute `fused_attention` with PyTorch's operations.

    Each head has its own dropout mask, which depends only on the seed and the shapes."""
    rows, start = [], 0
    for part in bias:
        heads, graphs, queries, slots = part.shape
        own = qkv[start : start + graphs * slots].view(graphs, slots, 3, heads, -1)
        q, k, v = own.permute(2, 3, 0, 1, 4)  # (H, graphs, S, C/H) each
        logits = q[:, :, :queries] @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + part
        weights = logits.float().softmax(-1)
        if dropped:
            weights = weights * (torch.rand(weights.shape) >= dropped / 256) * scale
        y = weights.to(v.dtype) @ v
        rows.append(y.permute(1, 2, 0, 3).reshape(graphs * queries, -1))
        start += graphs * slots
    return torch.cat(rows)


def by_one_percent(*args) -> Tensor:
    return attend(*args) * 1.01


def not_a_number(*args) -> Tensor:
    return attend(*args) * torch.nan


def raising(*args) -> Tensor:
    raise RuntimeError("an illegal memory access was encountered\nmore lines")


def wrong_gradients(*args) -> Tensor:
    """Return the right outputs with gradients that are 1 % too large."""
    y = attend(*args)
    return y.detach() + 1.01 * (y - y.detach())


def gpu(
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    attention_there: Callable[..., Tensor] = attend,
    record_there: Callable[..., Callable[[], None]] = record,
) -> None:
    """Enable the fast paths on the CPU, with a cache folder of their own."""

    def plain(q, k, bias):
        logits = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        return logits.softmax(-1), logits.new_ones(len(q), q.shape[1], 1)

    monkeypatch.setenv("MOLSEPNORM_CACHE", str(cache))
    monkeypatch.setattr(devices, "CHECKED", {"cpu"})
    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    monkeypatch.setattr(fused, "_runs_on", lambda device: True)
    monkeypatch.setattr(attention, "fused_attention", attention_there)
    monkeypatch.setattr(layers, "fused_attention", attention_there)
    monkeypatch.setattr(attention, "_exponentials", plain)  # the CPU's version reads a number
    monkeypatch.setattr(step, "can_capture", lambda device: True)
    monkeypatch.setattr(step, "record", record_there)
    new_process(monkeypatch)


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget all verdicts except those in the cache folder."""
    monkeypatch.setattr(verdict, "_known", {})
    monkeypatch.setattr(network, "_settled", set())
