"""The best trial of a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from molsepnorm.tasks.metrics import METRICS
from molsepnorm.tuning import TrialRecord, Tuning


def _tuning(config, metric, scores, states):
    trials = tuple(
        TrialRecord(number, state, score, (score,), 1.0, {"optim.lr": 0.1 + number}, number == 0)
        for number, (score, state) in enumerate(zip(scores, states, strict=True))
    )
    return Tuning(Path("tune"), METRICS[metric], 1, config, trials, {}, finished=True)


def test_the_best_trial_keeps_the_metric_of_the_search(configure):
    """The default metric depends on the loss, so it may be another one."""
    settings = {"optim.regression_loss": "l1"}
    trial = TrialRecord(0, "complete", 0.5, (0.5,), 1.0, settings, recipe=False)
    tuning = Tuning(Path(), METRICS["rmse"], 1, configure(), (trial,), {}, finished=True)
    assert tuning.best.run.metric == "rmse"
    own = replace(tuning, config=configure({"run.metric": "r2"}))
    assert own.best.run.metric == "r2"


@pytest.mark.parametrize(("metric", "best"), [("rmse", 2), ("roc_auc", 3)])
def test_the_best_trial_has_the_best_score(configure, metric, best):
    """Only complete trials are ranked, and the recipe is found whatever its rank."""
    states = ["complete", "stopped early", "complete", "complete", "interrupted"]
    tuning = _tuning(configure(), metric, [0.5, 0.1, 0.4, 0.6, 0.05], states)
    assert [each.number for each in tuning.ranked] == ([2, 0, 3] if best == 2 else [3, 0, 2])
    assert tuning.best.optim.lr == 0.1 + best
    assert tuning.recipe.number == 0


def test_the_recipe_is_the_best_of_equals(configure):
    tuning = _tuning(configure(), "roc_auc", [0.5, 0.5], ["complete"] * 2)
    assert tuning.ranked[0].recipe


def test_there_is_no_best_configuration_before_a_trial_is_complete(configure):
    tuning = _tuning(configure(), "rmse", [0.5], ["stopped early"])
    assert tuning.best is None
    assert tuning.recipe is None
