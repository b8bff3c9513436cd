"""The bootstrap: scores of resamples, draws, intervals and their coverage."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from molsepnorm.tasks.metrics import METRICS, draw_resamples, interval, resampled_scores
from support import score

NAN = float("nan")
PAIRS = [(name, kind) for name, metric in METRICS.items() for kind in metric.kinds]


@st.composite
def resampled(draw: Callable, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw labels and predictions with few distinct values, so that ties, single classes, missing
    labels and predictions that are not finite are common; and counts with zeros."""
    n = draw(st.integers(0, 12))
    several = draw(st.integers(2, 4))

    def column(values: st.SearchStrategy) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), float)

    number = st.integers(-4, 4).map(lambda value: value * scale + shift)
    scale, shift = draw(st.sampled_from([(1, 0), (0.1, 3), (1e-3, 1e3), (1e5, -1e4)]))
    missing = st.just(NAN) if draw(st.booleans()) else st.nothing()
    odd = st.sampled_from([NAN, math.inf]) if draw(st.integers(0, 4)) == 4 else st.nothing()
    if kind == "regression":
        labels, predictions = column(number | missing), column(number | odd)
    elif kind == "binary":
        labels = column(st.integers(0, 1) | missing)
        predictions = column(st.sampled_from([0, 0.25, 0.5, 0.6, 1]) | odd)
    else:
        labels = column(st.integers(0, several - 1) | missing)
        rows = st.lists(st.integers(0, 3), min_size=several, max_size=several)
        predictions = np.array(draw(st.lists(rows, min_size=n, max_size=n)), float)
        predictions = predictions.reshape(n, several) + (0 if draw(st.booleans()) else 0.25)
        predictions[predictions.sum(axis=1) == 0] = 1
        predictions /= predictions.sum(axis=1, keepdims=True)
    row = st.lists(st.sampled_from([0, 0, 1, 1, 2, 5]), min_size=n, max_size=n)
    counts = draw(st.lists(row, min_size=3, max_size=3))
    return labels, predictions, np.array(counts, draw(st.sampled_from([np.uint8, np.int64])))


def score_by_libraries(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """A score as scikit-learn and SciPy compute it; NaN in the cases that the documentation of
    `molsepnorm.tasks.metrics` lists."""
    present = ~np.isnan(labels)
    truth, predicted = labels[present], predictions[present]
    if not len(truth) or not (np.isfinite(truth).all() and np.isfinite(predicted).all()):
        return NAN
    one_label = (truth == truth[0]).all()
    if one_label and metric in ("r2", "rae", "spearman", "kendall", "roc_auc", "pr_auc", "mcc"):
        return NAN
    several = predicted.ndim == 2
    if metric == "f1" and not several and not (truth == 1).any():
        return NAN
    if metric in ("spearman", "kendall") and (predicted == predicted[0]).all():
        return NAN
    regression = "regression" in METRICS[metric].kinds
    truth = truth if regression else truth.astype(int)
    chosen = predicted.argmax(axis=1) if several else (predicted > 0.5).astype(int)
    classes = np.arange(predicted.shape[1] if several else 2)
    one_hot = np.eye(len(classes))[truth] if several else truth
    scores = {
        "mae": lambda: sk.mean_absolute_error(truth, predicted),
        "rmse": lambda: sk.mean_squared_error(truth, predicted) ** 0.5,
        "rae": lambda: (
            sk.mean_absolute_error(truth, predicted)
            / sk.mean_absolute_error(truth, np.full(len(truth), truth.mean()))
        ),
        "r2": lambda: sk.r2_score(truth, predicted, force_finite=False),
        "spearman": lambda: stats.spearmanr(truth, predicted)[0],
        "kendall": lambda: stats.kendalltau(truth, predicted)[0],
        "roc_auc": lambda: sk.roc_auc_score(truth, predicted),
        "pr_auc": lambda: sk.average_precision_score(truth, predicted),
        "accuracy": lambda: sk.accuracy_score(truth, chosen),
        "f1": lambda: sk.f1_score(truth, chosen, average="macro" if several else "binary"),
        "mcc": lambda: sk.matthews_corrcoef(truth, chosen),
        "log_loss": lambda: sk.log_loss(truth, predicted, labels=classes),
        "brier": lambda: (
            sk.mean_squared_error(one_hot, predicted, multioutput="raw_values").sum()
            * (0.5 if several and len(classes) == 2 else 1)
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = float(scores[metric]())
    return value if math.isfinite(value) else NAN


@pytest.mark.claim(
    "The bootstrap equals the score of every resample, and its intervals cover the truth in "
    "95 of 100 cases."
)
@pytest.mark.parametrize(("metric", "kind"), PAIRS)
@given(data=st.data())
def test_resampled_scores_equal_those_of_the_libraries(
    metric: str, kind: str, data: st.DataObject
) -> None:
    """scikit-learn and SciPy score the molecules repeated as often as they were drawn."""
    labels, predictions, counts = data.draw(resampled(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = resampled_scores(metric, labels, predictions, counts)
        once = score(metric, labels, predictions)
    slow = [
        score_by_libraries(metric, np.repeat(labels, c), np.repeat(predictions, c, axis=0))
        for c in counts
    ]
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)
    expected = score_by_libraries(metric, labels, predictions)
    np.testing.assert_allclose(once, expected, rtol=1e-9, atol=1e-9)


def large(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions with some ties, and labels. A tenth of the labels is missing."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=n).round(2)
    if kind == "multiclass":
        labels = rng.integers(0, 6, n).astype(float)
        predictions = rng.dirichlet(np.ones(6), n)
    elif kind == "binary":
        labels = (rng.random(n) < 0.1).astype(float)
        predictions = 1 / (1 + np.exp(-labels - noise))
    else:
        labels = rng.normal(size=n)
        predictions = labels.round(1) + noise
    labels[rng.random(n) < 0.1] = NAN
    return labels, predictions


@pytest.mark.parametrize(("metric", "kind"), PAIRS)
def test_scores_are_correct_when_resamples_are_processed_in_blocks(metric: str, kind: str) -> None:
    """There are more weights than are held at a time."""
    labels, predictions = large(kind, 3000)
    counts = draw_resamples(3000, 500, seed=0)
    fast = resampled_scores(metric, labels, predictions, counts)
    assert len(np.unique(fast)) > 100
    for row in (0, 193, 194, 195, 386, 499):
        repeated = np.repeat(labels, counts[row]), np.repeat(predictions, counts[row], axis=0)
        assert fast[row] == pytest.approx(score_by_libraries(metric, *repeated), rel=1e-9)


def test_r2_is_exact_for_labels_that_are_close_together() -> None:
    """A resample may cover a tiny part of the labels' range. R² is relative to that part, and
    undefined if all labels are equal."""
    labels, predictions = np.array([0, 1e6, 1e6 + 2**-10]), np.array([0, 1e6, 1e6])
    fast = resampled_scores("r2", labels, predictions, np.array([[0, 1, 1], [0, 3, 1]]))
    assert fast == pytest.approx([-1, -1 / 3], rel=1e-9)
    equal, counts = np.array([7.3] + [0.1] * 7), np.array([[0] + [1] * 7])
    assert np.isnan(resampled_scores("r2", equal, np.zeros(8), counts)).all()


def test_draws_are_with_replacement_and_fair() -> None:
    """A molecule is drawn once on average and missing with probability (1 - 1/n)^n."""
    n, resamples = 200, 2000
    counts = draw_resamples(n, resamples, seed=3)
    assert abs(counts.mean(axis=0) - 1).max() < 5 * math.sqrt((1 - 1 / n) / resamples)
    missing = (1 - 1 / n) ** n
    of_one = 5 * math.sqrt(missing * (1 - missing) / resamples)
    assert abs((counts == 0).mean(axis=0) - missing).max() < of_one
    assert (draw_resamples(n, resamples, seed=4) != counts).any(axis=1).all()


def test_interval_is_the_middle_of_the_defined_scores() -> None:
    """The order does not matter, and undefined scores are left out."""
    scores = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(scores) == pytest.approx((25, 975))
    assert interval(scores, level=0.5) == pytest.approx((250, 750))
    assert interval(np.append(scores, [NAN] * 1001)) == interval(scores)
    assert interval(np.array([0.1] * 499 + [NAN] * 501)) is None  # half of them must be defined


def mae_of_normal_errors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    predictions = rng.normal(size=150)
    return predictions + rng.normal(size=150), predictions


def shifted_normals(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(150) < 0.4).astype(float)
    return labels, labels + rng.normal(size=150)


def right_in_seven_of_ten(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(150) < 0.4).astype(float)
    return labels, np.where(rng.random(150) < 0.7, labels, 1 - labels)


@pytest.mark.parametrize(
    ("metric", "simulate", "truth"),
    [
        ("mae", mae_of_normal_errors, math.sqrt(2 / math.pi)),
        ("r2", mae_of_normal_errors, 0.5),
        ("roc_auc", shifted_normals, 0.5 * (1 + math.erf(1 / 2))),
        ("accuracy", right_in_seven_of_ten, 0.7),
    ],
)
def test_intervals_cover_the_truth(metric: str, simulate: Callable, truth: float) -> None:
    """The 95 % interval contains the score of infinitely many molecules in about 95 % of 200
    simulated data sets: 182 to 198 times, where 190 ± 3 are expected."""
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        labels, predictions = simulate(rng)
        counts = draw_resamples(len(labels), 400, seed)
        found = interval(resampled_scores(metric, labels, predictions, counts))
        assert found is not None
        covered += found[0] <= truth <= found[1]
    assert 182 <= covered <= 198
