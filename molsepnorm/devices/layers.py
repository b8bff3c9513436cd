"""Checks of the attention against its formula, computed by PyTorch's operations in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from molsepnorm.devices.verdict import Results, Verdict, first_line, judge
from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.kernels.attention import FastSelfAttention
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.fused_attention import fused_attention
from molsepnorm.nn.pairs.tensors import PairTensors

__all__ = ["check_attention", "check_fused_dropout"]

_BOUND = 3e-5  # for a layer in float32
_GROUPS = (PaddedGroup(3, 7), PaddedGroup(2, 33), PaddedGroup(1, 66))
_SLOTS = sum(group.graphs * group.slots for group in _GROUPS)
_DROPPED = 64  # of 256
_SCALE = 256 / (256 - _DROPPED)


def check_attention(device: torch.device) -> Verdict:
    """Compare outputs and gradients of the attention layer with the formula in float64."""
    torch.manual_seed(0)
    heads, width = 4, 32
    layer = FastSelfAttention(width, heads, ByteDropout(0.0)).to(device)
    x = torch.randn(_SLOTS, width).to(device).requires_grad_()
    bias = [part.to(device).requires_grad_() for part in _random_bias(heads)]
    inputs = [x, *bias, *layer.parameters()]
    y = layer.out(_formula(layer.qkv(x), bias).float())
    plain = _with_gradients(y, inputs)

    def fast() -> Results:
        return _with_gradients(layer(x, PairTensors(bias), _GROUPS)[0], inputs)

    return judge("attention", _BOUND, fast, plain)


def check_fused_dropout(
    device: torch.device,
    heads: int,
    size: int,
    bound: float,
    dtype: torch.dtype = torch.float32,
) -> Verdict:
    """Check that the kernels' dropout has the right rate, and the same mask in the gradients."""
    torch.manual_seed(0)
    qkv = torch.randn(_SLOTS, 3 * heads * size).to(device, dtype).requires_grad_()
    bias = [part.to(device).requires_grad_() for part in _random_bias(heads)]
    inputs = [qkv, *bias]

    def fused() -> Results:
        torch.manual_seed(1)
        return _with_gradients(fused_attention(qkv, bias, _DROPPED, _SCALE), inputs)

    path = "fused attention's dropout"
    try:
        masks = _masks(bias, size)
    except Exception as error:  # kernels and compilers fail in many ways
        return Verdict(path, {}, bound, first_line(error))
    share = float(torch.cat([part.flatten() for part in masks]).mean())
    if abs(share * _SCALE - 1) > 0.1:
        return Verdict(path, {"share": None}, bound)
    expected = _with_gradients(_formula(qkv, bias, masks), inputs)
    return judge(path, bound, fused, expected)


def _random_bias(heads: int) -> list[Tensor]:
    return [torch.randn(heads, b.graphs, b.slots, b.slots) for b in _GROUPS]


def _formula(qkv: Tensor, bias: Sequence[Tensor], masks: Sequence[Tensor] = ()) -> Tensor:
    """Compute softmax(Q Kᵀ / √(C/H) + b) V for each padded group, with dropout by the masks."""
    outputs = []
    for index, (part, own) in enumerate(zip(bias, _by_group(qkv.double(), bias, 3), strict=True)):
        q, k, v = own.permute(2, 3, 0, 1, 4)  # (H, graphs, S, C/H) each
        weights = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + part.double()).softmax(-1)
        if masks:
            weights = weights * masks[index] * _SCALE
        outputs.append((weights @ v).permute(1, 2, 0, 3).flatten(2).flatten(0, 1))
    return torch.cat(outputs)


def _by_group(x: Tensor, bias: Sequence[Tensor], parts: int) -> list[Tensor]:
    """Split rows into padded groups: (graphs, S, parts, H, C/H) each."""
    rows = x.split([part.shape[1] * part.shape[3] for part in bias])
    shapes = [(part.shape[1], part.shape[3], parts, part.shape[0], -1) for part in bias]
    return [own.view(shape) for own, shape in zip(rows, shapes, strict=True)]


@torch.no_grad()
def _masks(bias: Sequence[Tensor], size: int) -> list[Tensor]:
    """Return the kernels' dropout masks for the seed 1.

    Without bias, queries and keys all weights are equal. With values that are 1 in one slot of a
    graph, the outputs are then the mask of that slot; each call gives `size` slots.
    """
    heads, device = len(bias[0]), bias[0].device
    no_bias = [torch.zeros_like(part) for part in bias]
    lengths = [part.shape[3] for part in bias]
    slot = torch.cat([torch.arange(part.shape[3]).repeat(part.shape[1]) for part in bias])
    masks: list[list[Tensor]] = [[] for _ in bias]
    for first in range(0, max(lengths), size):
        v = (slot[:, None] == torch.arange(first, first + size)).float().to(device)  # (M, C/H)
        qk = torch.zeros(len(v), 2 * heads * size, device=device)
        torch.manual_seed(1)
        y = fused_attention(torch.cat([qk, v.repeat(1, heads)], 1), no_bias, _DROPPED, _SCALE)
        for own, length, seen in zip(_by_group(y, bias, 1), lengths, masks, strict=True):
            seen.append(own[:, :, 0].permute(2, 0, 1, 3) * length / _SCALE)
    return [torch.cat(m, 3)[..., :n].round() for m, n in zip(masks, lengths, strict=True)]


def _with_gradients(y: Tensor, inputs: Sequence[Tensor]) -> Results:
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).view_as(y)
    return {
        "outputs": [y.detach()],
        "gradients": torch.autograd.grad((y * weights).sum(), list(inputs), retain_graph=True),
    }
