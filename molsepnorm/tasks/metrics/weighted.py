"""Each metric as a function of how much every molecule weighs.

The molecules are looked at once, for all that does not depend on the weights: errors, the order of
predictions, classes. For each block of weights, matrix products and cumulative sums are left to do.

Weights are float (n, r): whole numbers of n molecules in r resamples; scores are (r,), not finite
where undefined. Labels are present and predictions finite here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from molsepnorm.tasks.metrics.scoring import chosen_class

__all__ = ["WEIGHTED"]

Weighted = Callable[[np.ndarray], np.ndarray]  # weights (n, r) -> scores (r,)


def _mean(each: np.ndarray) -> Weighted:
    """The mean of a value (n,) that each molecule has by itself."""
    return lambda weights: each @ weights / weights.sum(axis=0)


def _rmse(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    mean = _mean((truth - predicted) ** 2)
    return lambda weights: np.sqrt(mean(weights))


def _r2(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    squares = (truth - predicted) ** 2

    def weighted(weights: np.ndarray) -> np.ndarray:
        # Two passes, from a label of the resample: sums over labels that are large, or all equal,
        # would leave rounding errors in place of a spread that is small, or nothing.
        first = truth[(weights > 0).argmax(axis=0)]  # (r,)
        mean = first + ((truth[:, None] - first) * weights).sum(axis=0) / weights.sum(axis=0)
        spread = ((truth[:, None] - mean) ** 2 * weights).sum(axis=0)
        return 1 - squares @ weights / spread

    return weighted


def _spearman(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    standings = [_Standing(values, values) for values in (truth, predicted)]

    def weighted(weights: np.ndarray) -> np.ndarray:
        # Twice the distance of each molecule's rank, ties averaged, from the middle: all integers.
        total = weights.sum(axis=0)
        x, y = (np.add(*standing.of(weights)) - total for standing in standings)
        spread = (x * x * weights).sum(axis=0) * (y * y * weights).sum(axis=0)
        return (x * y * weights).sum(axis=0) / np.sqrt(spread)

    return weighted


def _roc_auc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    """The share of pairs of a yes and a no that are in the right order, a tie counting a half."""
    yes, no = np.flatnonzero(truth == 1), np.flatnonzero(truth != 1)
    standing = _Standing(predicted[yes], among=predicted[no])

    def weighted(weights: np.ndarray) -> np.ndarray:
        positives, negatives = weights[yes], weights[no]
        below, upto = standing.of(negatives)
        pairs = positives.sum(axis=0) * negatives.sum(axis=0)
        return (positives * (below + upto)).sum(axis=0) / 2 / pairs

    return weighted


def _pr_auc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    """The mean, over the molecules that are a yes, of the precision among all that score as
    high."""
    yes, no = np.flatnonzero(truth == 1), np.flatnonzero(truth != 1)
    among_yes = _Standing(predicted[yes], among=predicted[yes])
    among_no = _Standing(predicted[yes], among=predicted[no])

    def weighted(weights: np.ndarray) -> np.ndarray:
        positives, negatives = weights[yes], weights[no]
        total, others = positives.sum(axis=0), negatives.sum(axis=0)
        hits = total - among_yes.of(positives)[0]  # (yes, r)
        found = hits + others - among_no.of(negatives)[0]
        precision = hits / np.maximum(found, 1)  # not drawn, and nothing above: of no weight
        return np.where(others > 0, (positives * precision).sum(axis=0) / total, np.nan)

    return weighted


def _accuracy(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    return _mean((truth == chosen_class(predicted)).astype(float))


def _log_loss(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    tiny = np.finfo(float).eps
    each = np.take_along_axis(_probabilities(predicted), truth[:, None], axis=1)[:, 0]
    return _mean(-np.log(each.clip(tiny, 1 - tiny)))


def _brier(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    probabilities = _probabilities(predicted)
    classes = probabilities.shape[1]
    errors = ((np.eye(classes)[truth] - probabilities) ** 2).sum(axis=1)
    return _mean(errors / 2 if classes == 2 else errors)


def _f1(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    several, confusion = predicted.ndim == 2, _Confusion(truth, predicted)

    def weighted(weights: np.ndarray) -> np.ndarray:
        true, chosen, right = confusion.of(weights)
        found = true + chosen > 0
        each = np.where(found, 2 * right / (true + chosen), 0)  # (K, r)
        return (
            each.sum(axis=0) / found.sum(axis=0)
            if several
            else np.where(true[1] > 0, each[1], np.nan)
        )

    return weighted


def _mcc(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    confusion = _Confusion(truth, predicted)

    def weighted(weights: np.ndarray) -> np.ndarray:
        true, chosen, right = confusion.of(weights)
        total = true.sum(axis=0)
        covariance = right.sum(axis=0) * total - (true * chosen).sum(axis=0)
        of_true = total**2 - (true**2).sum(axis=0)
        of_chosen = total**2 - (chosen**2).sum(axis=0)
        value = np.where(of_chosen > 0, covariance / np.sqrt(of_true * of_chosen), 0)
        return np.where(of_true > 0, value, np.nan)

    return weighted


def _probabilities(predicted: np.ndarray) -> np.ndarray:  # (n, K)
    return predicted if predicted.ndim == 2 else np.stack([1 - predicted, predicted], axis=1)


class _Standing:
    """Where values (m,) stand among others (k,): sorted once, counted for every block."""

    def __init__(self, values: np.ndarray, among: np.ndarray) -> None:
        self.order = among.argsort()
        ranked = among[self.order]
        self.below = np.searchsorted(ranked, values, side="left")
        self.upto = np.searchsorted(ranked, values, side="right")

    def of(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (m, r) each
        """Weight of the others below each value, and of those below or equal; weights (k, r)."""
        reached = np.zeros((len(weights) + 1, weights.shape[1]))
        np.cumsum(weights[self.order], axis=0, out=reached[1:])
        return reached[self.below], reached[self.upto]


class _Confusion:
    """How often each class is true, is chosen, and is both."""

    def __init__(self, truth: np.ndarray, predicted: np.ndarray) -> None:
        one_hot = np.eye(predicted.shape[1] if predicted.ndim == 2 else 2)
        self.true, self.chosen = one_hot[truth].T, one_hot[chosen_class(predicted)].T  # (K, n)

    def of(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (K, r) each
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
