"""The kinds and the direction of each metric."""

from __future__ import annotations

import math

import numpy as np
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.tasks.metrics import METRICS, resampled_scores, score

NAN = float("nan")
PERFECT = {
    "regression": (np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])),
    "binary": (np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0])),
    "multiclass": (np.array([0.0, 1.0, 2.0]), np.eye(3)),
}
WRONG = {
    "regression": (np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0])),
    "binary": (np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0])),
    "multiclass": (np.array([0.0, 1.0, 2.0]), np.eye(3)[[1, 2, 0]]),
}
PAIRS = [(name, kind) for name, metric in METRICS.items() for kind in metric.kinds]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_perfect_predictions_have_the_best_score(name: str, kind: str) -> None:
    """It is better than the score of wrong predictions."""
    best, worst = score(name, *PERFECT[kind]), score(name, *WRONG[kind])
    assert best == pytest.approx(1.0 if METRICS[name].higher_is_better else 0.0, abs=1e-12)
    assert METRICS[name].better(best, worst)
    assert not METRICS[name].better(worst, best)


@pytest.mark.parametrize("name", METRICS)
def test_any_score_is_better_than_none(name: str) -> None:
    """Also than an undefined one; an undefined or an equal score is not better."""
    metric = METRICS[name]
    assert metric.better(0.5, None)
    assert metric.better(0.5, math.nan)
    assert metric.better(math.nan, None)
    assert not metric.better(math.nan, 0.5)
    assert not metric.better(0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "hint"), [("roc-auc", "Did you mean 'roc_auc'"), ("loss", "Known: accuracy, ")]
)
def test_an_unknown_metric_is_refused(name: str, hint: str) -> None:
    """The message suggests the nearest name; the loss does not score single targets."""
    labels, predictions = PERFECT["binary"]
    message = f"no metric '{name}' scores a target.*{hint}"
    with pytest.raises(ConfigError, match=message):
        score(name, labels, predictions)
    with pytest.raises(ConfigError, match=message):
        resampled_scores(name, labels, predictions, np.ones((1, 3), int))
