"""`molsepnorm benchmark` and `molsepnorm ablate` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from molsepnorm.tasks.metrics import significant
from molsepnorm.training.step import TrainStep

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]


@pytest.fixture
def benchmark(tmp_path, tiny, write_table):
    """Arguments of a benchmark on data.csv of the test's folder, into its folder `replicates`."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS, a=YES_NO)
    return (
        *("benchmark", "--data", table, "--targets", "y", *tiny[2:], "-o", tmp_path / "replicates"),
        *("--epochs", 1),
    )


def _summary(folder) -> dict:
    return json.loads((folder / "replicates" / "summary.json").read_text())


def test_a_benchmark_prints_its_runs_and_repeats_none(
    benchmark, ok, refused, tmp_path, tree, monkeypatch
):
    """The summary has means and standard deviations. The same command prints the same table;
    further seeds are trained, and another configuration is refused, with no file changed."""
    text = ok(*benchmark, "--seeds", "0-1")
    values = []
    for name in ("seed-0", "seed-1"):
        metrics = json.loads((tmp_path / "replicates" / name / "metrics.json").read_text())
        values.append(metrics["test"]["rmse"])
        assert f"{name}: val rmse {significant(metrics['val']['rmse'])}, test rmse" in text
    assert f"{significant(np.mean(values))} ± {significant(np.std(values, ddof=1))}" in text
    assert str(tmp_path / "replicates" / "summary.json") in text
    plain, steps = TrainStep.__call__, []

    def step(self, *planned):
        steps.append(self.config.run.seed)
        return plain(self, *planned)

    monkeypatch.setattr(TrainStep, "__call__", step)
    assert ok(*benchmark, "--seeds", "0-1") in text
    assert not steps
    ok(*benchmark, "--seeds", "0-1,5")
    assert set(steps) == {5}
    assert _summary(tmp_path)["runs"] == ["seed-0", "seed-1", "seed-5"]
    before = tree(tmp_path)
    message = refused(*benchmark, "--seeds", "0-1", "--lr", 2)
    assert re.search(r"seed-0 began with other settings.*: optim\.lr \(.*, now 2\.0\)", message)
    assert tree(tmp_path) == before


def test_molecules_that_the_start_was_trained_on_are_in_the_summary(benchmark, ok, tmp_path, tiny):
    """Scores on them are too optimistic."""
    data = ("--data", tmp_path / "data.csv", "--targets", "y")
    ok("train", *data, *tiny[2:], "--epochs", 1, "-o", tmp_path / "start")
    text = ok(*benchmark, "--seeds", "0", "--split-seed", 3, "--from", tmp_path / "start")
    (reason,) = _summary(tmp_path)["leaks"]["seed-0"]
    assert reason in " ".join(text.split())


def test_folds_without_a_test_set_print_every_fold_and_the_forest(
    benchmark, ok, tmp_path, baselines, monkeypatch
):
    """One seed is the default. The same command prints the same tables, without training."""
    args = (*benchmark, "--folds", 3, "--no-test")
    text = ok(*args)
    summary = _summary(tmp_path)
    assert summary["runs"] == ["fold-0-seed-0", "fold-1-seed-0", "fold-2-seed-0"]
    table = text[text.index("RMSE of each fold") :]
    for fold in range(3):
        scores = [summary[name]["rmse"]["values"][fold] for name in ("test", "test_constant")]
        scores.append(summary["baseline"]["test"]["rmse"]["values"][fold])
        cells = ["10", *map(significant, scores)]
        assert any(cells == re.findall(r"[\d.]+", line)[1:] for line in table.splitlines())
    assert "data.csv: mean ± sd of 3 folds" in table
    assert significant(summary["out_of_fold"]["scores"]["rmse"]) in table
    forest = summary["baseline"]["test"]["rmse"]
    assert f"{significant(forest['mean'])} ± {significant(forest['sd'])}" in table
    monkeypatch.setattr(TrainStep, "__call__", None)
    assert ok(*args) == table


@pytest.mark.parametrize(
    ("vary", "start"),
    [
        ("norm=shared,sep", None),
        ("model.layers=1,2", None),
        ("optim.lr=1e-3,1e-4", "molsepnorm-assays"),
    ],
)
def test_a_varied_architecture_is_trained_from_random_weights(
    tmp_path, write_table, ok, monkeypatch, vary, start
):
    """The recipe for tables otherwise starts from a model, which has its own architecture."""
    from molsepnorm.training import Ablation

    seen = []

    def ablate(config, folder, vary, **others):
        seen.extend(config.changed({name: vary[name][1]}) for name in vary if name != "norm")
        seen.append(config)
        return Ablation(folder, "", {}, {}, finished=True)

    monkeypatch.setattr("molsepnorm.training.ablate", ablate)
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    ok("benchmark", "--data", table, "--targets", "y", "--vary", vary, "--json")
    starts = [each.finetune.start for each in seen]
    assert starts == [start and Path(start)] * len(starts)
