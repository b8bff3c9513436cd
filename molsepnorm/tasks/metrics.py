"""Scores of predictions against labels, and their bootstrap intervals.

Labels are (n,) numbers, NaN where missing: values in their own units, 0 or 1, or the index of a
class. Predictions are (n,) values, (n,) probabilities of class 1, or (n, K) probabilities of K
classes. Class 1 is predicted where its probability is above 0.5; of several classes the first of
the most probable ones. A score is undefined (NaN) if a prediction is not finite.

- `r2` and `rae` are undefined if all labels are equal, `spearman` and `kendall` also if all
  predictions are. `rae` is the sum of the absolute errors divided by that of the mean label of the
  molecules that are scored; `kendall` is τ-b.
- `roc_auc`, `pr_auc` and `mcc` are undefined if the labels are of one class. `pr_auc` is the
  average precision, OGB's `ap`; `mcc` is 0 if the predictions are of one class.
- `f1` of two classes is undefined if no label is 1, and 0 if no prediction is 1. That of several
  classes is the unweighted mean over the classes that occur among the labels or the predictions.
- `log_loss` is in nats; probabilities are clipped to 2.2e-16 from 0 and 1.
- `brier` of three classes or more is the squared error summed over the classes, at most 2; for two
  classes it is half of that, the squared error of the probability of class 1.

A metric is a function of the molecules' weights: float (n, r), the number of times that n molecules
occur in r resamples. Its scores are (r,), not finite where undefined. Errors, the order of
predictions and classes do not depend on the weights and are computed once. `scipy.stats.bootstrap`
and scikit-learn compute most metrics one resample at a time, which takes 10 to 700 times as long;
the tests compare all scores with those of scikit-learn.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["regression", "binary", "multiclass"]
"""Kind of a target: a number, yes or no, or one of several classes."""

Weighted = Callable[[np.ndarray], np.ndarray]  # weights (n, r) -> scores (r,)


@dataclass(frozen=True)
class Metric:
    name: str
    kinds: tuple[Kind, ...]
    higher_is_better: bool
    label: str
    """Name in text, such as ROC-AUC."""
    weighted: Callable[[np.ndarray, np.ndarray], Weighted] | None = None
    """Function from labels and predictions, none of them missing, to scores by weights."""
    has_unit: bool = False
    """True if the score has the unit of the labels."""

    def better(self, score: float, than: float | None) -> bool:
        """Return whether `score` is better; any score beats None and NaN."""
        if than is None or np.isnan(than):
            return True
        return score > than if self.higher_is_better else score < than


def _mean(values: np.ndarray) -> Weighted:
    return lambda weights: values @ weights / weights.sum(axis=0)


def _mae(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    return _mean(np.abs(truth - predicted))


def _rmse(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    mean = _mean((truth - predicted) ** 2)
    return lambda weights: np.sqrt(mean(weights))


def _r2(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    squares = (truth - predicted) ** 2

    def weighted(weights: np.ndarray) -> np.ndarray:
        spread = (_deviations(truth, weights) ** 2 * weights).sum(axis=0)
        return 1 - squares @ weights / spread

    return weighted


def _rae(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    errors = np.abs(truth - predicted)
    return lambda weights: (
        errors @ weights / (np.abs(_deviations(truth, weights)) * weights).sum(axis=0)
    )


def _deviations(truth: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (n, r)
    """Return the labels minus the mean of each resample, in two passes: one pass over large or
    equal labels would leave rounding errors where the spread is small or zero."""
    first = truth[(weights > 0).argmax(axis=0)]  # (r,)
    mean = first + ((truth[:, None] - first) * weights).sum(axis=0) / weights.sum(axis=0)
    return truth[:, None] - mean


def _spearman(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    rankings = [_Ranking(values, values) for values in (truth, predicted)]

    def weighted(weights: np.ndarray) -> np.ndarray:
        # Twice the distance of each rank from the middle rank, ties averaged: all are integers.
        total = weights.sum(axis=0)
        x, y = (np.add(*ranking.sums(weights)) - total for ranking in rankings)
        spread = (x * x * weights).sum(axis=0) * (y * y * weights).sum(axis=0)
        return (x * y * weights).sum(axis=0) / np.sqrt(spread)

    return weighted


def _kendall(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    """Return τ-b: pairs in the same order minus those in opposite order, divided by the geometric
    mean of the pairs with different labels and those with different predictions.

    Two different ranks of labels have a highest bit in which they differ. For each bit, molecules
    with a 1 are compared with those with a 0 and the same higher bits, so that n log n steps count
    all pairs (as does Knight, J. Am. Stat. Assoc. 1966, 61, 436, for one resample).
    """
    x, y = (np.unique(values, return_inverse=True)[1] for values in (truth, predicted))
    rankings, span = [_Ranking(values, values) for values in (x, y)], y.max() + 1
    levels = []
    for bit in range(int(x.max()).bit_length()):
        group, one = (x >> bit + 1) * span, (x >> bit) % 2 == 1
        places = np.concatenate([(group + y)[one], group[one], group[one] + span])
        levels.append((one, _Ranking(places, (group + y)[~one])))

    def weighted(weights: np.ndarray) -> np.ndarray:
        balance = np.zeros(weights.shape[1])
        for one, ranking in levels:
            below, up_to = ranking.sums(weights[~one])
            (smaller, start, end), (not_larger, _, _) = (np.split(s, 3) for s in (below, up_to))
            balance += ((smaller + not_larger - start - end) * weights[one]).sum(axis=0)
        pairs = [(ranking.sums(weights)[0] * weights).sum(axis=0) for ranking in rankings]
        return balance / np.sqrt(pairs[0] * pairs[1])

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
    of_truth = np.take_along_axis(each_class(predicted), truth[:, None], axis=1)[:, 0]
    return _mean(-np.log(of_truth.clip(tiny, 1 - tiny)))


def _brier(truth: np.ndarray, predicted: np.ndarray) -> Weighted:
    probabilities = each_class(predicted)
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
    return predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted > 0.5).astype(int)


def each_class(predicted: np.ndarray) -> np.ndarray:  # (n, K)
    """Return probabilities of each class, also from those of class 1 alone, (n,) or (n, 1)."""
    columns = predicted[:, None] if predicted.ndim == 1 else predicted
    return np.hstack([1 - columns, columns]) if columns.shape[1] == 1 else columns


class _Ranking:
    """The ranks of values (m,) among others (k,), sorted once for all weights."""

    def __init__(self, values: np.ndarray, others: np.ndarray) -> None:
        self.order = others.argsort()
        ranked = others[self.order]
        self.below = np.searchsorted(ranked, values, side="left")
        self.up_to = np.searchsorted(ranked, values, side="right")

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (m, r) each
        """Return the sums of the weights (k, r) of the others below, and up to, each value."""
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


_CLASSES: tuple[Kind, ...] = ("binary", "multiclass")

METRICS = {
    metric.name: metric
    for metric in (  # name, kinds, whether higher is better, label, function
        Metric("mae", ("regression",), False, "MAE", _mae, has_unit=True),
        Metric("rmse", ("regression",), False, "RMSE", _rmse, has_unit=True),
        Metric("rae", ("regression",), False, "RAE", _rae),
        Metric("r2", ("regression",), True, "R²", _r2),
        Metric("spearman", ("regression",), True, "Spearman", _spearman),
        Metric("kendall", ("regression",), True, "Kendall τ", _kendall),
        Metric("roc_auc", ("binary",), True, "ROC-AUC", _roc_auc),
        Metric("pr_auc", ("binary",), True, "PR-AUC", _pr_auc),
        Metric("accuracy", _CLASSES, True, "accuracy", _accuracy),
        Metric("f1", _CLASSES, True, "F1", _f1),
        Metric("mcc", _CLASSES, True, "MCC", _mcc),
        Metric("log_loss", _CLASSES, False, "log loss", _log_loss),
        Metric("brier", _CLASSES, False, "Brier score", _brier),
        Metric("loss", (), False, "loss"),
    )
}
"""`loss` is the training loss on the validation split, which compares models whose targets are of
several kinds; it does not score single targets."""


def label_of(name: str) -> str:
    """Return the name of a score in text; names of unknown metrics stay as they are.

    >>> label_of("rmse"), label_of("rmse/logS"), label_of("other")
    ('RMSE', 'RMSE of logS', 'other')
    """
    metric, _, target = name.partition("/")
    label = METRICS[metric].label if metric in METRICS else metric
    return f"{label} of {target}" if target else label


_WEIGHTS_AT_ONCE = 2**19  # 4 MB, and up to ten arrays of this size


def resampled_scores(
    metric: str, labels: np.ndarray, predictions: np.ndarray, counts: np.ndarray
) -> np.ndarray:  # (R,)
    """Return a metric of one target in each resample, from the number of times that each molecule
    was drawn: int (R, n).

    >>> labels, predictions = np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, 9.0])
    >>> resampled_scores("mae", labels, predictions, np.array([[1, 1, 1], [3, 0, 0], [0, 0, 3]]))
    array([0.25, 0.5 , nan])
    """
    weighted = METRICS[metric].weighted
    assert weighted is not None
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
        score_of = weighted(truth, predicted)
        for start in range(0, len(counts), step):
            rows = slice(start, start + step)
            weights = np.ascontiguousarray(counts[rows].take(present, axis=1).T, dtype=float)
            scores[rows] = np.where(weights[~finite].any(axis=0), np.nan, score_of(weights))
    return np.where(np.isfinite(scores), scores, np.nan)


def draw_resamples(n: int, resamples: int, seed: int) -> np.ndarray:  # uint8 (R, n)
    """Return how often each of n molecules is drawn when n are drawn with replacement, R times.
    The first rows do not depend on the number of rows.

    >>> draw_resamples(5, 2, seed=0).sum(axis=1).tolist()
    [5, 5]
    """
    rng = np.random.default_rng(seed)
    counts = np.empty((resamples, n), np.uint8)  # a count of 256 is less likely than 1e-500
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts


def interval(scores: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile interval (Efron, "Nonparametric standard errors and confidence
    intervals", 1981) of the defined scores in resamples (R,); None if fewer than half are defined.

    >>> interval(np.arange(101.0), level=0.5)
    (25.0, 75.0)
    """
    defined = scores[~np.isnan(scores)]
    if not len(defined) or 2 * len(defined) < len(scores):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_and_sd(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return the mean and the unbiased standard deviation of the values that are defined.

    >>> mean_and_sd([1.0, None, 3.0]), mean_and_sd([None])
    ({'mean': 2.0, 'sd': 1.414...}, {'mean': None, 'sd': None})
    """
    defined = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(defined) if defined else None,
        "sd": statistics.stdev(defined) if len(defined) > 1 else None,
    }


def significant(value: float | None, digits: int = 4, none: str = "undefined") -> str:
    """Return a score with `digits` significant digits, or `none` if it is None.

    >>> [significant(value) for value in (0.693004, 3.42028e-28, 0.5, 123456.7, -0.0, None)]
    ['0.6930', '3.420e-28', '0.5000', '123457', '0.000', 'undefined']
    """
    if value is None:
        return none
    text, whole = f"{value + 0.0:#.{digits}g}", f"{value:.0f}"  # + 0.0 removes the sign of -0.0
    return whole if digits <= len(whole.lstrip("-")) < 10 else text.removesuffix(".")


def signed(value: float, digits: int = 4) -> str:
    """Return a difference with its sign and `digits` significant digits.

    >>> signed(2.5e-6), signed(-0.0123456)
    ('+2.500e-06', '-0.01235')
    """
    return f"{'+' if value > 0 else ''}{significant(value, digits)}"


def between(ends: Sequence[float] | None, digits: int = 4) -> str:
    """Return an interval, such as "0.6930 to 0.7100", or "—" if it is None."""
    return "—" if ends is None else " to ".join(significant(end, digits) for end in ends)


def four_digits(value: float) -> str:
    """Return a label with four significant digits, without the zeros at their end.

    >>> four_digits(0.6930041), four_digits(123456.7), four_digits(3.42028e-28)
    ('0.693', '123,457', '3.42e-28')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
