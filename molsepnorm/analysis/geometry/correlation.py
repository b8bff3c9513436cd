"""Correlation of a number, a molecule's size or a label, with embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Correlation", "correlate"]

_FOLDS = 5
_MIN_MOLECULES = 20  # with fewer, a fold is too small for a correlation
_STRENGTHS = np.logspace(-4, 4, 9)  # of ridge regression, on standardised channels


@dataclass(frozen=True)
class Correlation:
    """Correlations of a number with embeddings."""

    axis: float
    """|Pearson's r| with the coordinate along the longest axis: whether the number is the main
    difference between molecules."""
    linear: float
    """Mean over 5 folds of Pearson's r with the predictions of a ridge regression on all channels,
    for molecules left out of its fit: whether the embeddings contain the number at all. It is about
    0 if they do not, and may be negative by chance. (A single r for all folds together would be
    biased: the mean of a fold is missing from its training data.)"""


def correlate(points: np.ndarray, axis: np.ndarray, values: np.ndarray) -> Correlation | None:
    """Correlate a number with embeddings.

    Args:
        points: float (n, d), the embeddings.
        axis: float (n,), their coordinates along the longest axis.
        values: float (n,), the number; molecules with NaN are left out.

    Returns:
        None if fewer than 20 values are known, or if values or points are (almost) all equal.
    """
    known = np.isfinite(values)
    points, axis, values = points[known], axis[known], values[known]
    if len(values) < _MIN_MOLECULES or not np.ptp(values) or not np.ptp(axis):
        return None
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scores = []
    for fit, left_out in KFold(_FOLDS, shuffle=True, random_state=0).split(points):
        if np.ptp(values[fit]) and np.ptp(values[left_out]):
            ridge = make_pipeline(StandardScaler(), RidgeCV(_STRENGTHS))
            ridge.fit(points[fit], values[fit])
            scores.append(_pearson(ridge.predict(points[left_out]), values[left_out]))
    if not scores:  # a single positive label
        return None
    return Correlation(abs(_pearson(axis, values)), float(np.mean(scores)))


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if not np.ptp(x):  # a constant prediction
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
