"""Multi-head self-attention with an additive bias, and gates on its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from molsepnorm.nn.batch import Block
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.fused_attention import fits, fused_attention

__all__ = ["BiasedSelfAttention"]

_LOG2_E = math.log2(math.e)
_LEAST, _MOST = 1e-30, 1e25
"""A smaller sum of exponentials has lost its digits; a larger one overflows with the values that
are added up under it, or their gradients vanish."""


class BiasedSelfAttention(nn.Module):
    r"""Self-attention within each graph of a batch.

    .. math:: \left(\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{C/H}} + b\right) \odot G\right) V

    The gates G are optional. On a GPU without gates by `fused_attention` where it fits, else by
    `_Attend`.

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, section 3.1.2, for b; Luo et al., NeurIPS
    2022, arXiv 2205.13401, section 4, and Zhang et al., ICLR 2023, arXiv 2301.09505, section 4,
    for G.

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
        bias: list[Tensor],  # for each block (H, graphs, S, S)
        blocks: tuple[Block, ...],
        tokens_only: bool = False,
        gates: list[Tensor] | None = None,  # for each block (H, graphs, S, S)
    ) -> Tensor:  # (M, C), or (B, C)
        """Attend within each graph; blocks are attended one after the other.

        With `tokens_only` the graph tokens alone ask, of all slots; they answer in the blocks'
        order. Gates multiply the weights after the softmax and must be finite, in padding too,
        where they do not matter otherwise; without them the weights stay as they are.
        """
        rows = 1 if tokens_only else None
        asked = [part[:, :, :rows] for part in bias]  # (H, graphs, Q, S)
        gated = [part[:, :, :rows] for part in gates or ()]
        if gates is None and fits(x, blocks, self.heads):
            return self.out(fused_attention(self.qkv(x), asked, *_rate(self.dropout)))
        kept = [self.dropout.kept(part) for part in asked]
        scale = 1.0 if kept[0] is None else self.dropout.scale
        device = x.device.type
        lower = torch.is_autocast_enabled(device)
        products = torch.get_autocast_dtype(device) if lower else x.dtype
        with torch.autocast(device, enabled=False):
            y = _Attend.apply(
                x, self.qkv.weight, self.qkv.bias, products, blocks, scale, kept, *asked, *gated
            )
        return self.out(y)


def _rate(dropout: ByteDropout) -> tuple[int, float]:
    """How many in 256 weights are dropped now, and what the others are multiplied by."""
    return (dropout.dropped, dropout.scale) if dropout.training else (0, 1.0)


class _Place(NamedTuple):
    """Where a block lies."""

    slots: slice  # in the batch
    asking: slice  # in the output
    columns: int  # S
    rows: int  # Q: S, or 1 where the graph tokens alone ask


class _Attend(torch.autograd.Function):
    """Attention of every block, from x before the projections to the heads' outputs side by side.

    Written out so that each block's result and gradient goes straight to its place; composed of
    autograd's own operations, splitting and joining the blocks alone takes a quarter of a training
    step of a small Graphormer on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (M, C)
        weight: Tensor,  # (3C, C)
        offset: Tensor,  # (3C,)
        products: torch.dtype,  # of the factors of the projections
        blocks: tuple[Block, ...],
        scale: float,  # of the weights that dropout keeps, 1 without dropout
        kept: list[Tensor | None],  # for each block uint8 (H, graphs, Q, S), or no dropout
        *pairs: Tensor,  # for each block (H, graphs, Q, S): every bias, then all gates or none
    ) -> Tensor:  # (M, C), or (B, C) where Q is 1: the graph tokens alone
        bias, gates = pairs[: len(blocks)], pairs[len(blocks) :]
        heads = len(bias[0])
        projection = weight.to(products).view(3, heads, -1, x.shape[1]).permute(1, 3, 0, 2)
        projection = projection.flatten(2)  # (H, C, 3C/H): q, k and v of a head side by side
        shifts = offset.view(3, heads, -1).transpose(0, 1).reshape(heads, 1, -1)
        lowered = x.to(products)
        places = list(_places(blocks, bias))
        y = x.new_empty(places[-1].asking.stop, x.shape[1])
        saved: list[Tensor] = []
        factors = gates or [None] * len(blocks)
        for place, part, mask, gate in zip(places, bias, kept, factors, strict=True):
            qkv = lowered[place.slots].expand(heads, -1, -1) @ projection
            qkv = qkv.add_(shifts) if qkv.dtype == x.dtype else qkv + shifts
            q, k, v = qkv.view(-1, place.columns, 3, qkv.shape[-1] // 3).unbind(2)  # (H·graphs, …)
            q = q[:, : place.rows]
            weights, total = _exponentials(q, k, part.flatten(0, 1).to(q.dtype))
            dropped = weights
            if mask is not None:
                dropped = mask.flatten(0, 1).to(q.dtype).mul_(weights)
                total.div_(scale)
            gated = dropped if gate is None else dropped * gate.flatten(0, 1).to(q.dtype)
            attended = (gated @ v).div_(total)
            _by_head(y[place.asking], place.rows, heads).copy_(attended.unflatten(0, (heads, -1)))
            saved += [q, k, v, weights, dropped, gated, total]
        ctx.save_for_backward(x, weight, y, *bias, *saved)
        ctx.blocks, ctx.scale, ctx.products = blocks, scale, products
        ctx.has_gates = bool(gates)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y, *rest = ctx.saved_tensors
        bias, saved = rest[: len(ctx.blocks)], iter(rest[len(ctx.blocks) :])
        heads = len(bias[0])
        grad_qkv = x.new_empty(len(x), len(weight))
        grad_bias: list[Tensor] = []
        grad_gates: list[Tensor] = []
        for place, part in zip(_places(ctx.blocks, bias), bias, strict=True):
            q, k, v, weights, dropped, gated, total = (next(saved) for _ in range(7))
            grad_y = _by_head(grad[place.asking], place.rows, heads).flatten(0, 1) / total
            y_part = _by_head(y[place.asking], place.rows, heads).flatten(0, 1)
            # a row's Σ_j P_ij ∂P_ij, which the gradient of a softmax subtracts, is y_i · ∂y_i
            along = (grad_y * y_part).sum(-1, keepdim=True)
            grad_gated = grad_y @ v.transpose(1, 2)
            if ctx.has_gates:
                grad_gates.append((grad_gated * dropped).unflatten(0, (heads, -1)))
            grad_logits = grad_gated.mul_(gated)
            grad_logits.addcmul_(weights, along, value=-1 / ctx.scale)
            grad_bias.append(grad_logits.unflatten(0, (heads, -1)).to(part.dtype))

            factor = q.shape[-1] ** -0.5
            grad_q = (grad_logits @ k).mul_(factor)
            grad_k = (grad_logits.transpose(1, 2) @ q).mul_(factor)
            grad_v = gated.transpose(1, 2) @ grad_y
            parts = _by_head(grad_qkv[place.slots], place.columns, heads, parts=3)
            if place.rows < place.columns:
                parts[0].zero_()
            for seen, gradient in zip(parts, (grad_q, grad_k, grad_v), strict=True):
                seen[:, :, : gradient.shape[1]] = gradient.unflatten(0, (heads, -1))
        lowered = grad_qkv.to(ctx.products)
        grad_x = (lowered @ weight.to(ctx.products)).to(x.dtype)
        grad_weight = (lowered.T @ x.to(ctx.products)).to(weight.dtype)
        grad_pairs = (*grad_bias, *grad_gates)
        return (grad_x, grad_weight, grad_qkv.sum(0), None, None, None, None, *grad_pairs)


def _places(blocks: tuple[Block, ...], bias: Sequence[Tensor]) -> Iterator[_Place]:
    slot = row = 0
    for (graphs, slots), part in zip(((b.graphs, b.slots) for b in blocks), bias, strict=True):
        rows = part.shape[2]
        slot_end, row_end = slot + graphs * slots, row + graphs * rows
        yield _Place(slice(slot, slot_end), slice(row, row_end), slots, rows)
        slot, row = slot_end, row_end


def _exponentials(q: Tensor, k: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The weights (H·graphs, Q, S) before normalisation, and their sums (H·graphs, Q, 1).

    Of rows as short as a molecule's a softmax spends most of its time on the largest logit. On a
    CPU it is done without, unless the sums say that exponentials were too large or too small; by
    exp2, since exp is many times slower where it vanishes, as in padding.
    """
    k, factor = k.transpose(1, 2), q.shape[-1] ** -0.5
    if q.device.type == "cpu":
        weights = torch.baddbmm(bias, q, k, beta=_LOG2_E, alpha=_LOG2_E * factor).exp2_()
        total = weights.sum(-1, keepdim=True)
        least, most = total.aminmax()
        if least >= _LEAST and most <= _MOST:
            return weights, total
    weights = torch.baddbmm(bias, q, k, alpha=factor).softmax(-1)
    return weights, weights.new_ones(len(q), q.shape[1], 1)


def _by_head(x: Tensor, slots: int, heads: int, parts: int = 1) -> Tensor:
    """(graphs·S, parts·C) seen as (H, graphs, S, C/H), behind a dimension of parts if several."""
    seen = x.view(-1, slots, parts, heads, x.shape[1] // parts // heads).permute(2, 3, 0, 1, 4)
    return seen if parts > 1 else seen[0]
