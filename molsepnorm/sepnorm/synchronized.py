"""Statistics over the rows of all processes of `torch.distributed`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


def has_several_processes() -> bool:
    """Return whether `torch.distributed` runs with more than one process."""
    ready = distributed.is_available() and distributed.is_initialized()
    return ready and distributed.get_world_size() > 1


def all_process_statistics(x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and biased variance (d,) of the rows of all processes, and their number.

    The rows of this process are x (m, d); those with `counts`, bool (m, 1), count.
    """
    rows = counts.sum()
    count = rows.clamp(min=1)
    mean = torch.where(counts, x, 0).sum(0) / count
    variance = torch.where(counts, x - mean, 0).square().sum(0) / count
    return _OfAllProcesses.apply(mean, variance, rows)


class _OfAllProcesses(torch.autograd.Function):
    r"""Mean and variance of the rows of all processes, from those of each process r.

    .. math::

        \mu &= \tfrac1n \sum_r n_r \mu_r \\
        \sigma^2 &= \tfrac1n \sum_r n_r \bigl(\sigma_r^2 + (\mu_r - \mu)^2\bigr)

    No terms cancel, unlike in a difference of means of squares, and each direction needs a single
    collective. All processes get the same bits. Source: Chan, Golub, LeVeque, "Updating formulae
    and a pairwise algorithm for computing sample variances", 1979.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,  # (d,)
        variance: Tensor,  # (d,)
        rows: Tensor,  # (): an integer
    ) -> tuple[Tensor, Tensor, Tensor]:  # (d,), (d,), (): of the type of the others
        own = torch.cat([mean, variance, rows.to(mean.dtype)[None]])
        table = own.new_zeros(distributed.get_world_size(), len(own))
        table[distributed.get_rank()] = own
        distributed.all_reduce(table)  # a gather that every backend supports
        means, variances = table[:, :-1].chunk(2, dim=1)  # (R, d) each
        counts = table[:, -1:]
        count = counts.sum()
        share = counts / count.clamp(min=1)  # (R, 1)
        all_mean = (share * means).sum(0)
        all_variance = (share * (variances + (means - all_mean).square())).sum(0)
        ctx.save_for_backward(mean, all_mean, share[distributed.get_rank()])
        ctx.mark_non_differentiable(count)
        return all_mean, all_variance, count

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients of the loss summed over all processes.

        Raises:
            NotImplementedError: second derivatives, which autograd cannot follow into other
                processes.
        """
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "a batch norm over the rows of all processes has no second derivatives "
                "(create_graph=True): compute them in a single process, or use a layer norm"
            )
        mean, all_mean, share = ctx.saved_tensors
        both = torch.stack(gradients[:2])  # (2, d)
        distributed.all_reduce(both)
        of_mean, of_variance = both
        # through the common mean the variance changes by Σ n_r (μ_r − μ), which is 0
        return share * (of_mean + 2 * (mean - all_mean) * of_variance), share * of_variance, None
