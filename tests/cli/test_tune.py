"""`molsepnorm tune` on the command line."""

from __future__ import annotations

import json

import pytest

from molsepnorm.tasks.metrics import significant

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture
def tune(tmp_path, tiny, write_table):
    """Arguments of a search on data.csv of the test's folder, into its folder tune."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    space = tmp_path / "space.yaml"
    space.write_text("optim:\n  lr: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    return (
        *("tune", "--data", table, *tiny, "--threads", 1, "-o", tmp_path / "tune"),
        *("--space", space, "--replicates", 1),
    )


def test_the_best_configuration_is_trained_and_scored_once(tune, ok, refused, tmp_path):
    """The table has the recipe, and `train` reads best.yaml. The same command trains nothing."""
    text = ok(*tune, "--trials", 3)
    assert [f"trial {number}" in text for number in range(4)] == [True] * 3 + [False]
    assert "trial 0, the recipe: complete, val rmse " in text
    assert "│ recipe │" in text
    assert "Best of 3 trials, 0 of them stopped early" in text
    metrics = (tmp_path / "tune" / "best" / "metrics.json").read_text()
    assert significant(json.loads(metrics)["test"]["rmse"]) in text
    again = ok(*tune, "--trials", 3)
    assert f"The best configuration is already trained: {tmp_path / 'tune' / 'best'}" in again
    assert "trial 0" not in again
    assert (tmp_path / "tune" / "best" / "metrics.json").read_text() == metrics
    ok("train", "--config", tmp_path / "tune" / "best.yaml", "-o", tmp_path / "run", "-q")
    other = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert other["test"] == json.loads(metrics)["test"]
    assert "so no trial is added" in refused(*tune, "--trials", 4)


def test_invalid_options_are_usage_errors(tune, refused, tmp_path, monkeypatch):
    assert "give the number of trials (--trials 50), a budget" in refused(*tune)
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert "a trial runs in one process" in refused(*tune, "--trials", 2)
    assert not (tmp_path / "tune").exists()
