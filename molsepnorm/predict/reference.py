"""`Reference`: known values of the targets, and the percentiles of predictions among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel

if TYPE_CHECKING:
    from molsepnorm.pretrained.card import ModelCard


@dataclass(frozen=True)
class Reference:
    """Molecules that predictions are compared with."""

    molecules: str
    """Description of the molecules."""
    values: dict[str, np.ndarray]
    """Increasing values at equally spaced percentiles, 0 to 100, by target."""

    @staticmethod
    def of(model: PropertyModel, card: ModelCard | None = None) -> Reference:
        """Return the reference of a model.

        These are the molecules of its card, or without a card that has percentiles, the labels of
        the training molecules for regression targets. A bound counts as its number.

        Raises:
            ConfigError: the model has neither.
            ModelError: the file of the training molecules is damaged.
        """
        model.require_targets()
        known = {} if card is None else card.end_points
        numbers = [target for target in model.task.targets if target.kind != "multiclass"]
        values = {
            target.name: np.array(known[target.name].reference)
            for target in numbers
            if target.name in known and known[target.name].reference
        }
        if card is not None and values:
            return Reference(card.reference or "the molecules of the model's card", values)
        if model.structures:
            labels = model.training_molecules().labels.T
            for target, column in zip(model.task.targets, labels, strict=True):
                present = np.sort(column[~np.isnan(column)])
                if target.kind == "regression" and len(present) > 1:
                    values[target.name] = present
        if not values:
            raise ConfigError(
                "this model has no card with percentiles, and no training labels of a regression "
                "target that could be used instead: train it again with its training molecules, or "
                "leave --reference out"
            )
        return Reference("the labels of the model's training molecules", values)

    def percentiles(self, target: str, values: np.ndarray) -> np.ndarray:  # float64 (n,)
        """Return the percentiles, 0 to 100, of values of a target, by linear interpolation. A value
        that several reference molecules share has the middle of their percentiles.

        >>> reference = Reference("five molecules", {"y": np.array([1.0, 2.0, 2.0, 3.0, 5.0])})
        >>> reference.percentiles("y", np.array([0.0, 1.5, 2.0, 4.0, 9.0, np.nan])).tolist()
        [0.0, 12.5, 37.5, 87.5, 100.0, nan]
        """
        known = self.values[target]
        shares = np.linspace(0, 100, len(known))
        highest = np.interp(values, known, shares)
        lowest = 100 - np.interp(-values, -known[::-1], shares)
        return (highest + lowest) / 2
