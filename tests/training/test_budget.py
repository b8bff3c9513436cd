"""Runs with a time budget."""

from __future__ import annotations

import time

import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config, train
from molsepnorm.training import run as module
from molsepnorm.training.config import seconds_of
from molsepnorm.training.loop import Trainer, epochs_within
from molsepnorm.training.step import TrainStep
from runs import outcome, stop_at


def test_durations_are_parsed(table):
    assert [seconds_of(text) for text in ("640s", "11m", "1.5h")] == [640, 660, 5400]
    for text in ("11", "-3m", "nanm", "11 minutes"):
        with pytest.raises(ConfigError, match=f"run.budget: a time looks like 640s, .* '{text}'"):
            load_config(table, overrides={"run.budget": text})


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by the given seconds per step and per validation."""
    now = [0.0]

    def slow(kind, name, seconds):
        plain = getattr(kind, name)

        def slowly(self, *args, **more):
            now[0] += seconds
            return plain(self, *args, **more)

        monkeypatch.setattr(kind, name, slowly)

    def make(step: float, validation: float) -> list[float]:
        slow(TrainStep, "__call__", step)
        slow(Trainer, "validate", validation)
        monkeypatch.setattr(time, "perf_counter", lambda: now[0])
        return now

    return make


@pytest.mark.parametrize(("every", "step", "validation"), [(1, 0.01, 3.0), (4, 2.0, 0.1)])
def test_a_run_has_as_many_epochs_as_fit(configure, tmp_path, clock, every, step, validation):
    """This includes measuring and the final scores, and uses almost all of the time."""
    now = clock(step, validation)
    config = configure({"run.budget": "240s", "run.epochs": 1, "run.validate_every": every})
    result = train(config, tmp_path / "run")
    assert result.metrics["epochs"] > 10
    assert 240 - 0.08 * 240 - 3 * step - every * validation < now[0] + 2 * validation <= 240


@pytest.mark.claim(
    "A run with a time budget equals a run of the epochs that fit. Variants of an ablation "
    "differ only in their settings, and paired differences equal SciPy's."
)
def test_measuring_does_not_change_the_run(configure, trained, tmp_path, monkeypatch):
    """With dropout, an average and batch norms, the run equals one with that number of epochs."""

    def measured(trainer, seconds):
        assert epochs_within(trainer, seconds) > 5
        return 5

    monkeypatch.setattr(module, "epochs_within", measured)
    train(configure({"run.budget": "1h", "model.dropout": 0.3}), tmp_path / "budget")
    plain = trained({"run.epochs": 5, "model.dropout": 0.3}).folder
    assert outcome(tmp_path / "budget") == outcome(plain)


def test_a_resumed_run_keeps_its_number_of_epochs(configure, trained, tmp_path, monkeypatch):
    """It does not measure again, and config.yaml keeps the configured value."""
    monkeypatch.setattr(module, "epochs_within", lambda trainer, seconds: 4)
    config = configure({"run.budget": "1h"})
    assert not train(config, tmp_path / "parts", callback=stop_at(5)).finished
    monkeypatch.delattr(module, "epochs_within")
    assert train(folder=tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(trained({"run.epochs": 4}).folder)
    assert load_config(config=tmp_path / "parts" / "config.yaml") == config.resolved()
