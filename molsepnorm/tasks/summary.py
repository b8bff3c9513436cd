"""`TargetSummary`: the labels of a target in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from molsepnorm.tasks.metrics import Kind, four_digits
from molsepnorm.tasks.target import Target

_MAX_CLASSES = 5  # classes that are listed


@dataclass(frozen=True)
class TargetSummary:
    """The labels of a target in some rows."""

    name: str
    kind: Kind
    labels: int
    """Number of labels, bounds such as ">10" included."""
    bounds: int
    missing: int
    mean: float | None
    """This and the other statistics describe exact labels after the transform; None without any."""
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    classes: dict[str, int]
    """Number of labels of each class, "0" and "1" for binary targets without words."""

    @staticmethod
    def of(target: Target, labels: np.ndarray, exact: np.ndarray) -> TargetSummary:
        """Summarise labels (n,), NaN if missing; `exact` is NaN for bounds, too."""
        present = exact[~np.isnan(exact)].astype(float)
        count = int(np.count_nonzero(~np.isnan(labels)))
        measured = target.kind == "regression" and len(present) > 0
        functions: tuple[Callable[..., Any], ...] = (np.mean, np.std, np.median, np.min, np.max)
        mean, sd, median, low, high = (float(f(present)) if measured else None for f in functions)
        classes = {n: int((present == i).sum()) for i, n in enumerate(target.class_names)}
        bounds, missing = count - len(present), len(labels) - count
        return TargetSummary(
            target.name, target.kind, count, bounds, missing, mean, sd, median, low, high, classes
        )

    @property
    def distribution(self) -> str:
        """Mean and standard deviation, or the frequencies of the classes, the most common first."""
        if self.mean is not None and self.sd is not None:
            return f"{four_digits(self.mean)} ± {four_digits(self.sd)}"
        if not self.labels or not self.classes:
            return ""
        if self.kind == "binary":
            negative, positive = self.classes
            count = self.classes[positive]
            name = "yes" if (negative, positive) == ("0", "1") else positive
            return f"{count:,} {name} ({count / self.labels:.1%})"
        ordered = sorted(self.classes.items(), key=lambda item: -item[1])
        shown = [f"{name} {count / self.labels:.1%}" for name, count in ordered[:_MAX_CLASSES]]
        return ", ".join(shown) + (", …" if len(ordered) > _MAX_CLASSES else "")
