"""Multi-head self-attention with an additive bias."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from molsepnorm.nn.batch import Block
from molsepnorm.nn.dropout import ByteDropout

__all__ = ["BiasedSelfAttention"]

_LOG2_E = math.log2(math.e)
_LEAST = 1e-30  # a smaller sum of exponentials has lost its digits


class BiasedSelfAttention(nn.Module):
    r"""Self-attention within each graph of a batch.

    .. math:: \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{C/H}} + b\right) V

    Args:
        width: C.
        heads: H, a divisor of C.
        dropout: of the attention weights.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = ByteDropout(dropout)

    def forward(
        self,
        x: Tensor,  # (M, C)
        bias: list[Tensor],  # for each block (graphs, H, S, S)
        blocks: tuple[Block, ...],
        tokens_only: bool = False,
    ) -> Tensor:  # (M, C), or (B, C)
        """Attend within each graph; blocks are attended one after the other.

        With `tokens_only` the graph tokens alone ask, of all slots; they answer in the blocks'
        order.
        """
        asked = [part[:, :, :1] if tokens_only else part for part in bias]  # (graphs, H, Q, S)
        kept = [self.dropout.kept(part) for part in asked]
        scale = 1.0 if kept[0] is None else self.dropout.scale
        qkv = F.linear(x, self.qkv.weight)  # its bias is added where q, k and v are parted
        with torch.autocast(x.device.type, enabled=False):
            y = _Attend.apply(qkv, self.qkv.bias, blocks, scale, kept, *asked)
        return self.out(y)


class _Place(NamedTuple):
    """Where a block lies."""

    slots: slice  # in the batch
    asking: slice  # in the output
    columns: int  # S
    rows: int  # Q: S, or 1 where the graph tokens alone ask


class _Attend(torch.autograd.Function):
    """Attention of every block, from (M, 3C) to (M, C), with its gradient.

    Written out so that each block's result and gradient goes straight to its place, and little is
    written to memory: composed of autograd's own operations, attention takes three fifths of a
    training step of a small Graphormer on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,  # (M, 3C), without its bias
        qkv_bias: Tensor,  # (3C,)
        blocks: tuple[Block, ...],
        scale: float,  # of the weights that dropout keeps, 1 without dropout
        kept: list[Tensor | None],  # for each block uint8 (graphs, H, Q, S), or no dropout
        *bias: Tensor,  # for each block (graphs, H, Q, S); Q is S, or 1: the graph tokens alone
    ) -> Tensor:  # (M, C), or (B, C) where Q is 1
        heads = bias[0].shape[1]
        rows = sum(len(part) * part.shape[2] for part in bias)
        y = qkv_bias.new_empty(rows, len(qkv_bias) // 3)
        saved: list[Tensor] = []
        for place, part, mask in zip(_places(blocks, bias), bias, kept, strict=True):
            q, k, v = _part(qkv[place.slots], qkv_bias, place, heads)
            weights, total = _exponentials(q, k, part.flatten(0, 1).to(q.dtype))
            dropped = weights
            if mask is not None:
                dropped = mask.flatten(0, 1).to(q.dtype).mul_(weights)
                total.div_(scale)
            attended = (dropped @ v).div_(total)
            _by_head(y[place.asking], place.rows, heads).copy_(attended.unflatten(0, (-1, heads)))
            saved += [q, k, v, weights, dropped, total]
        ctx.save_for_backward(y, *bias, *saved)
        ctx.blocks, ctx.scale, ctx.qkv_dtype = blocks, scale, qkv.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, *rest = ctx.saved_tensors
        bias, saved = rest[: len(ctx.blocks)], iter(rest[len(ctx.blocks) :])
        heads = bias[0].shape[1]
        places = list(_places(ctx.blocks, bias))
        grad_qkv = y.new_empty(places[-1].slots.stop, 3 * y.shape[1])
        grad_bias: list[Tensor] = []
        for place, part in zip(places, bias, strict=True):
            q, k, v, weights, dropped, total = (next(saved) for _ in range(6))
            grad_y = _by_head(grad[place.asking], place.rows, heads).flatten(0, 1)
            y_part = _by_head(y[place.asking], place.rows, heads).flatten(0, 1)
            # a row's Σ_j P_ij ∂P_ij, which the gradient of a softmax subtracts, is y_i · ∂y_i
            grad_y = grad_y / total
            along = (grad_y * y_part).sum(-1, keepdim=True)
            grad_logits = (grad_y @ v.transpose(1, 2)).mul_(dropped)
            grad_logits.addcmul_(weights, along, value=-1 / ctx.scale)
            grad_bias.append(grad_logits.unflatten(0, (-1, heads)).to(part.dtype))

            factor = q.shape[-1] ** -0.5
            grad_q = (grad_logits @ k).mul_(factor)
            grad_k = (grad_logits.transpose(1, 2) @ q).mul_(factor)
            grad_v = dropped.transpose(1, 2) @ grad_y
            parts = _by_head(grad_qkv[place.slots], place.columns, heads, parts=3)
            if place.rows < place.columns:
                parts[0].zero_()
            for seen, gradient in zip(parts, (grad_q, grad_k, grad_v), strict=True):
                seen[:, :, : gradient.shape[1]] = gradient.unflatten(0, (-1, heads))
        return (grad_qkv.to(ctx.qkv_dtype), grad_qkv.sum(0), None, None, None, *grad_bias)


def _places(blocks: tuple[Block, ...], bias: Sequence[Tensor]) -> Iterator[_Place]:
    slot = row = 0
    for (graphs, slots), part in zip(((b.graphs, b.slots) for b in blocks), bias, strict=True):
        rows = part.shape[2]
        slot_end, row_end = slot + graphs * slots, row + graphs * rows
        yield _Place(slice(slot, slot_end), slice(row, row_end), slots, rows)
        slot, row = slot_end, row_end


def _part(
    qkv: Tensor, qkv_bias: Tensor, place: _Place, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """q (graphs·H, Q, C/H), k and v (graphs·H, S, C/H) of a block's qkv (graphs·S, 3C)."""
    seen = _by_head(qkv, place.columns, heads, parts=3)
    copied = torch.add(seen, qkv_bias.view(3, 1, heads, 1, -1), out=qkv_bias.new_empty(seen.shape))
    q, k, v = copied.flatten(1, 2).unbind(0)
    return q[:, : place.rows], k, v


def _exponentials(q: Tensor, k: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The weights (graphs·H, Q, S) before normalisation, and their sums (graphs·H, Q, 1).

    Of rows as short as a molecule's a softmax spends most of its time on the largest logit. On a
    CPU it is done without, unless the sums say that exponentials were too large or too small; by
    exp2, since exp is many times slower where it vanishes, as in padding.
    """
    k, factor = k.transpose(1, 2), q.shape[-1] ** -0.5
    if q.device.type == "cpu":
        weights = torch.baddbmm(bias, q, k, beta=_LOG2_E, alpha=_LOG2_E * factor).exp2_()
        total = weights.sum(-1, keepdim=True)
        least, most = total.aminmax()
        if least >= _LEAST and most.isfinite():
            return weights, total
    weights = torch.baddbmm(bias, q, k, alpha=factor).softmax(-1)
    return weights, weights.new_ones(len(q), q.shape[1], 1)


def _by_head(x: Tensor, slots: int, heads: int, parts: int = 1) -> Tensor:
    """(graphs·S, parts·C) seen as (graphs, H, S, C/H), behind a dimension of parts if several."""
    seen = x.view(-1, slots, parts, heads, x.shape[1] // parts // heads).permute(2, 0, 3, 1, 4)
    return seen if parts > 1 else seen[0]
