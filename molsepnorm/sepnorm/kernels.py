"""Batch norm of masked rows with a hand-written gradient, and statistics over processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional as F


def at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.element_size() < 4 else x


def normalize(
    x: Tensor,  # (m, d); rows that do not count may hold anything
    counts: Tensor,  # bool (m, 1): the rows that count
    count: Tensor,  # n, at least 1
    weight: Tensor | None,  # γ (d,); None: 1
    bias: Tensor | None,  # β (d,); None: 0
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
    counted = torch.where(counts, x, 0)
    mean = counted.sum(0) / count
    return mean, counted.sub_(mean).pow_(2).mul_(_share(x, counts, count)).sum(0)


def _share(x: Tensor, counts: Tensor, count: Tensor) -> Tensor:  # s, (m, 1)
    return counts.to(x.dtype) / count


def has_several_processes() -> bool:
    ready = distributed.is_available() and distributed.is_initialized()
    return ready and distributed.get_world_size() > 1


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes. Gradients are those of the loss summed over all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SumOverProcesses.apply(gradient)


def all_process_statistics(x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return mean and biased variance (d,) of the rows of all processes, and their number.

    `counts`, bool (m, 1), marks the rows of x (m, d) that count. From the number n_r, the mean and
    the variance of the rows of each process r:

    .. math::

        \mu &= \tfrac1n \sum_r n_r \mu_r \\
        \sigma^2 &= \tfrac1n \sum_r n_r \bigl(\sigma_r^2 + (\mu_r - \mu)^2\bigr)

    No terms cancel, unlike in a difference of means of squares, and each direction needs a single
    collective. All processes get the same bits. Source: Chan, Golub, LeVeque, "Updating formulae
    and a pairwise algorithm for computing sample variances", 1979.
    """
    rows = counts.sum()
    mean = torch.where(counts, x, 0).sum(0) / rows.clamp(min=1)
    variance = torch.where(counts, x - mean, 0).square().sum(0) / rows.clamp(min=1)
    own = torch.cat([mean, variance, rows.to(mean.dtype)[None]])
    before, world = distributed.get_rank(), distributed.get_world_size()
    table = F.pad(own[None], (0, 0, before, world - before - 1))  # others are summed into it
    table = _SumOverProcesses.apply(table)
    means, variances = table[:, :-1].chunk(2, dim=1)  # (R, d) each
    numbers = table[:, -1:]
    count = numbers.sum().detach()
    share = numbers / count.clamp(min=1)  # (R, 1)
    all_mean = (share * means).sum(0)
    return all_mean, (share * (variances + (means - all_mean).square())).sum(0), count
