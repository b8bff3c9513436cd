"""`TargetSummary`: the number and the distribution of the labels of a target."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Number of labels present."""
    bounds: int
    """Number of these labels that are bounds, such as ">10"."""
    missing: int
    mean: float | None
    """This and the next four are those of the labels that are not bounds, after the transform. They
    are None if the target is not a number or has no such label."""
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    classes: dict[str, int]
    """Number of labels of each class, "0" and "1" for binary targets without words; empty for
    numbers."""

    @staticmethod
    def of(target: Target, labels: np.ndarray, exact: np.ndarray) -> TargetSummary:
        """Return the summary of the labels (n,), NaN if missing; `exact` has NaN in place of
        bounds."""
        present = exact[~np.isnan(exact)].astype(float)
        count = int(np.count_nonzero(~np.isnan(labels)))
        is_measured = target.kind == "regression" and len(present) > 0
        names = target.classes or ("0", "1") * (target.kind == "binary")
        return TargetSummary(
            target.name,
            target.kind,
            labels=count,
            bounds=count - len(present),
            missing=len(labels) - count,
            mean=float(present.mean()) if is_measured else None,
            sd=float(present.std()) if is_measured else None,
            median=float(np.median(present)) if is_measured else None,
            min=float(present.min()) if is_measured else None,
            max=float(present.max()) if is_measured else None,
            classes={each: int((present == i).sum()) for i, each in enumerate(names)},
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
