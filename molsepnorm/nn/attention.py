"""Multi-head self-attention with an additive bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from molsepnorm.nn.batch import Block
from molsepnorm.nn.dropout import ByteDropout

__all__ = ["BiasedSelfAttention"]


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
    ) -> Tensor:  # (M, C)
        """Attend within each graph; blocks are attended one after the other."""
        masks = [self.dropout.mask(part) for part in bias]
        qkv = self.qkv(x)
        with torch.autocast(x.device.type, enabled=False):  # all in the type of q, k and v
            y = _Attend.apply(qkv, blocks, self.dropout.scale, masks, *bias)
        return self.out(y)


class _Attend(torch.autograd.Function):
    """Attention of every block, from (M, 3C) to (M, C), with its gradient.

    Written out so that each block's result and gradient goes straight to its place; composed of
    autograd's own operations, splitting and joining the blocks takes a quarter of a training step
    of a small Graphormer on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,  # (M, 3C)
        blocks: tuple[Block, ...],
        scale: float,  # of the weights that dropout keeps
        masks: list[Tensor | None],  # for each block (graphs, H, S, S), or no dropout
        *bias: Tensor,  # for each block (graphs, H, S, S)
    ) -> Tensor:  # (M, C)
        y = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        saved: list[Tensor | None] = []
        heads = bias[0].shape[1]
        for rows, block, part, mask in zip(_rows(blocks), blocks, bias, masks, strict=True):
            q, k, v = _by_head(qkv[rows], block, heads, parts=3)
            factor = q.shape[-1] ** -0.5
            logits = torch.baddbmm(
                part.flatten(0, 1).to(q.dtype), q, k.transpose(1, 2), alpha=factor
            )
            softmax = logits.softmax(dim=-1)  # (graphs·H, S, S)
            weights = softmax
            if mask is not None:
                mask = mask.mul_(scale).flatten(0, 1).to(q.dtype)
                weights = softmax * mask
            attended = (weights @ v).unflatten(0, (-1, heads))
            _by_head_view(y[rows], block, heads, parts=1)[0].copy_(attended)
            saved += [q, k, v, softmax, weights, mask]
        ctx.save_for_backward(*saved)
        ctx.blocks, ctx.heads, ctx.bias_dtype = blocks, heads, bias[0].dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_qkv = grad.new_empty(len(grad), 3 * grad.shape[1])
        grad_bias: list[Tensor] = []
        saved = iter(ctx.saved_tensors)
        for rows, block in zip(_rows(ctx.blocks), ctx.blocks, strict=True):
            q, k, v, softmax, weights, mask = (next(saved) for _ in range(6))
            factor = q.shape[-1] ** -0.5
            (grad_y,) = _by_head(grad[rows], block, ctx.heads, parts=1)
            grad_weights = grad_y @ v.transpose(1, 2)
            if mask is not None:
                grad_weights.mul_(mask)
            grad_logits = torch._softmax_backward_data(grad_weights, softmax, -1, softmax.dtype)
            parts = _by_head_view(grad_qkv[rows], block, ctx.heads, parts=3)
            for part, gradient in zip(
                parts,
                (
                    (grad_logits @ k).mul_(factor),
                    (grad_logits.transpose(1, 2) @ q).mul_(factor),
                    weights.transpose(1, 2) @ grad_y,
                ),
                strict=True,
            ):
                part.copy_(gradient.unflatten(0, (-1, ctx.heads)))
            grad_bias.append(grad_logits.unflatten(0, (-1, ctx.heads)).to(ctx.bias_dtype))
        return (grad_qkv, None, None, None, *grad_bias)


def _rows(blocks: tuple[Block, ...]) -> Iterator[slice]:
    """The slots of each block."""
    start = 0
    for block in blocks:
        yield slice(start, start + block.graphs * block.slots)
        start += block.graphs * block.slots


def _by_head_view(x: Tensor, block: Block, heads: int, parts: int) -> Tensor:
    """(graphs·S, parts·C) seen as (parts, graphs, H, S, C/H); parts is 3 for q, k, v, else 1."""
    return x.view(block.graphs, block.slots, parts, heads, -1).permute(2, 0, 3, 1, 4)


def _by_head(x: Tensor, block: Block, heads: int, parts: int) -> tuple[Tensor, ...]:
    """The same copied, each part (graphs·H, S, C/H)."""
    return _by_head_view(x, block, heads, parts).flatten(1, 2).unbind(0)
