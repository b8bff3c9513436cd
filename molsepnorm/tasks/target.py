"""One column to predict, and what its labels may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks.metrics import Kind

__all__ = ["Target", "check_labels"]


@dataclass(frozen=True)
class Target:
    """One column to predict.

    Raises:
        ConfigError: a number that is not finite, a scale of 0 or less, or another number of class
            weights than of classes.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read where a file is checked

    name: str
    kind: Kind
    mean: float = 0.0
    """Mean of the training labels, in their own units; 0 unless it is regression."""
    scale: float = 1.0
    """Standard deviation of the training labels, in their own units; 1 unless it is regression."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a multi-class target, in the order of its outputs."""
    class_weights: tuple[float, ...] = ()
    """How much a label of each class (no, yes where it is yes/no) counts in the loss; empty for all
    alike."""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.kind, *self.classes)):
            raise ConfigError(
                f"name, kind and classes of a target must be texts; got {self.name!r:.80}, "
                f"{self.kind!r:.80}, {self.classes!r:.80}"
            )
        if not (math.isfinite(self.mean) and math.isfinite(self.scale) and self.scale > 0):
            raise ConfigError(
                f"target '{self.name}' needs a finite mean and a finite scale above 0; got "
                f"mean={self.mean}, scale={self.scale}"
            )
        weights = self.class_weights
        if weights and len(weights) != max(self.width, 2):
            raise ConfigError(
                f"target '{self.name}' has {max(self.width, 2)} classes; got {len(weights)} "
                "class_weights"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise ConfigError(
                f"target '{self.name}' needs finite class_weights of 0 or more; got {weights}"
            )

    @property
    def width(self) -> int:
        """How many of the network's outputs it takes."""
        return len(self.classes) if self.kind == "multiclass" else 1

    @staticmethod
    def fit(
        name: str,
        kind: Kind,
        labels: np.ndarray,
        classes: tuple[str, ...] = (),
        class_weight: Literal["balanced"] | None = None,
        strict: bool = True,
    ) -> Target:
        """The target standardised, or its classes balanced, by its training labels (G,); the
        arguments are those of `Task.fit`.

        Raises:
            DataError: no label, a single value (both where `strict`), or one that does not fit.
        """
        present = labels[~np.isnan(labels)].astype(np.float64)
        if strict:
            _require_variety(name, present)
        target = Target(name, kind, classes=classes)
        check_labels([target], present[:, None])
        if kind == "regression" and len(present):
            return replace(target, mean=float(present.mean()), scale=float(present.std()) or 1.0)
        if kind != "regression" and class_weight == "balanced":
            return replace(target, class_weights=_balanced(present, max(target.width, 2)))
        return target


def check_labels(targets: Sequence[Target], labels: np.ndarray) -> None:
    """Check that the labels (G, T) are such as their targets can have.

    Raises:
        DataError: one is not.
    """
    for target, column in zip(targets, labels.T, strict=True):
        if target.kind == "regression":
            continue
        known = range(max(target.width, 2))
        odd = column[~np.isnan(column) & ~np.isin(column, known)]
        if not len(odd):
            continue
        if target.kind == "binary":
            expected = "is yes/no, so its labels must be 0, 1 or blank"
        else:
            expected = f"has {len(known)} classes, so its labels must be 0 … {len(known) - 1}"
        raise DataError(f"target '{target.name}' {expected}; found {odd[0]:g}")


def _require_variety(name: str, present: np.ndarray) -> None:
    if not len(present):
        raise DataError(f"target '{name}' has no label among the training molecules")
    if (present == present[0]).all():
        raise DataError(
            f"target '{name}' is constant among the training molecules: all {len(present)} labels "
            f"are {present[0]:g}, so there is nothing to learn. Leave it out, or choose another "
            "split"
        )


def _balanced(labels: np.ndarray, num_classes: int) -> tuple[float, ...]:
    """n / (K n_c) for each of the K classes c that occur, so that the mean weight of a label is 1;
    1 for one that does not."""
    counts = np.bincount(labels.astype(int), minlength=num_classes)
    occurring = max((counts > 0).sum(), 1)
    weights = len(labels) / (occurring * np.maximum(counts, 1))
    return tuple(np.where(counts > 0, weights, 1.0).tolist())
