"""Runs that fit into a time."""

from __future__ import annotations

import time

import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config, train
from molsepnorm.training import run as module
from molsepnorm.training.budget import epochs_within
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.loop import Trainer
from molsepnorm.training.settings import seconds_of
from molsepnorm.training.step import TrainStep


@pytest.mark.parametrize(("text", "seconds"), [("640s", 640), ("11m", 660), ("1.5h", 5400)])
def test_times(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "11", "m", "-3m", "0s", "nanm", "infh", "11 minutes"])
def test_no_times(table, text):
    with pytest.raises(ConfigError, match=rf"run.budget: a time looks like 640s, .* got '{text}'"):
        load_config(table, overrides={"run.budget": text})


@pytest.fixture
def clock(monkeypatch):
    """Time passes by what a step and a validation are said to take, in seconds."""
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


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize(("step", "validation"), [(0.5, 1.0), (0.01, 3.0), (2.0, 0.1)])
def test_as_many_epochs_as_fit(configure, tmp_path, clock, every, step, validation):
    """Measuring and final scores included, and hardly less than what was given."""
    now = clock(step, validation)
    config = configure({"run.budget": "600s", "run.epochs": 1, "run.validate_every": every})
    result = train(config, tmp_path / "run")
    assert result.metrics["epochs"] > 10
    assert 600 - 0.08 * 600 - 3 * step - every * validation < now[0] + 2 * validation <= 600


def test_the_schedule_is_that_of_the_epochs_that_fit(configure, tmp_path, rows_of, monkeypatch):
    monkeypatch.setattr(module, "epochs_within", lambda trainer, seconds: 5)
    train(configure({"run.budget": "1h", "run.epochs": 2}), tmp_path / "budget")
    train(configure({"run.epochs": 5}), tmp_path / "plain")
    rates = [
        [row["lr"] for row in rows_of(tmp_path / n / "history.csv")] for n in ("budget", "plain")
    ]
    assert rates[0] == rates[1]
    assert len(rates[0]) == 5


def test_measuring_leaves_no_trace(configure, tmp_path, outcome, monkeypatch):
    """With dropout, an average and batch norms: the run is that of so many epochs, to the bit."""

    def measured(trainer, seconds):
        assert epochs_within(trainer, seconds) > 5
        return 5

    monkeypatch.setattr(module, "epochs_within", measured)
    train(configure({"run.budget": "1h", "model.dropout": 0.3}), tmp_path / "budget")
    train(configure({"run.epochs": 5, "model.dropout": 0.3}), tmp_path / "plain")
    assert outcome(tmp_path / "budget") == outcome(tmp_path / "plain")


def test_a_stopped_run_keeps_its_plan(configure, tmp_path, outcome, stop_at, monkeypatch):
    """It does not measure again; what was asked for stays in config.yaml."""
    monkeypatch.setattr(module, "epochs_within", lambda trainer, seconds: 4)
    config = configure({"run.budget": "1h"})
    train(config, tmp_path / "whole")
    assert not train(config, tmp_path / "parts", callback=stop_at(5)).finished
    monkeypatch.delattr(module, "epochs_within")
    assert train(folder=tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert load_config(config=tmp_path / "parts" / "config.yaml") == config.resolved()


def test_too_short_a_time_is_told_before_anything_is_written(configure, tmp_path):
    with pytest.raises(ConfigError, match=r"budget is too short: an epoch .* are left of 0.001s"):
        train(configure({"run.budget": "0.001s"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_several_processes_are_refused(configure, tmp_path):
    class Several:
        world = DistributedContext(0, 2, 0, 2)

    with pytest.raises(ConfigError, match="budget is for one process, and there are 2"):
        epochs_within(Several(), 60.0)
