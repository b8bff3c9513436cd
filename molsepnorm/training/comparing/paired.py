"""`paired_difference`: the mean difference of paired scores, its interval and a t-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-9  # relative size of a standard error that is rounding


@dataclass(frozen=True)
class Difference:
    """Mean difference of scores over pairs of runs with equal seed and split, or over folds."""

    mean: float | None
    """None without pairs."""
    interval: tuple[float, float] | None
    """95 % interval by Student's t; None for a single pair, or equal differences."""
    p: float | None
    """p-value of a paired t-test; None if undefined: a single pair, or equal differences."""
    pairs: int


def paired_difference(
    scores: Sequence[float | None], base: Sequence[float | None], folds: int | None = None
) -> Difference:
    """Compare scores with others in pairs; a pair with an undefined score, None, does not count.

    The training sets of two folds overlap, so the differences of folds are not independent, and the
    plain standard error is too small. Nadeau and Bengio correct it: the variance of the mean is
    (1/k + n_test/n_train) times the variance of the k differences, and n_test/n_train is
    1/(folds - 1). A bootstrap of the rows would leave out the variance between training sets.

    >>> paired_difference([0.31, 0.35, 0.30], [0.32, 0.37, 0.33])
    Difference(mean=-0.02..., interval=(-0.044..., 0.004...), p=0.074..., pairs=3)
    >>> paired_difference([0.8, 0.9, 0.7, 0.9, 0.8], [1.0, 1.0, 1.0, 1.0, 1.0], folds=5)
    Difference(mean=-0.18..., interval=(-0.33..., -0.02...), p=0.03..., pairs=5)

    Args:
        scores, base: scores of as many pairs.
        folds: number of folds, if each pair is one of them.

    Source: Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52 (2003).
    """
    from scipy import stats

    pairs = [
        (one, other)
        for one, other in zip(scores, base, strict=True)
        if one is not None and other is not None
    ]
    count = len(pairs)
    if not count:
        return Difference(None, None, None, 0)
    values = np.array(pairs)
    differences = values[:, 0] - values[:, 1]
    mean = float(differences.mean())
    if count < 2:
        return Difference(mean, None, None, count)
    overlap = 0.0 if folds is None else 1 / (folds - 1)
    error = float(differences.std(ddof=1) * np.sqrt(1 / count + overlap))
    if error <= _ROUNDING * np.abs(values).max():
        return Difference(mean, None, None, count)
    low, high = stats.t.interval(0.95, count - 1, mean, error)
    p = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
    return Difference(mean, (float(low), float(high)), p, count)
