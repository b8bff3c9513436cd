"""The trials that several processes share; no model is trained here."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.tuning.space import Range
from molsepnorm.tuning.study import Study, opened

SPACE = {"optim.lr": Range(0.0, 1.0, False), "optim.decay": ("linear", "cosine")}
RECIPE = {"optim.lr": 0.5, "optim.decay": "cosine"}


@pytest.fixture
def open_study(tmp_path):
    """`open_study()`: a process that takes part in the search in the folder `tune`."""

    def open_one(metric: str = "rmse", **record):
        record = {"data": "a", **record}
        return opened(tmp_path / "tune", SPACE, RECIPE, METRICS[metric], 3, record)

    return open_one


def _search(study: Study, wanted: int) -> None:
    """Run trials whose score is the learning rate."""
    while (trial := study.ask(wanted, None, False)) is not None:
        study.tell(trial, "complete", [trial.params["optim.lr"]])


def test_the_same_trials_are_drawn_after_a_restart(open_study, tmp_path):
    """The first trial is the recipe."""
    with open_study() as study:
        _search(study, 8)
        at_once = [each.settings for each in study.records()]
    (tmp_path / "tune").rename(tmp_path / "other")
    for wanted in (3, 8):
        with open_study() as study:
            _search(study, wanted)
            records = study.records()
    assert [each.settings for each in records] == at_once
    assert records[0].settings == RECIPE
    assert [each.recipe for each in records] == [True] + [False] * 7
    assert len({each.settings["optim.lr"] for each in records}) == 8
    assert [each.score for each in records] == [each.settings["optim.lr"] for each in records]


def test_running_trials_of_another_process_count(open_study):
    """Two processes run exactly the wanted number together, and draw different settings."""
    with open_study() as one, open_study() as two:
        trials = [study.ask(3, None, False) for study in (one, two, one, two, one)]
        assert [each is None for each in trials] == [False, False, False, True, True]
        assert len({each.params["optim.lr"] for each in trials[:3]}) == 3
        assert one.leave()
        assert not two.leave()


def test_trials_of_a_process_that_ended_do_not_count(open_study):
    """The recipe is tried again."""
    with open_study() as study:
        study.ask(2, None, False)
    with open_study() as study:
        _search(study, 2)
        records = study.records()
    assert [each.state for each in records] == ["interrupted", "complete", "complete"]
    assert [each.recipe for each in records] == [True, True, False]
    assert records[1].settings == RECIPE


@pytest.mark.parametrize("metric", ["rmse", "roc_auc"])
def test_a_trial_is_behind_if_it_is_worse_than_the_median(open_study, metric):
    """The median is that of the complete trials at the same step, once there are five."""
    sign = -1 if METRICS[metric].higher_is_better else 1
    values = np.random.default_rng(0).normal(size=(9, 2))
    with open_study(metric) as study:
        for number, scores in enumerate(values):
            trial = study.ask(None, None, False)
            for step, score in enumerate(scores, start=1):
                earlier = values[:number, step - 1]
                expected = number >= 5 and sign * (score - np.median(earlier)) > 0
                assert study.is_behind(trial, step, float(score)) == expected
            study.tell(trial, "complete", [float(scores[-1])])


def test_the_recipe_is_never_behind(open_study):
    with open_study() as study:
        study.ask(None, None, False)  # this process has the recipe
        for _ in range(6):
            trial = study.ask(None, None, False)
            study.is_behind(trial, 1, 0.0)
            study.tell(trial, "complete", [0.0])
    with open_study() as study:
        recipe = study.ask(None, None, False)
        assert not study.is_behind(recipe, 1, 9.0)
        other = study.ask(None, None, False)
        assert study.is_behind(other, 1, 9.0)


def test_a_budget_is_the_time_during_which_any_process_searched(open_study, monkeypatch):
    """Processes at the same time do not use it twice; the time between two searches is free. The
    recipe is tried whatever the budget."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with open_study() as one, open_study() as two:
        trials = [one.ask(None, 5.0, False), two.ask(None, 5.0, False)]
        now[0] = 1010.0
        for study, trial in zip((one, two), trials, strict=True):
            study.tell(trial, "complete", [1.0])
    now[0] = 5000.0
    with open_study() as study:
        assert study.seconds() == 10.0
        now[0] = 5007.0
        assert study.seconds() == 17.0
        assert study.ask(None, 17.0, False) is None
        assert study.ask(None, 17.5, False) is not None


def test_no_trial_is_added_after_the_test_split_was_used(open_study):
    with open_study() as study:
        _search(study, 2)
        assert study.ask(2, None, True) is None
        with pytest.raises(ConfigError, match="scored on the test split, so no trial is added"):
            study.ask(3, None, True)


def test_trials_of_another_search_are_refused(open_study, tmp_path):
    with open_study(space=[1]):
        pass
    with pytest.raises(ConfigError, match="holds trials with another space"), open_study(space=[2]):
        pass
    (tmp_path / "tune").rename(tmp_path / "other")
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune" / "notes.txt").touch()
    with pytest.raises(ConfigError, match="exists and holds no trials"), open_study():
        pass


def test_a_damaged_file_is_a_clear_error(open_study, tmp_path):
    (tmp_path / "tune").mkdir()
    (tmp_path / "tune" / "trials.db").write_text("not a database, but a text " * 100)
    with pytest.raises(StorageError, match=r"trials\.db cannot be read or written"), open_study():
        pass


def test_importance_is_that_of_the_setting_which_decides(open_study):
    with open_study() as study:
        _search(study, 4)
        assert study.importance() == {}
        _search(study, 16)
        found = study.importance()
    assert sum(found.values()) == pytest.approx(1)
    assert found["optim.lr"] > 0.9


def test_a_folder_may_have_any_name(tmp_path: Path):
    folder = tmp_path / "50 % of a?b#c"
    with opened(folder, SPACE, RECIPE, METRICS["rmse"], 0, {}) as study:
        _search(study, 1)
    assert (folder / "trials.db").exists()
