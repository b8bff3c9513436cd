"""Scores of one target, on the molecules as they are or on bootstrap resamples of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from molsepnorm.tasks.metrics.metric import find
from molsepnorm.tasks.metrics.weighted import WEIGHTED

__all__ = ["resampled_scores", "score"]

_WEIGHTS_AT_ONCE = 2**19
"""Number of weights in memory: 4 MB, and up to ten arrays of this size."""


def score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return a metric of one target over the labels that are present; NaN where it is undefined.

    >>> score("mae", np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, 9.0]))
    0.25
    >>> score("roc_auc", np.array([1.0, 1.0]), np.array([0.2, 0.9]))
    nan

    Args:
        metric: a name of `METRICS`, except "loss".
        labels: (n,), NaN where missing; 0 or 1 for binary targets, the index of the class for
            multi-class targets.
        predictions: (n,) values or probabilities of class 1, or (n, K) probabilities of K classes.

    Raises:
        ConfigError: there is no such metric.
    """
    once = np.ones((1, len(labels)), np.uint8)
    return float(resampled_scores(metric, labels, predictions, once)[0])


def resampled_scores(
    metric: str, labels: np.ndarray, predictions: np.ndarray, counts: np.ndarray
) -> np.ndarray:  # (R,)
    """Return the `score` of each resample; NaN where it is undefined.

    >>> labels, predictions = np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, 9.0])
    >>> resampled_scores("mae", labels, predictions, np.array([[1, 1, 1], [3, 0, 0], [0, 0, 3]]))
    array([0.25, 0.5 , nan])

    Args:
        metric, labels, predictions: as for `score`.
        counts: int (R, n), number of times that each molecule was drawn in each resample.

    Raises:
        ConfigError: there is no such metric.
    """
    kinds = find(metric).kinds
    present = np.flatnonzero(~np.isnan(labels))
    if not len(present):
        return np.full(len(counts), np.nan)
    truth, predicted = labels[present].astype(float), predictions[present].astype(float)
    finite = np.isfinite(truth) & np.isfinite(predicted.reshape(len(present), -1)).all(axis=1)
    truth[~finite], predicted[~finite] = 0, 0
    scores = np.empty(len(counts))
    with np.errstate(all="ignore"):
        score_of = WEIGHTED[metric](
            truth if "regression" in kinds else truth.astype(int), predicted
        )
        for rows, weights in _weights(counts, present):
            scores[rows] = np.where(weights[~finite].any(axis=0), np.nan, score_of(weights))
    return np.where(np.isfinite(scores), scores, np.nan)


def _weights(counts: np.ndarray, present: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the counts of the labelled molecules as weights (n, r), r resamples at a time."""
    step = max(1, _WEIGHTS_AT_ONCE // len(present))
    for start in range(0, len(counts), step):
        rows = slice(start, start + step)
        yield rows, np.ascontiguousarray(counts[rows].take(present, axis=1).T, dtype=float)
