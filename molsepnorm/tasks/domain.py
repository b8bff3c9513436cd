"""`Domain`: the error to expect of a molecule, by its similarity to the training molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

GRID = np.linspace(0, 1, 21)
"""Similarities at which expected errors are stored; they are linear in between."""

_LEAST = 10  # molecules of a bin
_MAX_BINS = 20


def compared(labels: np.ndarray) -> np.ndarray:  # (n, T) -> bool (n, 1 + T)
    """Return which molecules are compared: all, and those with a label of each target."""
    return np.insert(~np.isnan(labels), 0, True, axis=1)


@dataclass(frozen=True)
class Domain:
    """Expected errors, learned from molecules that the model was not trained on."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    lowest: float
    """Smallest similarity among these molecules; less similar ones are outside the domain."""
    errors: tuple[tuple[float, ...] | None, ...]
    """Expected error of each target at the similarities `GRID`, which does not increase; None with
    fewer than 10 labels."""
    further: dict[str, float] = field(default_factory=dict)
    """Smallest similarity of further molecules among the rows of these molecules, by column."""

    @staticmethod
    def fit(similarity: np.ndarray, errors: np.ndarray) -> Domain:
        """Return the domain of a model, from the errors [n, T] of molecules that were not trained
        on (NaN without a label) and their Tanimoto similarity [n, 1 + T] to the most similar
        training molecule, and to the most similar one with a label of each target.

        For each target, the molecules are sorted by similarity into bins of 10 or more. Isotonic
        regression (Barlow et al., "Statistical Inference under Order Restrictions", 1972) makes the
        mean errors of the bins decrease with the similarity.
        """
        from sklearn.isotonic import IsotonicRegression

        curves: list[tuple[float, ...] | None] = []
        for near, column in zip(similarity.T[1:], errors.T, strict=True):
            known = np.flatnonzero(np.isfinite(column))
            if len(known) < _LEAST:
                curves.append(None)
                continue
            ordered = known[np.argsort(near[known], kind="stable")]
            bins = np.array_split(ordered, min(_MAX_BINS, len(known) // _LEAST))
            curve = IsotonicRegression(increasing=False, out_of_bounds="clip")
            curve.fit(*([values[each].mean() for each in bins] for values in (near, column)))
            curves.append(tuple(curve.predict(GRID).tolist()))
        return Domain(float(similarity[:, 0].min()), tuple(curves))

    @staticmethod
    def mean(domains: Sequence[Domain]) -> Domain:
        """Return the domain of the mean of several models of the same targets."""
        curves = [
            None if None in each else tuple(np.mean(each, axis=0).tolist())
            for each in zip(*(domain.errors for domain in domains), strict=True)
        ]
        further = {
            name: max(domain.further.get(name, 0.0) for domain in domains)
            for name in domains[0].further
        }
        return Domain(max(domain.lowest for domain in domains), tuple(curves), further)

    def expected(self, similarity: np.ndarray) -> np.ndarray:  # (n, T) -> (n, T)
        """Return the expected errors; NaN for targets without a curve."""
        curves = [curve or [np.nan] * len(GRID) for curve in self.errors]
        pairs = zip(similarity.T, curves, strict=True)
        return np.stack([np.interp(near, GRID, curve) for near, curve in pairs], axis=1)
