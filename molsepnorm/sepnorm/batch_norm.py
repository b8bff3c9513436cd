"""Batch norm that counts the rows of real tokens only, of one process or of all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import once_differentiable

__all__ = [
    "MaskedBatchNorm1d",
    "at_least_float32",
    "is_shared_out",
    "mask_aware",
    "synchronize_norms",
]


class MaskedBatchNorm1d(nn.BatchNorm1d):
    """Batch norm over the channels of (…, d) that counts only the rows where a mask is true.

    Statistics are kept in float32, also under autocast; masked rows are normalised like the
    others but leave no trace in them. Where a single row counts, the variance is taken as 0.

    As for `nn.BatchNorm1d`, `eval()` freezes the statistics, `requires_grad_(False)` does not.

    Not by itself a norm of torch's `nn.TransformerEncoderLayer`, which in evaluation would compute
    a layer norm with its weights: put `SharedNorm(width, nn.BatchNorm1d)` there.

    >>> norm = MaskedBatchNorm1d(2)
    >>> x = torch.tensor([[1.0, 0.0], [3.0, 2.0], [999.0, 999.0]])
    >>> norm(x, torch.tensor([True, True, False]))[:2].round().tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    synchronized = False
    """Whether the rows of all processes of `torch.distributed` count, where there are several:
    each may have another number of them, or none. All must then call the norm, and `backward`
    after it, equally often and in the same order."""

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalise `input` (…, d) with the statistics of the rows where `mask` (…) is true.

        Raises:
            ValueError: in training, `input` has a single row (if synchronised: a single one
                counts, of all processes together).
        """
        x = at_least_float32(input)
        if self.counts_rows:
            y, mean, variance, count = self._by_batch(x, mask)
            if self.training and self.track_running_stats:
                self._update(mean, variance, count)
        else:
            assert self.running_mean is not None and self.running_var is not None
            y = self._scaled(self._standardise(x, self.running_mean, self.running_var))
        return y.to(input.dtype)

    @property
    def counts_rows(self) -> bool:
        """Whether statistics are the input's own, as in training, so that a mask is read."""
        return self.training or self.running_mean is None  # as in nn.BatchNorm1d

    def _by_batch(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x normalised with its own statistics, these, and how many rows they are of."""
        as_here = type(self)._standardise is MaskedBatchNorm1d._standardise
        if as_here and self.affine and not is_shared_out(self):  # all in one operation
            rows = x.reshape(-1, x.shape[-1])
            counts, count = _counts(rows, mask)
            count = count.clamp(min=1)
            y, mean, variance = _Normalise.apply(
                rows, counts, count, self.weight, self.bias, self.eps
            )
            return y.view_as(x), mean, variance, count
        mean, variance, count = self._statistics(x, mask)
        return self._scaled(self._standardise(x, mean, variance)), mean, variance, count

    def _scaled(self, y: Tensor) -> Tensor:  # (…, d)
        return y * self.weight + self.bias if self.affine else y

    def _standardise(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:  # (…, d)
        """x (…, d) before the affine part, from statistics (d,) of the batch or running ones.

        Returns a new tensor that its own gradient does not read: `SepNorm` writes into it.
        """
        return (x - mean) * torch.rsqrt(variance + self.eps)

    def _statistics(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x = x.reshape(-1, x.shape[-1])
        shared_out = is_shared_out(self)
        counts, rows = _counts(x, mask, fewest=0 if shared_out else 2)
        count = rows.clamp(min=1)
        mean = torch.where(counts, x, 0).sum(0) / count
        deviation = torch.where(counts, x - mean, 0)
        variance = deviation.square().sum(0) / count  # biased, as nn.BatchNorm1d's
        if not shared_out:
            return mean, variance, count
        mean, variance, count = _OfAllProcesses.apply(mean, variance, rows)
        # Whoever has two rows need not look (and wait for the device); if nobody has, all look.
        if len(x) < 2 and count < 2:
            raise _too_few_tokens(int(count))
        return mean, variance, count

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), rate)


def _counts(x: Tensor, mask: Tensor | None, fewest: int = 2) -> tuple[Tensor, Tensor]:
    """Which rows of x (m, d) count, (m, 1), and how many.

    Raises:
        ValueError: x has fewer rows.
    """
    if len(x) < fewest:
        raise _too_few_tokens(len(x))
    counts = x.new_ones(len(x), 1).bool() if mask is None else mask.reshape(-1, 1)
    return counts, counts.sum()


class _Normalise(torch.autograd.Function):
    r"""`MaskedBatchNorm1d` in training, in a third of the passes over memory.

    With s_i = 1/n for the n rows that count and 0 for the others, r = 1/√(σ² + ε) and
    d_i = x_i − μ:

    .. math::

        y_i &= \gamma r d_i + \beta, \qquad \mu = \sum_i s_i x_i, \quad
            \sigma^2 = \sum_i s_i d_i^2 \\
        \partial x_i &= \gamma r \Bigl(\partial y_i - s_i \sum_j \partial y_j
            - s_i d_i r^2 \sum_j \partial y_j d_j\Bigr)
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (m, d)
        counts: Tensor,  # bool (m, 1): the rows that count
        count: Tensor,  # (): n, at least 1
        weight: Tensor,  # (d,): γ
        bias: Tensor,  # (d,): β
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:  # (m, d), and mean and biased variance (d,)
        share = counts.to(x.dtype) / count
        counted = torch.where(counts, x, 0)  # the others may hold anything
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


class _OfAllProcesses(torch.autograd.Function):
    r"""Mean and variance of the rows of all processes, from those of each one's rows.

    .. math::

        \mu &= \tfrac1n \sum_r n_r \mu_r \\
        \sigma^2 &= \tfrac1n \sum_r n_r \bigl(\sigma_r^2 + (\mu_r - \mu)^2\bigr)

    Nothing here cancels, unlike in a difference of means of squares, and each direction needs one
    collective alone. Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances", 1979. All processes get the same bits.
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
        distributed.all_reduce(table)  # of zeros but for one: a gather, on every backend
        means, variances = table[:, :-1].chunk(2, dim=1)  # (R, d) each
        of_rank = table[:, -1:]
        count = of_rank.sum()
        share = of_rank / count.clamp(min=1)  # (R, 1)
        all_mean = (share * means).sum(0)
        all_variance = (share * (variances + (means - all_mean).square())).sum(0)
        ctx.save_for_backward(mean, all_mean, share[distributed.get_rank()])
        ctx.mark_non_differentiable(count)
        return all_mean, all_variance, count

    @staticmethod
    def backward(
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor, Tensor, None]:  # of the loss summed over all processes
        mean, all_mean, share = ctx.saved_tensors
        both = torch.stack(gradients[:2])  # (2, d)
        distributed.all_reduce(both)  # what the losses of all processes say
        of_mean, of_variance = both
        # the variance's change through the common mean is Σ n_r (μ_r − μ), which is zero
        return share * (of_mean + 2 * (mean - all_mean) * of_variance), share * of_variance, None


def synchronize_norms(network: nn.Module) -> None:
    """Let every batch norm inside `network` count the rows of all processes, in place.

    A plain `nn.BatchNorm1d` becomes a `MaskedBatchNorm1d` of the same parameters, buffers and
    options. (`nn.SyncBatchNorm` refuses tensors on a CPU, and knows of no mask.) Without
    `torch.distributed`, or with one process, they do as before, to rounding.
    """
    for module in list(network.modules()):
        for name, child in module.named_children():
            setattr(module, name, mask_aware(child))
    for module in network.modules():
        if isinstance(module, MaskedBatchNorm1d):
            module.synchronized = True


def mask_aware(norm: nn.Module) -> nn.Module:
    """What normalises like `norm`, a plain batch norm then reading a mask."""
    return _masked(norm) if type(norm) is nn.BatchNorm1d else norm


def _masked(norm: nn.BatchNorm1d) -> MaskedBatchNorm1d:
    """A batch norm that shares all of its state with another."""
    twin = MaskedBatchNorm1d(
        norm.num_features,
        norm.eps,
        norm.momentum,
        norm.affine,
        norm.track_running_stats,
        device="meta",  # the tensors are replaced
    )
    for name, parameter in norm._parameters.items():
        twin.register_parameter(name, parameter)
    for name, buffer in norm._buffers.items():
        twin.register_buffer(name, buffer)
    return twin.train(norm.training)


def is_shared_out(norm: nn.Module) -> bool:
    """Whether a norm's rows lie with several processes."""
    return (
        isinstance(norm, MaskedBatchNorm1d)
        and norm.synchronized
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _too_few_tokens(tokens: int) -> ValueError:
    return ValueError(
        f"a batch norm cannot train on {tokens} token{'s' * (tokens != 1)}: their variance is not "
        "defined. Use larger batches or a layer norm"
    )


def at_least_float32(x: Tensor) -> Tensor:
    """x, a lower precision being raised to float32."""
    return x.float() if x.element_size() < 4 else x
