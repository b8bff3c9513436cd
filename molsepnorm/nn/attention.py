"""Multi-head self-attention with an additive bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.dropout import ByteDropout, Dropout
from molsepnorm.nn.gradients import differentiable_gradients, is_transformed
from molsepnorm.nn.pairs.neighbours import PairTensors


class BiasedSelfAttention(nn.Module):
    r"""Self-attention within each graph of a batch.

    .. math:: \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{C/H}} + b\right) V

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, section 3.1.2.
    """

    def __init__(self, width: int, heads: int, dropout: Dropout) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        """Attend within each graph, from its first Q slots in x (M, C) to all its slots."""
        return self.out(self.attend(x, pairs, groups))

    def attend(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        """Return the concatenated heads, before the last linear layer."""
        return plain_attention(self.qkv(x), groups, pairs.bias, self.dropout)


def plain_attention(
    qkv: Tensor,  # (M, 3C): q of every head, then k, then v
    groups: tuple[PaddedGroup, ...],
    biases: Sequence[Tensor],  # for each group (H, graphs, Q, S)
    dropout: Callable[[Tensor], Tensor],
) -> Tensor:  # (ΣQ, C)
    """Return the outputs of all heads, by operations with derivatives of any order."""
    outputs = []
    slots = [group.graphs * group.slots for group in groups]
    for rows, group, bias in zip(qkv.split(slots), groups, biases, strict=True):
        parts = rows.view(group.graphs, group.slots, 3, len(bias), -1)
        q, k, v = parts.permute(2, 3, 0, 1, 4)  # (H, graphs, S, C/H) each
        q = q[:, :, : bias.shape[2]]
        weights = dropout(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, dim=-1))
        outputs.append((weights.to(v.dtype) @ v).permute(1, 2, 0, 3).flatten(2).flatten(0, 1))
    return torch.cat(outputs)


_LOG2_E = math.log2(math.e)
_MIN_TOTAL, _MAX_TOTAL = 1e-30, 1e25
"""Range of the sums of exponentials. A smaller sum has lost its digits; with a larger one, values
may overflow or gradients vanish."""


class FastSelfAttention(BiasedSelfAttention):
    """`BiasedSelfAttention` with a hand-written gradient on a CPU; PyTorch's own attention
    elsewhere."""

    dropout: ByteDropout

    def attend(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        if is_transformed():
            return super().attend(x, pairs, groups)
        if x.device.type != "cpu":
            return self.attend_on_device(x, pairs, groups)
        bias, dropout = pairs.bias, self.dropout
        masks = [dropout.dropout_mask(part) for part in bias]
        scale = 1.0 if masks[0] is None else dropout.scale
        qkv = self.qkv(x).to(x.dtype).contiguous()
        with torch.autocast(x.device.type, enabled=False):
            return _Attend.apply(qkv, groups, scale, masks, *bias)

    def attend_on_device(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        """Attend by `scaled_dot_product_attention`, with the bias as its mask."""
        outputs, rate = [], self.dropout.p if self.dropout.training else 0.0
        slots = [group.graphs * group.slots for group in groups]
        for qkv, group, bias in zip(self.qkv(x).split(slots), groups, pairs.bias, strict=True):
            parts = qkv.view(group.graphs, group.slots, 3, self.heads, -1)
            q, k, v = parts.permute(2, 0, 3, 1, 4)  # (graphs, H, S, C/H) each
            mask = bias.transpose(0, 1).to(q.dtype)  # (graphs, H, Q, S)
            y = F.scaled_dot_product_attention(q[:, :, : bias.shape[2]], k, v, mask, rate)
            outputs.append(y.transpose(1, 2).flatten(2).flatten(0, 1))
        return torch.cat(outputs)


class _Location(NamedTuple):
    slots: slice  # rows of the input
    queries: slice  # rows of the output
    num_slots: int  # S
    num_queries: int  # Q


class _Attend(torch.autograd.Function):
    """Attention of all groups, from queries, keys and values to the concatenated heads.

    Results and gradients of each group are written to their rows of a common tensor. Splitting and
    joining by autograd takes a quarter of a training step of a small Graphormer on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,  # (M, 3C)
        groups: tuple[PaddedGroup, ...],
        scale: float,  # of the weights that dropout keeps, 1 without dropout
        masks: list[Tensor | None],  # for each group uint8 (H, graphs, Q, S), or no dropout
        *bias: Tensor,  # for each group (H, graphs, Q, S)
    ) -> Tensor:  # (ΣQ, C)
        heads = len(bias[0])
        locations = list(_locations(groups, bias))
        y = qkv.new_empty(locations[-1].queries.stop, qkv.shape[1] // 3)
        saved: list[Tensor] = []
        for at, part, mask in zip(locations, bias, masks, strict=True):
            q, k, v = _by_head(qkv[at.slots], at.num_slots, heads, parts=3)
            q = q[:, :, : at.num_queries]
            q, k, v = (each.flatten(0, 1) for each in (q, k, v))  # (H·graphs, …, C/H)
            weights, total = _exponentials(q, k, part.flatten(0, 1).to(q.dtype))
            dropped = weights
            if mask is not None:
                dropped = mask.flatten(0, 1).to(q.dtype).mul_(weights)
                total.div_(scale)
            attended = (dropped @ v).div_(total)
            _by_head(y[at.queries], at.num_queries, heads).copy_(attended.unflatten(0, (heads, -1)))
            saved += [q, k, v, weights, dropped, total]
        ctx.save_for_backward(qkv, y, *bias, *saved)
        ctx.groups, ctx.scale = groups, scale
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_transformed(grad):
            grad_qkv, *grad_bias = _plain_gradients(ctx, grad)
            return (grad_qkv, None, None, None, *grad_bias)
        qkv, y, *rest = ctx.saved_tensors
        bias, saved = rest[: len(ctx.groups)], iter(rest[len(ctx.groups) :])
        heads = len(bias[0])
        grad_qkv = torch.empty_like(qkv)
        grad_bias = []
        for at, part in zip(_locations(ctx.groups, bias), bias, strict=True):
            q, k, v, weights, dropped, total = (next(saved) for _ in range(6))
            grad_y = _by_head(grad[at.queries], at.num_queries, heads).flatten(0, 1) / total
            y_part = _by_head(y[at.queries], at.num_queries, heads).flatten(0, 1)
            # The softmax gradient subtracts each row's Σ_j P_ij ∂P_ij, which is y_i · ∂y_i.
            along = (grad_y * y_part).sum(-1, keepdim=True)
            grad_logits = (grad_y @ v.transpose(1, 2)).mul_(dropped)
            grad_logits.addcmul_(weights, along, value=-1 / ctx.scale)
            grad_bias.append(grad_logits.unflatten(0, (heads, -1)).to(part.dtype))

            factor = q.shape[-1] ** -0.5
            grad_q = (grad_logits @ k).mul_(factor)
            grad_k = (grad_logits.transpose(1, 2) @ q).mul_(factor)
            grad_v = dropped.transpose(1, 2) @ grad_y
            parts = _by_head(grad_qkv[at.slots], at.num_slots, heads, parts=3)
            if at.num_queries < at.num_slots:
                parts[0].zero_()
            for part, gradient in zip(parts, (grad_q, grad_k, grad_v), strict=True):
                part[:, :, : gradient.shape[1]] = gradient.unflatten(0, (heads, -1))
        return (grad_qkv, None, None, None, *grad_bias)


def _plain_gradients(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """Return the gradients of qkv and the biases as functions that have derivatives."""
    groups = ctx.groups
    qkv, _, *rest = ctx.saved_tensors
    bias, dropped = rest[: len(groups)], rest[len(groups) + 4 :: 6]
    masks = (ctx.scale * (weights != 0).to(weights.dtype) for weights in dropped)

    def plain(qkv: Tensor, *bias: Tensor) -> Tensor:
        return plain_attention(
            qkv, groups, bias, lambda weights: weights * next(masks).view_as(weights)
        )

    return differentiable_gradients(plain, (qkv, *bias), grad)


def _locations(groups: tuple[PaddedGroup, ...], bias: Sequence[Tensor]) -> Iterator[_Location]:
    slot = row = 0
    for group, part in zip(groups, bias, strict=True):
        queries = part.shape[2]
        slot_end, row_end = slot + group.graphs * group.slots, row + group.graphs * queries
        yield _Location(slice(slot, slot_end), slice(row, row_end), group.slots, queries)
        slot, row = slot_end, row_end


def _exponentials(q: Tensor, k: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights (H·graphs, Q, S) before normalisation, and their sums (H·graphs, Q, 1).

    On short rows, most of the time of a softmax is spent on finding the largest logit. It is only
    subtracted if the sums show that exponentials were too large or too small, or in float16, whose
    range is narrow. exp is many times slower than exp2 where it underflows, as in padding.
    """
    k, factor = k.transpose(1, 2), q.shape[-1] ** -0.5
    if q.dtype != torch.float16:
        weights = torch.baddbmm(bias, q, k, beta=_LOG2_E, alpha=_LOG2_E * factor).exp2_()
        total = weights.sum(-1, keepdim=True)
        low, high = total.aminmax()
        if low >= _MIN_TOTAL and high <= _MAX_TOTAL:
            return weights, total
    weights = torch.baddbmm(bias, q, k, alpha=factor).softmax(-1)
    return weights, weights.new_ones(len(q), q.shape[1], 1)


def _by_head(x: Tensor, slots: int, heads: int, parts: int = 1) -> Tensor:
    """View (graphs·S, parts·C) as (H, graphs, S, C/H), or (parts, H, …) if there are several."""
    view = x.view(-1, slots, parts, heads, x.shape[1] // parts // heads).permute(2, 3, 0, 1, 4)
    return view if parts > 1 else view[0]
