"""A column to predict, and the labels that it may have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.transforms import NO_TRANSFORM, Transform, transform_of

BOUND_SIGNS = {1: ">", -1: "<"}
"""Signs of lower and upper bounds, see `Dataset.bounds`."""


@dataclass(frozen=True)
class Target:
    """A column to predict. Numbers, class weights or a transform that do not fit it are a
    `ConfigError`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    name: str
    kind: Kind
    mean: float = 0.0
    """Mean of the training labels, after the transform; 0 for classes."""
    scale: float = 1.0
    """Standard deviation of the training labels, after the transform; 1 for classes."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a multi-class target, in the order of its outputs; of 0 and 1 for a
    binary target whose labels are words."""
    class_weights: tuple[float, ...] = ()
    """Weight of each class in the loss (of 0 and 1 for a binary target); empty if all are equal."""
    transform: str = NO_TRANSFORM
    """Transform from the unit of the table to the scale that is learned, see `transform_of`."""

    def __post_init__(self) -> None:
        if self.transformation is not None and self.kind != "regression":
            raise ConfigError(
                f"transforms are for regression targets, and '{self.name}' is {self.kind}"
            )
        if not (math.isfinite(self.mean) and math.isfinite(self.scale) and self.scale > 0):
            raise ConfigError(
                f"target '{self.name}' needs a finite mean and a finite scale above 0; got "
                f"mean={self.mean}, scale={self.scale}"
            )
        weights, classes = self.class_weights, max(self.width, 2)
        if weights and len(weights) != classes:
            raise ConfigError(
                f"target '{self.name}' has {classes} classes; got {len(weights)} class_weights"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise ConfigError(
                f"target '{self.name}' needs finite class_weights of 0 or more; got {weights}"
            )

    @property
    def width(self) -> int:
        """Number of network outputs."""
        return len(self.classes) if self.kind == "multiclass" else 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, 0 and 1 if they have none; empty for regression."""
        return self.classes or ("0", "1") * (self.kind == "binary")

    @property
    def positive_class(self) -> str:
        """The class whose probability a binary target predicts."""
        return self.classes[1] if self.classes else "class 1"

    @property
    def transformation(self) -> Transform | None:
        """The transform; None if the unit of the table is learned."""
        return transform_of(self.transform, self.name)

    @property
    def learned_name(self) -> str:
        """Name of the learned value, such as ic50_nM_pic50."""
        transform = self.transformation
        return self.name if transform is None else f"{self.name}_{transform.scale}"

    @property
    def prediction_column(self) -> str:
        """Column of predictions in the unit of the table, probabilities of class 1, or classes."""
        return f"{self.name}_pred"

    @property
    def output_columns(self) -> list[str]:
        """Columns of `Task.predictions`: learned values, or probabilities."""
        if self.kind == "multiclass":
            return [f"{self.name}_prob_{name}" for name in self.classes]
        return [f"{self.learned_name}_pred"]

    @property
    def expected_column(self) -> str:
        """Column of the expected error, by similarity to the training molecules."""
        return f"{self.learned_name}_expected_error"

    @property
    def nearest_column(self) -> str:
        """Column of the labels of the most similar training molecules."""
        return f"{self.name}_nearest"

    @property
    def own_domain_columns(self) -> list[str]:
        """Columns of the similarity to the nearest training molecule with a label, and of this
        molecule, if others lack one."""
        return [f"{self.name}_similarity", f"{self.name}_nearest_smiles"]

    @property
    def percentile_column(self) -> str:
        """Column of the percentiles of predictions among known values."""
        return f"{self.name}_percentile"

    @property
    def forest_column(self) -> str:
        """Column of the random forest's predictions in the files of a run."""
        return f"{self.name}_forest"

    @property
    def uncertainty_columns(self) -> list[str]:
        """Columns that `predict --uncertainty` adds."""
        if self.kind != "regression":
            return [f"{self.name}_calibrated", f"{self.name}_set"]
        names = [f"{self.learned_name}_std", *interval_names(self.learned_name)]
        return names if self.transformation is None else [*interval_names(self.name), *names]

    @property
    def every_column(self) -> list[str]:
        """All columns that tables of predictions may have for the target."""
        return [
            self.prediction_column,
            *self.output_columns,
            f"{self.learned_name}_spread",
            self.forest_column,
            self.expected_column,
            self.nearest_column,
            *self.own_domain_columns,
            self.percentile_column,
            *self.uncertainty_columns,
        ]

    @property
    def digits(self) -> int:
        """Number of significant digits, 6 to 9, that show a thousandth of `scale`."""
        if self.kind != "regression" or self.transformation is not None:
            return 6
        size = math.log10(max(abs(self.mean) / self.scale, 1.0))
        return min(max(6, math.ceil(size) + 3), 9)

    @property
    def meaning(self) -> tuple[str | tuple[str, ...], ...]:
        """Name, kind, classes and transform; two targets are the same if these are equal."""
        return self.name, self.kind, self.classes, self.transform

    def rescaling_to(self, other: Target) -> tuple[float, float]:
        """Return the factor and shift that convert an output to another mean and scale."""
        return self.scale / other.scale, (self.mean - other.mean) / other.scale

    def fitted(
        self,
        labels: np.ndarray,
        class_weight: Literal["balanced"] | None = None,
        strict: bool = True,
    ) -> Target:
        """Return the target with the mean and scale, or the balanced weight n / (K n_c) of each of
        the K classes c, of its training labels (G,). It is a `DataError` if a label does not fit;
        or, if `strict`, if there is none or a single value."""
        present = labels[~np.isnan(labels)].astype(np.float64)
        if strict and not len(present):
            raise DataError(f"target '{self.name}' has no label among the training molecules")
        if strict and (present == present[0]).all():
            raise DataError(
                f"target '{self.name}' is constant among the training molecules: all "
                f"{len(present)} labels are {present[0]:g}, so there is nothing to learn. Leave it "
                "out, or choose another split"
            )
        check_labels([self], present[:, None])
        if self.kind == "regression" and len(present):
            return replace(self, mean=float(present.mean()), scale=float(present.std()) or 1.0)
        if self.kind == "regression" or class_weight is None:
            return self
        counts = np.bincount(present.astype(int), minlength=max(self.width, 2))
        occurring = max((counts > 0).sum(), 1)
        weights = len(present) / (occurring * np.maximum(counts, 1))
        return replace(self, class_weights=tuple(np.where(counts > 0, weights, 1.0).tolist()))


def interval_names(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"]


def check_labels(targets: Sequence[Target], labels: np.ndarray) -> None:
    """Raise a `DataError` if a label (G, T) does not fit its target."""
    for target, column in zip(targets, labels.T, strict=True):
        if target.kind == "regression":
            continue
        expected = "is binary, so its labels must be 0, 1 or empty"
        if target.kind == "multiclass":
            expected = f"has {target.width} classes, so its labels must be 0 … {target.width - 1}"
        invalid = column[~np.isnan(column) & ~np.isin(column, range(max(target.width, 2)))]
        if len(invalid):
            raise DataError(f"target '{target.name}' {expected}; found {invalid[0]:g}")
