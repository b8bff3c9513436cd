"""How far a number, a molecule's size or a label, can be read off an embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Correlation", "correlate"]

_FOLDS = 5
_FEWEST = 20  # molecules, below which a fold has too few to say anything
_STRENGTHS = np.logspace(-4, 4, 9)  # of ridge regression, on standardised channels


@dataclass(frozen=True)
class Correlation:
    """Of a number with a cloud of embeddings."""

    axis: float
    """|Pearson's r| with the place along the cloud's longest axis: whether it is what molecules
    differ by most."""
    linear: float
    """Pearson's r with what ridge regression reads off all channels, of molecules left out of its
    fit, the mean over 5 folds: whether it is there at all. About 0 if not; chance may make it
    negative. (One r of all folds' predictions together would be negative by more than chance: each
    fold's mean is what the others lack.)"""


def correlate(points: np.ndarray, places: np.ndarray, values: np.ndarray) -> Correlation | None:
    """Correlate a number with a cloud.

    Args:
        points: float (n, d), embeddings.
        places: float (n,), along the cloud's longest axis.
        values: float (n,), NaN where it is not known: those molecules do not count.

    Returns:
        None where fewer than 20 are known, or where values or points are (all but) all alike.
    """
    known = np.isfinite(values)
    points, places, values = points[known], places[known], values[known]
    if len(values) < _FEWEST or not np.ptp(values) or not np.ptp(places):
        return None
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    readings = []
    for fit, left_out in KFold(_FOLDS, shuffle=True, random_state=0).split(points):
        if np.ptp(values[fit]) and np.ptp(values[left_out]):
            ridge = make_pipeline(StandardScaler(), RidgeCV(_STRENGTHS))
            ridge.fit(points[fit], values[fit])
            readings.append(_pearson(ridge.predict(points[left_out]), values[left_out]))
    if not readings:  # one yes among many no
        return None
    return Correlation(abs(_pearson(places, values)), float(np.mean(readings)))


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if not np.ptp(x):  # as regression says of a channel that says nothing
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
