"""Batch norm of masked rows, written for speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["at_least_float32", "normalize"]


def at_least_float32(x: Tensor) -> Tensor:
    """Return x, cast to float32 if its precision is lower."""
    return x.float() if x.element_size() < 4 else x


def normalize(
    x: Tensor,
    counts: Tensor,
    count: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Normalise rows by the mean and variance of those that count.

    With s_i = 1/n for the n rows that count and 0 for the others, r = 1/√(σ² + ε) and
    d_i = x_i − μ:

    .. math::

        y_i &= \gamma r d_i + \beta, \qquad \mu = \sum_i s_i x_i, \quad
            \sigma^2 = \sum_i s_i d_i^2 \\
        \partial x_i &= \gamma r \Bigl(\partial y_i - s_i \sum_j \partial y_j
            - s_i d_i r^2 \sum_j \partial y_j d_j\Bigr)

    The hand-written gradient needs a third of the passes over memory of autograd's.

    Args:
        x: (m, d); rows that do not count may hold anything.
        counts: bool (m, 1): the rows that count.
        count: the number n of these rows, at least 1.
        weight: γ (d,); 1 if missing.
        bias: β (d,); 0 if missing.
        eps: ε.

    Returns:
        y (m, d), and the mean and the biased variance (d,), which have no gradient.
    """
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    bias = x.new_zeros(x.shape[1]) if bias is None else bias
    return _Normalize.apply(x, counts, count, weight, bias, eps)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, counts: Tensor, count: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        share = counts.to(x.dtype) / count
        counted = torch.where(counts, x, 0)
        mean = counted.sum(0) / count
        variance = counted.sub_(mean).square_().mul_(share).sum(0)
        deviation = x - mean
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(deviation, share, scale, weight)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias, deviation, weight * scale), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        deviation, share, scale, weight = ctx.saved_tensors
        of_bias, along = grad.sum(0), (grad * deviation).sum(0)
        grad_x = torch.addcmul(of_bias, deviation, along * scale.square())
        grad_x.mul_(share).sub_(grad).mul_(-weight * scale)
        return grad_x, None, None, along * scale, of_bias, None
