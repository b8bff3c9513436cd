"""Molecule-level features as inputs of the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError

_LIMIT = 10.0  # standard deviations


class KeepsFloat32(nn.Module):
    """A module that stays in float32 in a model of lower precision."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def kept(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            is_low = changed.is_floating_point() and changed.element_size() < 4
            return tensor.to(changed.device) if is_low else changed

        return super()._apply(kept, recurse)


class MoleculeFeatures(KeepsFloat32):
    """Concatenates standardised molecule-level features to what is read out of each molecule.

        y = [x, clip((features − mean) / sd, −10, 10)]

    Mean and standard deviation stay in float32, since a rounded mean would shift temperatures of
    298 to 300 K by more than their spread. A missing feature (NaN) is replaced by the mean.
    """

    mean: Tensor
    sd: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(count))
        self.register_buffer("sd", torch.ones(count))

    def fit(self, features: Tensor, as_is: Tensor | None = None) -> None:  # (G, F)
        mean, sd = scaling(features, as_is)
        self.mean.copy_(mean)
        self.sd.copy_(sd)

    def forward(self, x: Tensor, features: Tensor | None) -> Tensor:  # (B, R) -> (B, R + F)
        if features is None or features.shape[1] != len(self.mean):
            count = 0 if features is None else features.shape[1]
            raise ConfigError(
                f"the batch has {count} molecule-level features, and the network needs "
                f"{len(self.mean)}: encode the molecules with the featuriser of the model"
            )
        standard = standardised(features, self.mean, self.sd)
        return torch.cat([x, standard.to(x.dtype)], dim=1)


def scaling(features: Tensor, as_is: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of features (G, F), float32; 1 for a constant feature, and
    0 and 1 for those that stay as they are, bool (F,)."""
    values = features.double()
    mean = values.nanmean(dim=0).nan_to_num()
    sd = (values - mean).square().nanmean(dim=0).nan_to_num().sqrt()
    sd = torch.where(sd > 1e-6 * mean.abs(), sd, 1.0)
    if as_is is not None:
        mean, sd = mean.masked_fill(as_is, 0.0), sd.masked_fill(as_is, 1.0)
    return mean.float(), sd.float()


def standardised(features: Tensor, mean: Tensor, sd: Tensor) -> Tensor:  # (B, F)
    """Return features standardised and clipped; a missing one is 0."""
    return ((features - mean) / sd).nan_to_num(nan=0.0).clamp(-_LIMIT, _LIMIT)
