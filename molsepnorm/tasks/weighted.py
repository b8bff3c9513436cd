"""Each metric as a function of the molecules' weights.

What does not depend on the weights (errors, the order of predictions, classes) is computed once.
For each block of weights only matrix products and cumulative sums remain.

Weights are float (n, r): the number of times that n molecules occur in r resamples. Scores are
(r,), not finite where undefined. No label is missing and all predictions are finite here.

scikit-learn's metrics with `sample_weight` were tried in their place: they give the same scores,
which the tests check, one resample at a time, and take 30 to 700 times as long.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Weighted = Callable[[np.ndarray], np.ndarray]  # weights (n, r) -> scores (r,)


def _mean(values: np.ndarray) -> Weighted:
    return lambda weights: values @ weights / weights.sum(axis=0)


def _rmse(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    mean = _mean((truth - predicted) ** 2)
    return lambda weights: np.sqrt(mean(weights))


def _r2(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    squares = (truth - predicted) ** 2

    def weighted(weights: np.ndarray) -> np.ndarray:
        # Deviations from a label of the resample, in two passes: one pass over large or equal
        # labels would leave rounding errors where the spread is small or zero.
        first = truth[(weights > 0).argmax(axis=0)]  # (r,)
        mean = first + ((truth[:, None] - first) * weights).sum(axis=0) / weights.sum(axis=0)
        spread = ((truth[:, None] - mean) ** 2 * weights).sum(axis=0)
        return 1 - squares @ weights / spread

    return weighted


def _spearman(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    rankings = [_Ranking(values, values) for values in (truth, predicted)]

    def weighted(weights: np.ndarray) -> np.ndarray:
        # Twice the distance of each rank from the middle rank, ties averaged: all are integers.
        total = weights.sum(axis=0)
        x, y = (np.add(*ranking.sums(weights)) - total for ranking in rankings)
        spread = (x * x * weights).sum(axis=0) * (y * y * weights).sum(axis=0)
        return (x * y * weights).sum(axis=0) / np.sqrt(spread)

    return weighted


def _roc_auc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    """Return the share of positive–negative pairs in the right order; a tie counts one half."""
    positive, negative = np.flatnonzero(truth == 1), np.flatnonzero(truth != 1)
    ranking = _Ranking(predicted[positive], predicted[negative])

    def weighted(weights: np.ndarray) -> np.ndarray:
        positives, negatives = weights[positive], weights[negative]
        below, up_to = ranking.sums(negatives)
        pairs = positives.sum(axis=0) * negatives.sum(axis=0)
        return (positives * (below + up_to)).sum(axis=0) / 2 / pairs

    return weighted


def _pr_auc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    """Return the mean precision among all molecules that score as high as each positive."""
    positive, negative = np.flatnonzero(truth == 1), np.flatnonzero(truth != 1)
    among_positives = _Ranking(predicted[positive], predicted[positive])
    among_negatives = _Ranking(predicted[positive], predicted[negative])

    def weighted(weights: np.ndarray) -> np.ndarray:
        positives, negatives = weights[positive], weights[negative]
        total, others = positives.sum(axis=0), negatives.sum(axis=0)
        hits = total - among_positives.sums(positives)[0]  # (positives, r)
        found = hits + others - among_negatives.sums(negatives)[0]
        precision = hits / np.maximum(found, 1)  # nothing is found only where the weight is 0
        return np.where(others > 0, (positives * precision).sum(axis=0) / total, np.nan)

    return weighted


def _accuracy(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    return _mean((truth == _classes(predicted)).astype(float))


def _log_loss(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    tiny = np.finfo(float).eps
    of_truth = np.take_along_axis(_probabilities(predicted), truth[:, None], axis=1)[:, 0]
    return _mean(-np.log(of_truth.clip(tiny, 1 - tiny)))


def _brier(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    probabilities = _probabilities(predicted)
    classes = probabilities.shape[1]
    errors = ((np.eye(classes)[truth] - probabilities) ** 2).sum(axis=1)
    return _mean(errors / 2 if classes == 2 else errors)


def _f1(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    binary, confusion = predicted.ndim == 1, _Confusion(truth, predicted)

    def weighted(weights: np.ndarray) -> np.ndarray:
        true, chosen, right = confusion.sums(weights)
        found = true + chosen > 0
        f1 = np.where(found, 2 * right / (true + chosen), 0)  # (K, r)
        if binary:
            return np.where(true[1] > 0, f1[1], np.nan)
        return f1.sum(axis=0) / found.sum(axis=0)

    return weighted


def _mcc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    confusion = _Confusion(truth, predicted)

    def weighted(weights: np.ndarray) -> np.ndarray:
        true, chosen, right = confusion.sums(weights)
        total = true.sum(axis=0)
        covariance = right.sum(axis=0) * total - (true * chosen).sum(axis=0)
        var_true = total**2 - (true**2).sum(axis=0)
        var_chosen = total**2 - (chosen**2).sum(axis=0)
        value = np.where(var_chosen > 0, covariance / np.sqrt(var_true * var_chosen), 0)
        return np.where(var_true > 0, value, np.nan)

    return weighted


def _classes(predicted: np.ndarray) -> np.ndarray:  # int (n,)
    """Return the class predicted by probabilities (n,) of class 1, or (n, K)."""
    return predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted > 0.5).astype(int)


def _probabilities(predicted: np.ndarray) -> np.ndarray:  # (n, K)
    return predicted if predicted.ndim == 2 else np.stack([1 - predicted, predicted], axis=1)


class _Ranking:
    """The ranks of values (m,) among others (k,), sorted once for all weights."""

    def __init__(self, values: np.ndarray, others: np.ndarray) -> None:
        self.order = others.argsort()
        ranked = others[self.order]
        self.below = np.searchsorted(ranked, values, side="left")
        self.up_to = np.searchsorted(ranked, values, side="right")

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (m, r) each
        """Return the weight of the others below, and up to, each value, from their weights (k,
        r)."""
        cumulative = np.zeros((len(weights) + 1, weights.shape[1]))
        np.cumsum(weights[self.order], axis=0, out=cumulative[1:])
        return cumulative[self.below], cumulative[self.up_to]


class _Confusion:
    """The weight of each class among the labels, among the predictions, and where both agree."""

    def __init__(self, truth: np.ndarray, predicted: np.ndarray) -> None:
        one_hot = np.eye(predicted.shape[1] if predicted.ndim == 2 else 2)
        self.true, self.chosen = one_hot[truth].T, one_hot[_classes(predicted)].T  # (K, n)

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (K, r) each
        return self.true @ weights, self.chosen @ weights, (self.true * self.chosen) @ weights


WEIGHTED: dict[str, Callable[[np.ndarray, np.ndarray], Weighted]] = {
    "mae": lambda truth, predicted: _mean(np.abs(truth - predicted)),
    "rmse": _rmse,
    "r2": _r2,
    "spearman": _spearman,
    "roc_auc": _roc_auc,
    "pr_auc": _pr_auc,
    "accuracy": _accuracy,
    "f1": _f1,
    "mcc": _mcc,
    "log_loss": _log_loss,
    "brier": _brier,
}
