"""Batch norm over the rows of real tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.kernels import (
    all_process_statistics,
    at_least_float32,
    has_several_processes,
    normalize,
)


class MaskedBatchNorm1d(nn.BatchNorm1d):
    """Batch norm over the channels of (…, d) whose statistics count only the rows of a mask.

    Rows outside the mask are normalised, too. Statistics are kept in float32, also under autocast.
    The variance of a single row is 0. As in `nn.BatchNorm1d`, `eval()` freezes the statistics and
    `requires_grad_(False)` does not.

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
        if not counts_rows(self):
            assert self.running_mean is not None and self.running_var is not None
            y = self._standardize(rows, self.running_mean, self.running_var)
        else:
            y, mean, variance, count = self._normalize_batch(rows, mask)
            if self.training and self.track_running_stats:
                self._update(mean, variance, count)
        return y.view_as(input).to(input.dtype)

    def _normalize_batch(
        self, rows: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the normalised rows, their mean and variance, and the number of rows counted."""
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
        y = y if self.weight is None else y * self.weight
        return y if self.bias is None else y + self.bias

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked
        unbiased = variance * count / (count - 1).clamp(min=1)
        for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.copy_(running + rate * (batch - running))  # computed in the higher precision


class _SynchronizedBatchNorm(MaskedBatchNorm1d):
    """A batch norm of torch, over the channels of (n, d, …), that counts the rows of all
    processes."""

    synchronized = True

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(input.movedim(1, -1), mask).movedim(-1, 1).contiguous()


def synchronize_norms(network: nn.Module) -> None:
    """Make every batch norm of a network count the rows of all processes, in place.

    Batch norms of torch are replaced by norms with the same parameters, buffers and options.
    (`nn.SyncBatchNorm`, which stays, does not run on a CPU.) In a single process the outputs stay
    the same, up to rounding.

    Raises:
        ConfigError: a subclass of a batch norm has its own `forward`.
    """
    for module in list(network.modules()):
        if isinstance(module, MaskedBatchNorm1d):
            module.synchronized = True
        for name, child in module.named_children():
            if isinstance(child, _BatchNorm) and not isinstance(
                child, MaskedBatchNorm1d | nn.SyncBatchNorm
            ):
                if not _computes_as_torch(child):
                    raise ConfigError(
                        f"'{name}' of a {type(module).__name__} cannot count the rows of all "
                        f"processes: {type(child).__name__} has its own forward. Use a batch norm "
                        "of torch, or a layer norm"
                    )
                setattr(module, name, _with_state_of(child, _SynchronizedBatchNorm))


def mask_aware(norm: nn.Module) -> nn.Module:
    """Return a `MaskedBatchNorm1d` with the parameters and buffers of a batch norm of torch, and
    other norms as they are. For an `nn.SyncBatchNorm`, it counts the rows of all processes.
    """
    is_synchronous = isinstance(norm, nn.SyncBatchNorm)
    if is_synchronous and norm.process_group is not None:
        raise ConfigError(
            "a batch norm of tokens with a mask counts the rows of all processes, not those of a "
            "process group: leave out process_group="
        )
    if not isinstance(norm, _BatchNorm) or not (is_synchronous or _computes_as_torch(norm)):
        return norm
    masked = _with_state_of(norm, MaskedBatchNorm1d)
    masked.synchronized = is_synchronous
    return masked


def _computes_as_torch(norm: _BatchNorm) -> bool:
    return type(norm).forward is _BatchNorm.forward


def _with_state_of(norm: _BatchNorm, kind: type[MaskedBatchNorm1d]) -> MaskedBatchNorm1d:
    options = norm.eps, norm.momentum, norm.affine, norm.track_running_stats
    new = kind(norm.num_features, *options, device="meta")
    for name, parameter in norm._parameters.items():
        new.register_parameter(name, parameter)
    for name, buffer in norm._buffers.items():
        new.register_buffer(name, buffer)
    return new.train(norm.training)


def normalize_real(norm: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:  # (…, d)
    """Normalise x (…, d); a batch norm counts only the rows where the mask (…) is true. Raise a
    `ConfigError` about a batch norm that cannot read the mask."""
    if isinstance(norm, MaskedBatchNorm1d):
        return norm(x, mask)
    if mask is not None and counts_rows(norm):
        raise ConfigError(
            f"the norm of the tokens, a {type(norm).__name__}, contains a batch norm that cannot "
            "read the mask and would count padding: use nn.BatchNorm1d itself, as in "
            "SepNorm(width, tok_norm=nn.BatchNorm1d), or leave out the mask if there is no padding"
        )
    return norm(x)


def contains_batch_norm(norm: nn.Module) -> bool:
    return any(isinstance(module, _BatchNorm) for module in norm.modules())


def counts_rows(norm: nn.Module) -> bool:
    """Return whether the norm contains a batch norm that computes statistics of its input, in
    training or without running statistics. It reads a mask then."""
    return any(
        isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)
        for module in norm.modules()
    )


def is_synchronized(norm: nn.Module) -> bool:
    return isinstance(norm, MaskedBatchNorm1d) and norm.synchronized and has_several_processes()


def _too_few_tokens(tokens: int) -> ValueError:
    return ValueError(
        f"a batch norm cannot train on {tokens} token{'s' * (tokens != 1)}: their variance is not "
        "defined. Use larger batches or a layer norm"
    )
