"""Batch norm over the rows of real tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.sepnorm.kernels import at_least_float32, normalize
from molsepnorm.sepnorm.synchronized import all_process_statistics, has_several_processes

__all__ = ["MaskedBatchNorm1d", "is_synchronized", "mask_aware", "synchronize_norms"]


class MaskedBatchNorm1d(nn.BatchNorm1d):
    """Batch norm over the channels of (…, d) whose statistics count only the rows of a mask.

    All rows are normalised, but rows outside the mask have no influence on the statistics or their
    gradients. Statistics are kept in float32, also under autocast. The variance of a single row is
    0. As in `nn.BatchNorm1d`, `eval()` freezes the statistics and `requires_grad_(False)` does not.

    It cannot be a norm of torch's `nn.TransformerEncoderLayer`, which computes a layer norm with
    its weights in evaluation. Use `SharedNorm(width, nn.BatchNorm1d)` there.

    >>> norm = MaskedBatchNorm1d(2)
    >>> x = torch.tensor([[1.0, 0.0], [3.0, 2.0], [999.0, 999.0]])
    >>> norm(x, torch.tensor([True, True, False]))[:2].round().tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    synchronized = False
    """True if the rows of all processes of `torch.distributed` are counted. Processes may have
    different numbers of rows, or none. All must call the norm, and `backward` after it, equally
    often and in the same order."""

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """Normalise `input` (…, d) with the statistics of the rows where `mask` (…) is true.

        Raises:
            ValueError: `input` has a single row in training; if the norm is synchronised, all
                processes together count a single row.
        """
        rows = at_least_float32(input).reshape(-1, input.shape[-1])
        if not self.counts_rows:
            assert self.running_mean is not None and self.running_var is not None
            y = self._standardize(rows, self.running_mean, self.running_var)
        else:
            y, mean, variance, count = self._normalize_batch(rows, mask)
            if self.training and self.track_running_stats:
                self._update(mean, variance, count)
        return y.view_as(input).to(input.dtype)

    @property
    def counts_rows(self) -> bool:
        """True if the statistics are those of the input, as in training. A mask is read then."""
        return self.training or self.running_mean is None  # as in nn.BatchNorm1d

    def _normalize_batch(
        self, rows: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the normalised rows, their mean, variance and the number of rows counted."""
        counts = rows.new_ones(len(rows), 1).bool() if mask is None else mask.reshape(-1, 1)
        if is_synchronized(self):
            mean, variance, count = all_process_statistics(rows, counts)
            if len(rows) < 2 and count < 2:  # with two rows there is no need to read the count
                raise _too_few_tokens(int(count))
            return self._standardize(rows, mean, variance), mean, variance, count
        if len(rows) < 2:
            raise _too_few_tokens(len(rows))
        count = counts.sum().clamp(min=1)
        y, mean, variance = normalize(rows, counts, count, self.weight, self.bias, self.eps)
        return y, mean, variance, count

    def _standardize(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:  # (m, d)
        y = (rows - mean) * torch.rsqrt(variance + self.eps)
        return y * self.weight + self.bias if self.affine else y

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the running statistics."""
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), rate)


def synchronize_norms(network: nn.Module) -> None:
    """Make every batch norm of a network count the rows of all processes, in place.

    A plain `nn.BatchNorm1d` is replaced by a `MaskedBatchNorm1d` with the same parameters, buffers
    and options. (`nn.SyncBatchNorm` has no mask and does not run on a CPU.) In a single process the
    outputs stay the same, up to rounding.
    """
    for module in list(network.modules()):
        for name, child in module.named_children():
            setattr(module, name, mask_aware(child))
    for module in network.modules():
        if isinstance(module, MaskedBatchNorm1d):
            module.synchronized = True


def mask_aware(norm: nn.Module) -> nn.Module:
    """Return the norm itself; a plain `nn.BatchNorm1d` is replaced by a `MaskedBatchNorm1d`.

    The new norm shares all parameters and buffers with the old one.
    """
    if type(norm) is not nn.BatchNorm1d:
        return norm
    options = norm.eps, norm.momentum, norm.affine, norm.track_running_stats
    masked = MaskedBatchNorm1d(norm.num_features, *options, device="meta")
    for name, parameter in norm._parameters.items():
        masked.register_parameter(name, parameter)
    for name, buffer in norm._buffers.items():
        masked.register_buffer(name, buffer)
    return masked.train(norm.training)


def is_synchronized(norm: nn.Module) -> bool:
    """Return whether a norm counts the rows of several processes."""
    if not isinstance(norm, MaskedBatchNorm1d):
        return False
    return norm.synchronized and has_several_processes()


def _too_few_tokens(tokens: int) -> ValueError:
    return ValueError(
        f"a batch norm cannot train on {tokens} token{'s' * (tokens != 1)}: their variance is not "
        "defined. Use larger batches or a layer norm"
    )
