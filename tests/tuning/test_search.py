"""The search itself: trials of a tiny network, the untouched test split, and the final training."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest

from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError, DivergedError, StorageError
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training import StopWhen, load_config, train
from molsepnorm.training import run as course
from molsepnorm.training.loop import Trainer
from molsepnorm.training.step import TrainStep
from molsepnorm.tuning import TrialRecord, Tuning, search, study, train_best, tune

SPACE = {"optim.lr": {"low": 1e-4, "high": 0.1, "log": True}, "run.batch_size": [4, 8]}


@pytest.fixture
def score_is_lr(monkeypatch):
    """Nothing is trained, and the validation score is the learning rate."""
    monkeypatch.setattr(TrainStep, "__call__", lambda *args: None)
    monkeypatch.setattr(Trainer, "validate", lambda self: (1.0, {"rmse": self.config.optim.lr}))


def test_a_score_is_the_mean_over_splits_and_the_first_trial_is_the_recipe(configure, tmp_path):
    """Each split gives the validation score of a run of its own."""
    config = configure()
    tuning = tune(config, tmp_path / "tune", trials=3, space=SPACE, splits=2)
    assert tuning.finished
    assert [len(each.scores) for each in tuning.trials] == [2, 2, 2]
    assert tuning.recipe == tuning.trials[0]
    for fold, score in enumerate(tuning.trials[0].scores):
        alone = train(config.changed({"data.fold": fold}), tmp_path / f"alone-{fold}")
        assert score == pytest.approx(alone.metrics["val"]["rmse"], rel=1e-6)
    for each in tuning.trials:
        assert each.score == pytest.approx(np.mean(each.scores))
    assert tuning.ranked[0].score == min(each.score for each in tuning.trials)
    best = load_config(config=tmp_path / "tune" / "best.yaml")
    assert best == tuning.best.resolved()
    assert best.optim.lr == tuning.ranked[0].settings["optim.lr"]
    with open(tmp_path / "tune" / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == [each.score for each in tuning.trials]
    assert [float(row["optim.lr"]) for row in rows] == [
        each.settings["optim.lr"] for each in tuning.trials
    ]


def test_trials_do_not_depend_on_test_labels(configure, write_table, tmp_path, monkeypatch):
    """The best configuration alone is scored on the test split, once."""
    scored, seen, plain_train = [], [], search.train_on
    monkeypatch.setattr(
        search,
        "train_on",
        lambda own, data, **to: seen.append(data) or plain_train(own, data, **to),
    )
    plain = course.about_split  # of the test split
    monkeypatch.setattr(
        course, "about_split", lambda own, data: scored.append(data) or plain(own, data)
    )
    config = configure()
    test = datasets.load(config.data, _encoding(config)).splits["test"]
    other = write_table("other.csv", {int(row): 1000.0 + row for row in test})
    results = [
        tune(each, tmp_path / name, trials=2, space=SPACE, splits=2)
        for name, each in (("a", config), ("b", configure(table=other)))
    ]
    assert [each.score for each in results[0].trials] == [each.score for each in results[1].trials]
    assert not scored
    assert all(not len(data.splits["test"]) and np.isnan(data.labels[test]).all() for data in seen)
    assert not np.array_equal(seen[0].splits["val"], seen[1].splits["val"])
    result = train_best(results[0])
    assert len(scored) == 1
    assert len(scored[0].splits["test"]) == len(test)
    assert result.metrics["test"]["rmse"] > 0
    assert train_best(results[0]).metrics == result.metrics
    assert len(scored) == 1
    again = tune(config, tmp_path / "a", trials=2, space=SPACE, splits=2)
    assert again.trials == results[0].trials
    with pytest.raises(ConfigError, match="scored on the test split, so no trial is added"):
        tune(config, tmp_path / "a", trials=3, space=SPACE, splits=2)


def _encoding(config):
    from molsepnorm.model import encoding_of
    from molsepnorm.training.recipes import architecture

    return encoding_of(architecture(config))


@pytest.mark.usefixtures("score_is_lr")
def test_bad_trials_are_stopped_early(configure, tmp_path):
    """A trial is stopped if its learning rate is above the median of the complete ones. The folder
    may have any name."""
    folder = tmp_path / "50 % of a?b#c"
    tuning = tune(configure({"optim.lr": 0.01}), folder, trials=14, space=SPACE, splits=1)
    complete = []
    for each in tuning.trials:
        lr = each.settings["optim.lr"]
        early = len(complete) >= 5 and lr > np.median(complete)
        assert each.state == ("stopped early" if early else "complete")
        assert each.score == pytest.approx(lr)
        if not early:
            complete.append(lr)
    assert any(each.state == "stopped early" for each in tuning.trials)
    assert tuning.best.optim.lr == min(complete)
    assert max(tuning.importance, key=tuning.importance.get) == "optim.lr"
    assert sum(tuning.importance.values()) == pytest.approx(1)
    shares = pd.read_csv(folder / "importance.csv", index_col="setting")["importance"]
    assert shares.to_dict() == pytest.approx(tuning.importance)


@pytest.mark.usefixtures("score_is_lr")
def test_a_stopped_search_continues(configure, tmp_path):
    """The trial that was stopped does not count; the settings are those of an unbroken search."""
    arguments = {"space": SPACE, "splits": 1}
    stop = StopWhen(lambda: True)
    first = tune(configure(), tmp_path / "tune", callback=stop, trials=4, **arguments)
    assert not first.finished
    assert [(each.recipe, each.state) for each in first.trials] == [(True, "interrupted")]
    for count in (2, 4):
        tuning = tune(configure(), tmp_path / "tune", trials=count, **arguments)
    assert tuning.finished
    assert [each.state for each in tuning.trials] == ["interrupted", *["complete"] * 4]
    assert [each.recipe for each in tuning.trials] == [True, True, False, False, False]
    again = [tune(configure(), tmp_path / name, trials=3, **arguments).trials for name in "ab"]
    assert [each.settings for each in again[0]] == [each.settings for each in again[1]]


@pytest.mark.usefixtures("score_is_lr")
def test_a_start_that_knows_the_test_molecules_is_replaced(configure, tmp_path, monkeypatch):
    """In the search and in the final training, which is not repeated."""
    short = {"run.epochs": 1, "run.baseline": False}
    folders = [tmp_path / "first", tmp_path / "second"]
    models = [str(train(configure(short), folder).folder) for folder in folders]
    monkeypatch.setattr(
        "molsepnorm.training.start.trained_on_before",
        lambda dataset, start, _: (
            dataset.smiles_of(dataset.splits["test"]) if str(start) == models[0] else []
        ),
    )
    starts = dict(zip(("finetune.start", "finetune.otherwise"), models, strict=True))
    tuning = tune(configure(short | starts), tmp_path / "tune", trials=1, space=SPACE)
    assert str(tuning.config.finetune.start) == models[1]
    assert train_best(tuning).metrics == train_best(tuning).metrics


def test_a_budget_is_the_time_during_which_any_trial_ran():
    """Trials at the same time do not use it twice, and interrupted ones do not use it."""
    trials, start = optuna.create_study(), datetime(2026, 1, 1)
    states = optuna.trial.TrialState
    spans = [(0, 10, states.COMPLETE), (5, 12, states.PRUNED), (90, 95, states.COMPLETE)]
    for first, last, state in [*spans, (50, 80, states.FAIL)]:
        trial = optuna.trial.create_trial(state=state, value=1.0 if state.name != "FAIL" else None)
        trial.datetime_start = start + timedelta(seconds=first)
        trial.datetime_complete = start + timedelta(seconds=last)
        trials.add_trial(trial)
    assert study._spent(trials) == 17


@pytest.mark.usefixtures("score_is_lr")
def test_other_trials_and_damaged_files_are_refused(configure, tmp_path):
    tune(configure(), tmp_path / "tune", trials=1, space=SPACE, splits=1)
    with pytest.raises(ConfigError, match="holds trials of another search"):
        tune(configure(), tmp_path / "tune", trials=1, space=SPACE, splits=2)
    (tmp_path / "tune" / "trials.db").write_text("not a database, but a text " * 100)
    with pytest.raises(StorageError, match=r"trials\.db cannot be read or written"):
        tune(configure(), tmp_path / "tune", trials=1, space=SPACE, splits=1)
    (tmp_path / "tune" / "trials.db").unlink()
    with pytest.raises(ConfigError, match="exists and holds no trials"):
        tune(configure(), tmp_path / "tune", trials=1, space=SPACE, splits=1)


@pytest.mark.parametrize(("metric", "best"), [("rmse", [2, 0, 3]), ("roc_auc", [3, 0, 2])])
def test_complete_trials_are_ranked(configure, metric, best):
    """The best one keeps the metric of the search, whose default depends on the loss."""
    states = ["complete", "stopped early", "complete", "complete", "interrupted"]
    settings = {"optim.regression_loss": "l1"}
    trials = tuple(
        TrialRecord(number, state, score, (score,), 1.0, settings, recipe=number == 0)
        for number, (score, state) in enumerate(
            zip([0.5, 0.1, 0.4, 0.6, 0.05], states, strict=True)
        )
    )
    tuning = Tuning(Path("tune"), METRICS[metric], 1, configure(), trials)
    assert [each.number for each in tuning.ranked] == best
    assert tuning.recipe.number == 0
    assert tuning.best.run.metric == metric
    assert Tuning(Path(), METRICS[metric], 1, configure(), trials[1:2]).best is None


@pytest.mark.usefixtures("score_is_lr")
def test_a_budget_ends_the_search_after_the_recipe(configure, tmp_path):
    tuning = tune(configure(), tmp_path / "tune", budget="0.001s", space=SPACE, splits=1)
    assert tuning.finished
    assert [each.state for each in tuning.trials] == ["complete"]
    assert tuning.best == tuning.config
    again = tune(configure(), tmp_path / "tune", budget="0.001s", space=SPACE, splits=1)
    assert again.trials == tuning.trials


@pytest.mark.usefixtures("score_is_lr")
def test_a_trial_that_diverges_counts_as_stopped_early(configure, tmp_path, monkeypatch):
    """If the recipe diverges, the search ends with its error."""

    def fail(self):
        if self.config.optim.lr != 0.001:
            raise DivergedError("the loss is nan")
        return 1.0, {"rmse": 0.5}

    monkeypatch.setattr(Trainer, "validate", fail)
    tuning = tune(configure(), tmp_path / "tune", trials=3, space=SPACE, splits=1)
    assert [each.state for each in tuning.trials] == ["complete", *["stopped early"] * 2]
    with pytest.raises(DivergedError, match="the loss is nan"):
        tune(configure({"optim.lr": 0.5}), tmp_path / "b", trials=3, space=SPACE, splits=1)


@pytest.mark.usefixtures("score_is_lr")
def test_the_number_of_splits_follows_from_the_data(configure, tmp_path):
    """At most five replicates, all folds, or one if a file defines the split."""
    file = tmp_path / "splits.json"
    file.write_text('[{"train": "0-19", "val": "20-24", "test": "25-29"}]')
    expected = {
        "replicates": ({}, 5),
        "folds": ({"data.folds": 3, "data.fold": 1}, 3),
        "file": ({"data.splits_file": file}, 1),
    }
    for name, (settings, count) in expected.items():
        tuning = tune(configure(settings), tmp_path / name, trials=1, space=SPACE)
        assert tuning.splits == len(tuning.trials[0].scores) == count


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {}, r"number of trials \(--trials 50\), a budget"),
        ({"run.budget": "1m"}, {"trials": 1}, "run.budget is not used in a search"),
        ({"data.folds": 3, "data.test_set": False}, {"trials": 1}, r"data.test_set: false"),
        (
            {"run.metric": "loss"},
            {"trials": 1, "space": {"optim.regression_loss": ["l1", "mse"]}},
            "the loss cannot be tuned",
        ),
    ],
)
def test_invalid_arguments_are_refused_before_any_trial(
    configure, tmp_path, settings, arguments, message
):
    with pytest.raises(ConfigError, match=message):
        tune(configure(settings), tmp_path / "tune", **arguments)
    assert not (tmp_path / "tune").exists()


SCRIPT = """
import os, signal, sys
from molsepnorm.training import Callback, load_config
from molsepnorm.tuning import study, tune

class Kill(Callback):
    def on_step(self, *args):
        if len(done) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)

done = []
study._HEARTBEAT, study._GRACE = 1, 2
space = {"optim.lr": {"low": 1e-4, "high": 0.1, "log": True}}
tune(load_config(config=sys.argv[1]), sys.argv[2], trials=5, space=space, splits=1,
     callback=Kill(), report=lambda trial, tuning: done.append(trial))
print(*[each.number for each in done])
"""


def test_killed_and_simultaneous_processes_share_the_trials(configure, tmp_path):
    """The trial of a killed process is repeated, and each trial is run once."""
    config = tmp_path / "config.yaml"
    configure({"run.epochs": 1}).save(config)

    def start(kill_after: int) -> subprocess.Popen:
        arguments = [SCRIPT, str(config), str(tmp_path / "tune"), str(kill_after)]
        return subprocess.Popen(
            [sys.executable, "-c", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    killed = start(1)
    killed.communicate(timeout=240)
    assert killed.returncode == -signal.SIGKILL
    both = [start(-1), start(-1)]
    done = [[int(number) for number in each.communicate(timeout=240)[0].split()] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    space = {"optim.lr": SPACE["optim.lr"]}
    tuning = tune(load_config(config=config), tmp_path / "tune", trials=5, space=space, splits=1)
    lost = tuning.trials[1]
    others = [each for each in tuning.trials if each != lost]
    assert lost.state == "interrupted" and lost.settings in [each.settings for each in others]
    assert {each.state for each in others} == {"complete"}
    assert len(others) in (5, 6)  # the last two may begin at the same time
    assert sorted([0, *done[0], *done[1]]) == [each.number for each in others]
