"""Norms that a graph token, or the atom tokens, can be given besides layer and batch norm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d

__all__ = ["BATCH_KINDS", "BatchRenorm1d", "MixNorm", "NormKind", "make_norm"]

NormKind = Literal["layer", "batch", "rms", "none", "mix", "renorm"]

BATCH_KINDS: frozenset[NormKind] = frozenset({"batch", "mix", "renorm"})
"""The kinds that in training read the whole batch: where all tokens share such a norm, the graph
token cannot be normalised without the atoms."""


def make_norm(kind: NormKind, momentum: float = 0.1) -> Callable[[int], nn.Module]:
    """What makes a norm of a kind from a number of channels, for `SepNorm` and `SharedNorm`.

    ======  ======================================================================
    layer   `nn.LayerNorm`
    batch   `nn.BatchNorm1d`
    rms     `nn.RMSNorm` (Zhang and Sennrich, NeurIPS 2019, arXiv 1910.07467, eq. 4)
    none    `nn.Identity`
    mix     `MixNorm`
    renorm  `BatchRenorm1d`
    ======  ======================================================================

    Args:
        kind: of the norm.
        momentum: how much a batch counts in the running statistics, 0 to 1; where there are any.

    Raises:
        ConfigError: there is no such kind.

    >>> make_norm("batch", momentum=0.01)(80)
    BatchNorm1d(80, eps=1e-05, momentum=0.01, ...)
    """
    norms: dict[str, Callable[[int], nn.Module]] = {
        "layer": nn.LayerNorm,
        "batch": partial(nn.BatchNorm1d, momentum=momentum),
        "rms": partial(nn.RMSNorm, eps=1e-5),
        "none": nn.Identity,
        "mix": partial(MixNorm, momentum=momentum),
        "renorm": partial(BatchRenorm1d, momentum=momentum),
    }
    if kind not in norms:
        raise ConfigError(f"a norm must be one of {', '.join(get_args(NormKind))}; got '{kind}'")
    return norms[kind]


class MixNorm(MaskedBatchNorm1d):
    r"""Normalises by a learned mix of a token's own statistics and the batch's.

    .. math::

        y_i = \frac{x_i - (a\,\mu_i + (1 - a)\,\mu_B)}
                   {\sqrt{b\,\sigma_i^2 + (1 - b)\,\sigma_B^2 + \epsilon}}\,\gamma + \beta,
        \qquad (a, b) = \mathrm{sigmoid}(\mathtt{mix})

    Mean and variance of row i over its channels, as in layer norm, count a and b; those of each
    channel over the rows, as in batch norm, the rest. Evaluation takes running averages for the
    latter. It starts half and half, so that tokens which are all alike have a variance still.

    Source: Luo et al., "Differentiable Learning-to-Normalize via Switchable Normalization",
    ICLR 2019, arXiv 1806.10779, section 2.1, eq. 3. What differs: a token has no places to take
    an instance's statistics over, so two kinds are left, and a sigmoid does for the softmax; the
    statistics for evaluation are batch norm's running averages (the paper takes a plain mean over
    some batches, as `training.statistics.estimate_statistics` does).

    >>> norm = MixNorm(3)
    >>> norm(torch.randn(8, 3)).shape
    torch.Size([8, 3])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine)
        self.mix = nn.Parameter(torch.zeros(2))  # logits of the row's share: in mean and variance

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "mix"):  # nn.BatchNorm1d calls this before it is there
            nn.init.zeros_(self.mix)

    def _standardise(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:  # (…, d)
        own_mean = x.mean(-1, keepdim=True)  # (…, 1)
        own_variance = (x - own_mean).square().mean(-1, keepdim=True)
        of_mean, of_variance = self.mix.sigmoid().to(x.dtype)
        return super()._standardise(
            x,
            torch.lerp(mean, own_mean, of_mean),
            torch.lerp(variance, own_variance, of_variance),
        )


class BatchRenorm1d(MaskedBatchNorm1d):
    r"""Batch renormalisation: in training too, nearly what evaluation by running statistics gives.

    .. math::

        y &= \Bigl(\frac{x - \mu_B}{\sigma_B}\,r + d\Bigr)\,\gamma + \beta \\
        r &= \mathrm{clip}_{[1 / r_\max,\; r_\max]}(\sigma_B / \sigma), \qquad
        d = \mathrm{clip}_{[-d_\max,\; d_\max]}((\mu_B - \mu) / \sigma)

    B is the batch, no index the running statistics; no gradient goes through r and d. Within the
    limits y is (x − μ) / σ, so a token no longer depends on who shares its batch, while the
    gradient is still batch norm's. The first steps are plain batch norm, until the running
    statistics mean something; then r_max rises from 1 and d_max from 0, linearly.

    Source: Ioffe, "Batch Renormalization: Towards Reducing Minibatch Dependence in
    Batch-Normalized Models", NeurIPS 2017, arXiv 1702.03275, algorithm 1 and section 4. What
    differs: both limits rise over the same steps (the paper: from step 5,000, r_max to 40,000 and
    d_max to 25,000). Where `momentum` is None, as while `training.statistics.estimate_statistics`
    replaces the running statistics, there are none to lean on: plain batch norm.

    >>> norm = BatchRenorm1d(3, start=0, rise=1)
    >>> for _ in range(200):
    ...     y = norm(torch.randn(8, 3) + 5)
    >>> norm.limits()[0].item(), norm.limits()[1].item()
    (3.0, 5.0)
    """

    steps: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        *,
        largest_scale: float = 3.0,
        largest_shift: float = 5.0,
        start: int = 200,
        rise: int = 800,
    ) -> None:
        """Make one.

        Args:
            num_features: channels, d.
            eps: added to variances.
            momentum: how much a batch counts in the running statistics.
            affine: whether there are γ and β.
            largest_scale: what r_max rises to, at least 1.
            largest_shift: what d_max rises to, at least 0.
            start: training steps of plain batch norm.
            rise: training steps after them in which the limits rise.

        Raises:
            ConfigError: a limit or a number of steps is out of range.
        """
        super().__init__(num_features, eps, momentum, affine)
        if largest_scale < 1 or largest_shift < 0 or start < 0 or rise < 1:
            raise ConfigError(
                "batch renormalisation needs largest_scale ≥ 1, largest_shift ≥ 0, start ≥ 0 and "
                f"rise ≥ 1; got {largest_scale=}, {largest_shift=}, {start=}, {rise=}"
            )
        self.largest_scale = largest_scale
        self.largest_shift = largest_shift
        self.start = start
        self.rise = rise
        # num_batches_tracked begins anew whenever the running statistics do; the limits must not
        self.register_buffer("steps", torch.tensor(0))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "steps"):  # nn.BatchNorm1d calls this before it is there
            self.steps.zero_()

    def limits(self) -> tuple[Tensor, Tensor]:  # (), ()
        """r_max and d_max of the next training step."""
        risen = ((self.steps - self.start) / self.rise).clamp(0, 1)
        return 1 + (self.largest_scale - 1) * risen, self.largest_shift * risen

    def _standardise(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:  # (…, d)
        y = super()._standardise(x, mean, variance)
        if not self.training or self.momentum is None:
            return y
        scale, shift = self._correction(mean, variance)
        return y * scale + shift

    @torch.no_grad()
    def _correction(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:  # (d,), (d,)
        """r and d."""
        assert self.running_mean is not None and self.running_var is not None
        most, furthest = (limit.to(mean.dtype) for limit in self.limits())
        per_deviation = torch.rsqrt(self.running_var + self.eps)  # 1 / σ
        scale = (variance + self.eps).sqrt() * per_deviation
        shift = (mean - self.running_mean) * per_deviation
        return torch.clamp(scale, 1 / most, most), torch.clamp(shift, -furthest, furthest)

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        super()._update(mean, variance, count)
        if self.momentum is not None:
            self.steps.add_(1)
