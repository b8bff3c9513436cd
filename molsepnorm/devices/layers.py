"""The package's own operations against the formulas, by PyTorch's operations in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from molsepnorm.devices.verdict import Results, Verdict, judge
from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.kernels.attention import FastSelfAttention
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.fused_attention import fused_attention
from molsepnorm.nn.pairs.tensors import PairTensors
from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d

__all__ = ["check_attention", "check_batch_norm", "check_dropout", "check_fused_dropout"]

_BOUND = 3e-5  # of single layers in float32
_GROUPS = (PaddedGroup(3, 7), PaddedGroup(2, 33), PaddedGroup(1, 66))
_DROPPED = 64  # of 256
_SCALE = 256 / (256 - _DROPPED)


def check_attention(device: torch.device, dropout: float = _DROPPED / 256) -> Verdict:
    """The layer that a device uses, outputs and gradients; with dropout only on a CPU, where the
    mask can be drawn again."""
    torch.manual_seed(0)
    heads, width = 4, 32
    layer = FastSelfAttention(width, heads, ByteDropout(dropout)).to(device)
    slots = sum(group.graphs * group.slots for group in _GROUPS)
    x = torch.randn(slots, width).to(device).requires_grad_()
    bias = [torch.randn(heads, g.graphs, g.slots, g.slots).to(device) for g in _GROUPS]
    inputs = [x, *(part.requires_grad_() for part in bias), *layer.parameters()]
    torch.manual_seed(1)
    kept = [layer.dropout.dropout_mask(part) for part in bias]
    masks = None if kept[0] is None else [part for part in kept if part is not None]

    def mine() -> Results:
        torch.manual_seed(1)
        return _with_gradients(layer(x, PairTensors(bias), _GROUPS)[0], inputs)

    y = layer.out(_formula(layer.qkv(x), bias, masks, layer.dropout.scale).float())
    return judge("attention", _BOUND, mine, _with_gradients(y, inputs))


def check_fused_dropout(
    device: torch.device,
    heads: int,
    size: int,
    bound: float,
    dtype: torch.dtype = torch.float32,
) -> Verdict:
    """The kernels' dropout: the same mask forward and backward, of the right share."""
    generator = torch.Generator().manual_seed(0)
    slots = sum(group.graphs * group.slots for group in _GROUPS)
    qkv = torch.randn(slots, 3 * heads * size, generator=generator).to(device, dtype)
    bias = [
        torch.randn(heads, g.graphs, g.slots, g.slots, generator=generator).to(device)
        for g in _GROUPS
    ]
    inputs = [part.requires_grad_() for part in (qkv, *bias)]

    def fused() -> Results:
        torch.manual_seed(1)
        return _with_gradients(fused_attention(qkv, bias, _DROPPED, _SCALE), inputs)

    masks = _masks(bias, size)
    kept = torch.cat([part.flatten() for part in masks]).mean()
    if abs(float(kept) * _SCALE - 1) > 0.1:
        return Verdict("fused attention's dropout", {"share": None}, bound)
    expected = _with_gradients(_formula(qkv, bias, masks, _SCALE), inputs)
    return judge("fused attention's dropout", bound, fused, expected)


def check_batch_norm() -> Verdict:
    """The masked batch norm against PyTorch's on the rows that count."""
    torch.manual_seed(0)
    x, mask = torch.randn(60, 8) * 3 + 1, torch.arange(60) % 3 > 0
    norms = MaskedBatchNorm1d(8), nn.BatchNorm1d(8)
    results = []
    for norm in norms:
        masked = isinstance(norm, MaskedBatchNorm1d)
        rows = x.clone().requires_grad_()
        y = norm(rows, mask)[mask] if masked else norm(rows[mask])
        found: dict[str, Sequence[Tensor]] = dict(_with_gradients(y, [rows, *norm.parameters()]))
        results.append(found | {"statistics": [each.float() for each in norm.buffers()]})
    return judge("batch norm", _BOUND, lambda: results[0], results[1])


def check_dropout() -> Verdict:
    """Dropout and addition in one pass: the mask's share, and the sum."""
    torch.manual_seed(0)
    x, residual = torch.randn(512, 64), torch.randn(512, 64)
    dropout = ByteDropout(0.25)
    torch.manual_seed(1)
    kept = dropout.dropout_mask(x)
    assert kept is not None

    def mine() -> Results:
        torch.manual_seed(1)
        deviation = math.sqrt(0.25 * 0.75 / x.numel())
        share = float(kept.double().mean())
        if abs(share - 0.75) > 5 * deviation:
            raise ValueError(f"{share:.3f} of the elements are kept, expected 0.75")
        return {"sums": [dropout.add(residual, x)]}

    expected = residual.double() + x.double() * kept * dropout.scale
    return judge("dropout", _BOUND, mine, {"sums": [expected]})


def _formula(
    qkv: Tensor, bias: Sequence[Tensor], masks: list[Tensor] | None, scale: float
) -> Tensor:
    """softmax(Q Kᵀ / √(C/H) + b) V of each group, with the weights that masks keep, in float64."""
    rows, start = [], 0
    for index, part in enumerate(bias):
        heads, graphs, _, slots = part.shape
        own = qkv[start : start + graphs * slots].double().view(graphs, slots, 3, heads, -1)
        q, k, v = own.permute(2, 3, 0, 1, 4)  # (H, graphs, S, C/H) each
        weights = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + part.double()).softmax(-1)
        if masks is not None:
            weights = weights * masks[index] * scale
        rows.append((weights @ v).permute(1, 2, 0, 3).reshape(graphs * slots, -1))
        start += graphs * slots
    return torch.cat(rows)


@torch.no_grad()
def _masks(bias: Sequence[Tensor], size: int) -> list[Tensor]:
    """The kernels' masks for the seed 1: uniform weights of values that are 1 in one slot."""
    heads, device = len(bias[0]), bias[0].device
    flat = [torch.zeros_like(part) for part in bias]
    slots = [part.shape[3] for part in bias]
    place = torch.cat([torch.arange(part.shape[3]).repeat(part.shape[1]) for part in bias])
    parts: list[list[Tensor]] = [[] for _ in bias]
    for first in range(0, max(slots), size):
        v = (place[:, None] == torch.arange(first, first + size)).float().to(device)  # (M, C/H)
        qkv = torch.cat(
            [torch.zeros(len(v), 2 * heads * size, device=device), v.repeat(1, heads)], 1
        )
        torch.manual_seed(1)
        y = fused_attention(qkv, flat, _DROPPED, _SCALE)
        start = 0
        for part, seen in zip(bias, parts, strict=True):
            _, graphs, _, length = part.shape
            own = y[start : start + graphs * length].view(graphs, length, heads, size)
            seen.append(own.permute(2, 0, 1, 3) * length / _SCALE)
            start += graphs * length
    return [torch.cat(p, 3)[..., :n].round() for p, n in zip(parts, slots, strict=True)]


def _with_gradients(y: Tensor, inputs: Sequence[Tensor]) -> Results:
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).view_as(y)
    return {
        "outputs": [y.detach()],
        "gradients": torch.autograd.grad((y * weights).sum(), list(inputs), retain_graph=True),
    }
