"""Scores: values by hand, OGB's evaluator, invariances, and undefined scores."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from molsepnorm.tasks.metrics import METRICS, resampled_scores
from support import score

NAN = float("nan")
PAIRS = [(name, kind) for name, metric in METRICS.items() for kind in metric.kinds]


@pytest.mark.claim(
    "Scores equal scikit-learn's and OGB's, and values computed by hand. Undefined scores are NaN."
)
@pytest.mark.parametrize(
    ("metric", "labels", "predictions", "value"),
    [
        ("mae", [0, 0, 2], [1, -1, 6], 2),
        ("rmse", [0, 0, 2], [1, -1, 6], math.sqrt(6)),
        ("r2", [0, 0, 3], [1, -1, 1], 1 - 6 / 6),
        ("r2", [1, 2, 3], [2, 2, 2], 0),
        ("rae", [0, 0, 3], [1, -1, 6], (1 + 1 + 3) / (1 + 1 + 2)),
        ("rae", [1, 2, 3], [2, 2, 2], 1),
        ("kendall", [1, 2, 3, 4], [1, 30, 20, 400], (5 - 1) / 6),
        ("kendall", [1, 2, 3], [5, 5, 7], 2 / math.sqrt(2 * 3)),
        ("spearman", [1, 2, 3, 4], [1, 30, 20, 400], 0.8),
        ("spearman", [1, 2, 3], [5, 5, 7], math.sqrt(3) / 2),
        ("roc_auc", [1, 0, 1, 0], [0.9, 0.5, 0.5, 0.1], 3.5 / 4),
        ("pr_auc", [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], (1 + 2 / 3) / 2),
        ("accuracy", [1, 0, 1, 0], [0.9, 0.5, 0.5, 0.1], 3 / 4),
        ("f1", [1, 1, 0, 0], [0.9, 0.1, 0.9, 0.9], 2 * 1 / (2 + 3)),
        ("f1", [1, 1, 0, 0], [0.1, 0.1, 0.1, 0.1], 0),
        ("mcc", [1, 1, 0, 0], [0.9, 0.1, 0.1, 0.1], 1 / math.sqrt(3)),
        ("mcc", [1, 1, 0, 0], [0.9, 0.9, 0.9, 0.9], 0),
        ("log_loss", [1, 0], [0.25, 0.5], (math.log(4) + math.log(2)) / 2),
        ("log_loss", [0], [1.0], 52 * math.log(2)),
        ("brier", [1, 0], [0.25, 0.5], (0.75**2 + 0.5**2) / 2),
        ("accuracy", [0, 2], [[0.4, 0.3, 0.3], [0.4, 0.2, 0.4]], 1 / 2),
        ("f1", [0, 2], [[1, 0, 0], [1, 0, 0]], (2 / 3 + 0) / 2),
        ("mcc", [0, 1, 2, 2], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]], 7 / 10),
        ("log_loss", [0, 2], [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], 1.5 * math.log(2)),
        ("brier", [0, 2], [[1, 0, 0], [0.5, 0.5, 0]], (0 + 1.5) / 2),
    ],
)
def test_values_by_hand(metric: str, labels: list, predictions: list, value: float) -> None:
    """Unlabelled molecules do not change the score."""
    truth, predicted = np.array(labels, float), np.array(predictions, float)
    assert score(metric, truth, predicted) == pytest.approx(value, rel=1e-12, abs=1e-12)
    more = np.concatenate([predicted[-1:], predicted])
    assert score(metric, np.array([NAN, *labels]), more) == score(metric, truth, predicted)


@pytest.mark.parametrize(
    ("name", "metric", "ogb_name"),
    [
        ("ogbg-molhiv", "roc_auc", "rocauc"),
        ("ogbg-moltox21", "roc_auc", "rocauc"),
        ("ogbg-molpcba", "pr_auc", "ap"),
    ],
)
def test_scores_equal_those_of_ogbs_evaluator(
    name: str, metric: str, ogb_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are missing or rarely positive, one target has no positives, predictions have ties."""
    evaluator = ogb_evaluator(name, monkeypatch)
    rng = np.random.default_rng(0)
    shape = (800, evaluator.num_tasks)
    labels = (rng.random(shape) < rng.uniform(0.005, 0.2, shape[1])).astype(float)
    predictions = (0.3 * labels + rng.normal(size=shape)).astype(np.float32).round(1)
    labels[rng.random(shape) < rng.uniform(0, 0.6, shape[1])] = NAN
    if shape[1] > 1:
        labels[labels[:, 3] == 1, 3] = 0
    expected = evaluator.eval({"y_true": labels, "y_pred": predictions})[ogb_name]
    each = [score(metric, labels[:, i], predictions[:, i]) for i in range(shape[1])]
    assert np.isnan(each).any() == (shape[1] > 1)
    assert np.nanmean(each) == pytest.approx(expected, rel=1e-12)


UNDEFINED = [
    *((name, kind, [NAN, NAN, NAN], None) for name, kind in PAIRS),
    *(
        (name, "binary", [value] * 3, None)
        for name in ("roc_auc", "pr_auc", "mcc")
        for value in (0, 1)
    ),
    ("mcc", "multiclass", [2, 2, NAN], None),
    ("f1", "binary", [0, 0, NAN], None),
    ("r2", "regression", [0.1, 0.1, 0.1], None),
    ("r2", "regression", [0, 1e-200, NAN], None),
    ("rae", "regression", [0.1, 0.1, 0.1], None),
    ("kendall", "regression", [3, 3, 3], None),
    ("kendall", "regression", [1, 2, 3], [5, 5, 5]),
    ("spearman", "regression", [3, 3, 3], None),
    ("spearman", "regression", [1, 2, 3], [5, 5, 5]),
    ("mae", "regression", [1, 2, 3], [1, 2, NAN]),
    ("rmse", "regression", [1, 2, 3], [1, 2, 1e300]),
    ("roc_auc", "binary", [1, 0, 1], [NAN, NAN, NAN]),
    ("log_loss", "multiclass", [1, 0, 2], np.full((3, 3), NAN)),
    ("accuracy", "multiclass", [1, 0, 2], [[1, 0, 0], [1, 0, 0], [NAN, 0.5, 0.5]]),
]


@pytest.mark.parametrize(("metric", "kind", "labels", "predictions"), UNDEFINED)
def test_undefined_scores_are_nan(
    metric: str, kind: str, labels: list, predictions: object
) -> None:
    """There is neither an error nor a warning."""
    if predictions is None:
        predictions = np.eye(3) if kind == "multiclass" else [0.2, 0.9, 0.7]
    truth, predicted = np.array(labels, float), np.array(predictions, float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(score(metric, truth, predicted))
        assert np.isnan(resampled_scores(metric, truth, predicted, np.ones((1, 3), int))).all()


def ogb_evaluator(name: str, monkeypatch: pytest.MonkeyPatch):
    """Return OGB's evaluator, without its check for a newer version."""
    monkeypatch.setenv("OUTDATED_IGNORE", "1")
    return pytest.importorskip("ogb.graphproppred").Evaluator(name)
