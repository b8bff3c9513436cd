"""The bootstrap: scores of molecules drawn again and again, with replacement, from those scored.

Why this is not scikit-learn called a thousand times: that takes two seconds a metric for 4,000
molecules and ten for 44,000, times the targets, which may be 128; and SciPy's Spearman takes no
weights. Here a resample is a row of counts, how often each molecule was drawn, and the counts are
integer weights, so that a block of resamples is scored at once, mostly more than ten times faster.
The results are those of `score` on the molecules repeated so often.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from molsepnorm.tasks.metrics.metric import find
from molsepnorm.tasks.metrics.weighted import WEIGHTED

__all__ = ["draw_resamples", "interval", "resampled_scores"]

_BLOCK = 2**19
"""Weights held at a time: 4 MB, and up to ten arrays of this size."""


def draw_resamples(n: int, resamples: int, seed: int) -> np.ndarray:  # uint8 (R, n)
    """How often each of n molecules is drawn when n are drawn with replacement, R times over.

    Every row sums to n. The first rows do not depend on how many follow. Score targets or models
    that are to be compared on the same draws, so that their differences are paired.

    >>> draw_resamples(5, 2, seed=0).sum(axis=1).tolist()
    [5, 5]
    """
    rng = np.random.default_rng(seed)
    counts = np.empty((resamples, n), np.uint8)  # 256 of one molecule: less likely than 1e-500
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts


def resampled_scores(
    metric: str, labels: np.ndarray, predictions: np.ndarray, counts: np.ndarray
) -> np.ndarray:  # (R,)
    """`score` of each resample, NaN where it is undefined there.

    >>> labels, predictions = np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, 9.0])
    >>> resampled_scores("mae", labels, predictions, np.array([[1, 1, 1], [3, 0, 0], [0, 0, 3]]))
    array([0.25, 0.5 , nan])

    Args:
        metric, labels, predictions: as for `score`.
        counts: int (R, n), how often each molecule was drawn in each resample.

    Raises:
        ConfigError: there is no such metric.
    """
    kinds = find(metric).kinds
    present = np.flatnonzero(~np.isnan(labels))
    if not len(present):
        return np.full(len(counts), np.nan)
    truth, predicted = labels[present].astype(float), predictions[present].astype(float)
    odd = ~np.isfinite(truth) | ~np.isfinite(predicted.reshape(len(present), -1)).all(axis=1)
    truth[odd], predicted[odd] = 0, 0
    scores = np.empty(len(counts))
    with np.errstate(all="ignore"):
        weighted = WEIGHTED[metric](
            truth if "regression" in kinds else truth.astype(int), predicted
        )
        for rows, weights in _blocks(counts, present):
            scores[rows] = np.where(weights[odd].any(axis=0), np.nan, weighted(weights))
    return np.where(np.isfinite(scores), scores, np.nan)


def interval(scores: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """The percentile interval of resampled scores (R,): the middle `level` of those defined.

    None where fewer than half are defined: those say too little of the others.

    >>> interval(np.arange(101.0), level=0.5)
    (25.0, 75.0)

    Source: Efron, "Nonparametric standard errors and confidence intervals", 1981.
    """
    defined = scores[~np.isnan(scores)]
    if not len(defined) or 2 * len(defined) < len(scores):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _blocks(counts: np.ndarray, present: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The counts of the molecules present as weights, block by block of resamples."""
    step = max(1, _BLOCK // len(present))
    for start in range(0, len(counts), step):
        rows = slice(start, start + step)
        yield rows, np.ascontiguousarray(counts[rows].take(present, axis=1).T, dtype=float)
