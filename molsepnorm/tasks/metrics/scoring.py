"""Scores of one target, on the molecules as they are or on bootstrap resamples of them.

`scipy.stats.bootstrap` was tried in place of the resamples. It computes metrics that have no
vectorised form one resample at a time, which takes 10 to 700 times as long, and it cannot draw the
same resamples for several targets.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.tasks.metrics.metric import METRICS
from molsepnorm.tasks.metrics.weighted import WEIGHTED

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
    if metric not in WEIGHTED:
        raise ConfigError(f"no metric '{metric}' scores a target. {did_you_mean(metric, WEIGHTED)}")
    present = np.flatnonzero(~np.isnan(labels))
    if not len(present):
        return np.full(len(counts), np.nan)
    truth, predicted = labels[present].astype(float), predictions[present].astype(float)
    finite = np.isfinite(truth) & np.isfinite(predicted.reshape(len(present), -1)).all(axis=1)
    truth[~finite], predicted[~finite] = 0, 0
    if "regression" not in METRICS[metric].kinds:
        truth = truth.astype(int)
    scores = np.empty(len(counts))
    step = max(1, _WEIGHTS_AT_ONCE // len(present))
    with np.errstate(all="ignore"):
        score_of = WEIGHTED[metric](truth, predicted)
        for start in range(0, len(counts), step):
            rows = slice(start, start + step)
            weights = np.ascontiguousarray(counts[rows].take(present, axis=1).T, dtype=float)
            scores[rows] = np.where(weights[~finite].any(axis=0), np.nan, score_of(weights))
    return np.where(np.isfinite(scores), scores, np.nan)


def draw_resamples(n: int, resamples: int, seed: int) -> np.ndarray:  # uint8 (R, n)
    """Return how often each of n molecules is drawn when n are drawn with replacement, R times.

    Each row sums to n. The first rows do not depend on the number of rows. Scores of several
    targets or models on the same draws are paired, and so are their differences.

    >>> draw_resamples(5, 2, seed=0).sum(axis=1).tolist()
    [5, 5]
    """
    rng = np.random.default_rng(seed)
    counts = np.empty((resamples, n), np.uint8)  # a count of 256 is less likely than 1e-500
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts


def numbered(molecules: np.ndarray) -> np.ndarray:
    """Return the number of each row's molecule, counted from 0 in the order of the rows.

    >>> numbered(np.array([7, 3, 7, 9])).tolist()
    [0, 1, 0, 2]
    """
    _, first, index = np.unique(molecules, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[index]


def interval(scores: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile interval of resampled scores (R,): the middle `level` of the defined
    ones; None where fewer than half of them are defined.

    >>> interval(np.arange(101.0), level=0.5)
    (25.0, 75.0)

    Source: Efron, "Nonparametric standard errors and confidence intervals", 1981.
    """
    defined = scores[~np.isnan(scores)]
    if not len(defined) or 2 * len(defined) < len(scores):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_and_sd(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return the mean and the unbiased standard deviation of the values that are defined.

    >>> mean_and_sd([1.0, None, 3.0])
    {'mean': 2.0, 'sd': 1.414...}
    >>> mean_and_sd([None])
    {'mean': None, 'sd': None}
    """
    defined = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(defined) if defined else None,
        "sd": statistics.stdev(defined) if len(defined) > 1 else None,
    }
