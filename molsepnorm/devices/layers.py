"""Checks of the attention layer and of the kernels' dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor

from molsepnorm.devices.verdict import Results, Verdict, apart, differences, judge
from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.kernels.attention import FastSelfAttention
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.fused_attention import fused_attention
from molsepnorm.nn.pairs.tensors import PairTensors

__all__ = ["check_attention", "check_fused_dropout"]

_BOUND = 3e-5  # for a layer in float32
_GROUPS = (PaddedGroup(3, 7), PaddedGroup(2, 33), PaddedGroup(1, 66))
_SLOTS = torch.cat([torch.full((b.graphs * b.slots,), b.slots) for b in _GROUPS])
"""Number of slots of the graph, for each row of the batch."""
_DROPPED = 64  # of 256
_SCALE = 256 / (256 - _DROPPED)


def check_attention(device: torch.device) -> Verdict:
    """Compare the attention layer with PyTorch's operations in float64."""
    torch.manual_seed(0)
    layer = FastSelfAttention(32, 4, ByteDropout(0.0)).to(device)
    inputs = [each.to(device) for each in (torch.randn(len(_SLOTS), 32), *_random_bias(4))]

    def along(attend: Callable[..., Tensor], dtype: torch.dtype) -> Results:
        own = deepcopy(layer).to(dtype)
        x, *bias = parts = [each.to(dtype).requires_grad_() for each in inputs]
        y = own.out(attend(own, x, PairTensors(bias), _GROUPS))
        factors = torch.linspace(-1, 1, y.numel(), device=device).view_as(y)
        gradients = torch.autograd.grad((y * factors).sum(), [*parts, *own.parameters()])
        return {"outputs": [y], "gradients": gradients}

    plain = along(BiasedSelfAttention.attend, torch.float64)
    return judge(
        "attention",
        _BOUND,
        lambda: differences(along(FastSelfAttention.attend, torch.float32), plain),
    )


def check_fused_dropout(
    device: torch.device,
    heads: int,
    size: int,
    bound: float,
    dtype: torch.dtype = torch.float32,
) -> Verdict:
    """Check the rate of the kernels' dropout, and that all gradients use the mask of the outputs.

    Outputs y are linear in the values v, so y · y = v · ∂(y · y / 2)/∂v. The gradients of a query's
    biases add up to zero.

    Args:
        device: the device of the kernels.
        heads: number of heads.
        size: width of a head.
        bound: largest relative difference.
        dtype: type of queries, keys and values.
    """

    def work() -> dict[str, float]:
        torch.manual_seed(0)
        qkv = torch.randn(len(_SLOTS), 3 * heads * size).to(device, dtype).requires_grad_()
        bias = [part.to(device).requires_grad_() for part in _random_bias(heads)]
        y = fused_attention(qkv, bias, _DROPPED, _SCALE)
        grad_qkv, *grad_bias = torch.autograd.grad(y, [qkv, *bias], y.detach())
        v, grad_v = (each.double().chunk(3, dim=1)[2] for each in (qkv, grad_qkv))
        sums = torch.cat([each.double().sum(-1).flatten() for each in grad_bias])
        norm = torch.cat([each.double().flatten() for each in grad_bias]).norm()
        counts = _counts(bias, size)
        gradients = [apart([(v * grad_v).sum()], [y.double().square().sum()])]
        gradients.append(float(sums.norm() / norm))
        return {"outputs": apart([counts], [counts.round()]), "gradients": max(gradients)}

    return judge("fused attention's dropout", bound, work)


def _random_bias(heads: int) -> list[Tensor]:
    return [torch.randn(heads, b.graphs, b.slots, b.slots) for b in _GROUPS]


@torch.no_grad()
def _counts(bias: Sequence[Tensor], size: int) -> Tensor:  # float64 (M, H·size)
    """Return numbers of weights that dropout keeps; they are integers if its factor is right.

    Without bias, queries and keys all weights are equal. Channel c of the values is 1 in the slots
    c, c + size, c + 2 size, … of each graph.

    Raises:
        ValueError: the dropout rate is wrong.
    """
    heads, device = len(bias[0]), bias[0].device
    slot = torch.cat([torch.arange(b.slots).repeat(b.graphs) for b in _GROUPS])
    v = (slot[:, None] % size == torch.arange(size)).float().repeat(1, heads)
    qkv = torch.cat([torch.zeros(len(v), 2 * heads * size), v], dim=1).to(device)
    y = fused_attention(qkv, [torch.zeros_like(part) for part in bias], _DROPPED, _SCALE)
    counts = y.double().cpu() * _SLOTS[:, None] / _SCALE
    share = 1 - float(counts.sum()) / (heads * int(_SLOTS.sum()))
    if not abs(share - _DROPPED / 256) < 0.05:
        raise ValueError(f"{share:.0%} of the weights are dropped instead of {_DROPPED / 256:.0%}")
    return counts
