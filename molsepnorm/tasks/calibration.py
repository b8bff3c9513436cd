"""Intervals of predicted values, and calibrated probabilities with sets of classes, fitted to
molecules that were not trained on.

Source: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005 (split conformal
prediction; Mondrian, that is, by class); Platt, "Probabilistic outputs for support vector
machines", 1999.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.tasks.metrics import each_class

_MAX_SCORES = 1000  # scores that are kept, a random sample of all
_DIGITS = 7  # significant digits of scores
_FOLDS = 10
_FEWEST = 20  # molecules that choose a signal
_PRIOR = 1e-3  # penalty of the squared slope
_PRIOR_SD = 0.25
"""Standard deviation of the prior of the offset of probabilities, and of the logarithm of their
slope. With it, 20 molecules do no harm on average."""
_MAX_SLOPE = 20.0
_SMALL = 1e-6  # of the largest residual; a smaller one is taken as this
_TINY = 1e-7  # the smallest probability that has a logit


def quantile(scores: Sequence[float], level: float) -> float:
    """Return the ⌈(n + 1) level⌉-th smallest of n sorted scores; infinity if there is none.

    If one more score is exchangeable with the n scores, it is at most the quantile with a
    probability of at least `level`, and below `level` + 1 / (n + 1) if no two scores are equal.

    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.8), quantile([1.0, 2.0, 3.0, 4.0], 0.9)
    (4.0, inf)
    """
    rank = math.ceil((len(scores) + 1) * level - 1e-9)  # 0.9 of ten is the ninth, not the tenth
    return scores[rank - 1] if rank <= len(scores) else math.inf


@dataclass(frozen=True)
class Intervals:
    """Errors of a regression target, on the scale that is learned.

    The standard deviation of an error is exp(intercept + slope × signal), up to `largest`. The
    scores are absolute errors divided by it; with a signal, by that of a fit to other molecules
    (otherwise intervals at the level 0.9 from 20 molecules hold 0.88 of new labels).
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    scores: tuple[float, ...]
    """Sorted."""
    intercept: float
    slope: float = 0.0
    signal: str | None = None
    """Name of the signal; None if all molecules have the same standard deviation."""
    largest: float | None = None
    """None for no limit."""

    @property
    def highest_level(self) -> float:
        """Highest level with finite intervals."""
        return len(self.scores) / (len(self.scores) + 1)

    @staticmethod
    def fit(residuals: np.ndarray, signals: Mapping[str, np.ndarray], spread: float) -> Intervals:
        """Fit the residuals [n], prediction minus label, of molecules that were not trained on.

        The signal [n] with the highest likelihood in cross-validation is used if it is finite
        everywhere and errors grow with it; no signal is used for fewer than 20 molecules. The
        largest standard deviation is `spread`, that of the training labels, or a larger one of
        these molecules.
        """
        sizes = np.abs(residuals.astype(np.float64))
        sizes = np.maximum(sizes, _SMALL * (sizes.max(initial=0.0) or _SMALL))
        usable: dict[str | None, np.ndarray] = {None: np.zeros(len(sizes))}
        if len(sizes) >= _FEWEST:
            usable |= {k: v for k, v in signals.items() if np.isfinite(v).all()}
        left_out = {name: _left_out(sizes, signal) for name, signal in usable.items()}
        name = min(left_out, key=lambda name: _loss(sizes, left_out[name]))
        intercept, slope = _scale(sizes, usable[name])
        if not slope:
            name = None
        log_sd = intercept + slope * usable[name]
        largest = max(spread, float(np.exp(log_sd).max(initial=0.0)))
        if name is not None:
            log_sd = np.minimum(left_out[name], math.log(largest))
        return Intervals(_kept(sizes / np.exp(log_sd)), intercept, slope, name, largest)

    def sd(self, signals: Mapping[str, np.ndarray], molecules: int) -> np.ndarray:  # (n,)
        if self.signal is None:
            return np.full(molecules, math.exp(self.intercept))
        log_sd = self.intercept + self.slope * signals[self.signal]
        limit = math.inf if self.largest is None else math.log(self.largest)
        return np.exp(np.minimum(log_sd, limit))

    def half_widths(self, sd: np.ndarray, level: float) -> np.ndarray:
        """Return half of the width of the interval at a level; a `ConfigError` if there are too few
        scores for it."""
        factor = quantile(self.scores, level)
        if math.isinf(factor):
            # the smallest n with ⌈(n + 1) level⌉ ≤ n
            needed, known = math.ceil(round(level / (1 - level), 6)), len(self.scores)
            available = f"the model was calibrated with {known:,}"
            if needed > _MAX_SCORES:  # more validation molecules would not help
                available = f"a model is calibrated with {_MAX_SCORES:,} at most"
            advice = f"choose a level of {1000 * known // (known + 1) / 1000:g} or less"
            if not known:
                advice = "train again with labels of this target in the validation split"
            raise ConfigError(
                f"an interval at level {level} needs {needed:,} labelled validation molecules, and "
                f"{available}: {advice}"
            )
        return factor * sd


@dataclass(frozen=True)
class ClassSets:
    """Calibrated probabilities of the classes of a target, and scores of each class.

    Probabilities are divided by the class weights of training. Their logits are multiplied by a
    slope, and an offset is added to that of class 1 of two. The score of a molecule is 1 minus the
    calibrated probability of its class.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    scores: tuple[tuple[float, ...], ...]
    """Sorted, of the molecules of each class."""
    slope: float = 1.0
    offset: float = 0.0
    class_weights: tuple[float, ...] = ()
    """Empty for equal weights."""

    @staticmethod
    def fit(
        labels: np.ndarray, predictions: np.ndarray, class_weights: tuple[float, ...] = ()
    ) -> ClassSets:
        """Fit the labels (int [n]) of molecules that were not trained on, and their predicted
        probabilities: [n, K] of each class, or [n, 1] of class 1."""
        from scipy.optimize import minimize

        classes = max(predictions.shape[1], 2)
        unscored = ((),) * classes

        def loss(parameters: np.ndarray) -> float:
            # slope and offset stay near 1 and 0 where a few molecules say otherwise
            prior = (parameters**2).sum() / (2 * _PRIOR_SD**2)
            slope, offset = math.exp(parameters[0]), parameters[1]
            fitted = ClassSets(unscored, slope, offset, class_weights)
            of_label = fitted.probabilities(predictions)[np.arange(len(labels)), labels]
            return float(-np.log(of_label.clip(_TINY)).sum() + prior)

        slope, offset = 1.0, 0.0
        if len(np.unique(labels)) > 1:
            bounds = [(-3, 3), (-5, 5) if classes == 2 else (0, 0)]
            log_slope, offset = minimize(loss, np.zeros(2), bounds=bounds).x.tolist()
            slope = math.exp(log_slope)
        fitted = ClassSets(unscored, slope, offset, class_weights)
        calibrated = fitted.probabilities(predictions)
        scores = (_kept(1 - calibrated[labels == i, i]) for i in range(classes))
        return replace(fitted, scores=tuple(scores))

    def probabilities(self, predictions: np.ndarray) -> np.ndarray:  # (n, K)
        """Return the calibrated probability of each class."""
        values = each_class(predictions.astype(np.float64))
        logits = np.log(values.clip(_TINY))
        if self.class_weights:
            logits -= np.log(self.class_weights)
        logits *= self.slope
        if values.shape[1] == 2:
            logits[:, 1] += self.offset
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    def sets(self, probabilities: np.ndarray, level: float) -> np.ndarray:  # bool (n, K)
        """Return which classes the set of each molecule holds: the true one with probability
        `level`. A class with too few scores for the level is in every set."""
        limits = np.array([quantile(scores, level) for scores in self.scores])
        return 1 - probabilities <= limits + 1e-9


Calibration: TypeAlias = Intervals | ClassSets


def _left_out(sizes: np.ndarray, signal: np.ndarray) -> np.ndarray:  # (n,)
    """Return the log standard deviation of each error, fitted to the other folds."""
    fold_of = np.random.default_rng(0).permutation(len(sizes)) % _FOLDS
    log_sd = np.zeros(len(sizes))
    for fold in range(_FOLDS):
        held_out = fold_of == fold
        intercept, slope = _scale(sizes[~held_out], signal[~held_out])
        log_sd[held_out] = intercept + slope * signal[held_out]
    return log_sd


def _loss(sizes: np.ndarray, log_sd: np.ndarray) -> float:
    """Return the mean negative log-likelihood of errors; 0 without errors."""
    losses = log_sd + (sizes / np.exp(log_sd)) ** 2 / 2
    return float(losses.mean()) if len(losses) else 0.0


def _scale(sizes: np.ndarray, signal: np.ndarray) -> tuple[float, float]:
    """Return the most likely intercept and slope of the log standard deviation."""
    from scipy.optimize import minimize_scalar

    if not len(sizes):
        return 0.0, 0.0
    center = float(signal.mean())
    largest = float(sizes.max())  # squares of very large or small errors would overflow

    def at_center(slope: float) -> float:
        spread = np.mean((sizes / largest / np.exp(slope * (signal - center))) ** 2)
        return math.log(largest) + math.log(spread) / 2

    def loss(slope: float) -> float:
        return at_center(slope) + _PRIOR * slope**2

    slope = 0.0
    if np.ptp(signal) > 0:
        slope = float(minimize_scalar(loss, bounds=(0.0, _MAX_SLOPE), method="bounded").x)
    if loss(0.0) <= loss(slope):
        slope = 0.0
    return at_center(slope) - slope * center, slope


def _kept(scores: np.ndarray) -> tuple[float, ...]:
    """Return the scores to keep, sorted and rounded up, so that none exceeds its quantile."""
    if len(scores) > _MAX_SCORES:
        scores = np.random.default_rng(0).choice(scores, _MAX_SCORES, replace=False)
    up = 1 + 5 * 10.0**-_DIGITS  # the largest relative change by rounding
    return tuple(float(f"{score * up:.{_DIGITS}g}") for score in np.sort(scores))
