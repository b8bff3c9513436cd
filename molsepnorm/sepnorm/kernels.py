"""Batch norm of masked rows, written for speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor, counts: Tensor, count: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = _statistics(x, counts, count)
        scale = torch.rsqrt(variance + eps)
        return torch.addcmul(bias, x - mean, weight * scale), mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, counts, count, weight, _, ctx.eps = inputs
        _, mean, variance = output
        ctx.mark_non_differentiable(mean, variance)
        ctx.save_for_backward(x, counts, count, weight, mean, variance)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, counts, count, weight, mean, variance = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives, as functions of x
            mean, variance = _statistics(x, counts, count)
        deviation, scale = x - mean, torch.rsqrt(variance + ctx.eps)
        of_bias, along = grad.sum(0), (grad * deviation).sum(0)
        grad_x = torch.addcmul(of_bias, deviation, along * scale.square())
        grad_x = grad_x.mul_(_share(x, counts, count)).sub_(grad).mul_(-weight * scale)
        return grad_x, None, None, along * scale, of_bias, None


def _statistics(x: Tensor, counts: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance (d,) of the rows that count."""
    counted = torch.where(counts, x, 0)
    mean = counted.sum(0) / count
    return mean, counted.sub_(mean).pow_(2).mul_(_share(x, counts, count)).sum(0)


def _share(x: Tensor, counts: Tensor, count: Tensor) -> Tensor:  # (m, 1)
    """Return s_i, of the type of x."""
    return counts.to(x.dtype) / count
