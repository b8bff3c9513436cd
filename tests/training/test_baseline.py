"""The random forest beside the network of a run on a table."""

from __future__ import annotations

import numpy as np
import pytest

import molsepnorm
from molsepnorm.model.parts import Forest
from molsepnorm.molecules import featurize
from molsepnorm.tasks import NO_INPUTS
from molsepnorm.tasks.metrics import draw_resamples
from molsepnorm.training import train
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.baseline import forest_inputs
from runs import forest_arrays, rows_of, split_rows
from support import Recorder, score

ONE_EPOCH = {"run.epochs": 1, "run.threads": 1, "run.blend": "none"}


pytestmark = pytest.mark.usefixtures("baselines")


def test_it_is_the_forest_of_the_training_rows(configure, tmp_path, monkeypatch):
    """With the validation and test rows and the metrics of the network. model/parts/test_forest.py
    compares forests with scikit-learn."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))  # progress without a cache
    config = configure({**ONE_EPOCH, "run.seed": 4, "data.targets": ["y", "active"]})
    seen = Recorder()
    result = train(config, tmp_path / "run", callback=seen)
    assert seen.progress[-1] == (30, 30)
    rows, splits = rows_of(config.data.table), split_rows(tmp_path / "run")
    extra = forest_arrays([row["smiles"] for row in rows])
    cells = [[float(row[name] or "nan") for name in ("y", "active")] for row in rows]
    labels, used = np.array(cells, np.float32), splits["train"]
    reads, task = forest_inputs(NO_INPUTS), result.model.task
    forest = Forest.fit(reads, extra.stacked()[used], labels[used], task, seed=4, trees=12)
    every, found = forest.values(extra), result.metrics["baseline"]
    assert (found["trees"], found["seconds"] > 0) == (3 + 24, True)
    tested = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert [int(row["line"]) - 2 for row in tested] == splits["test"]
    for column, (name, metric) in enumerate((("y", "mae"), ("active", "brier"))):
        for split in ("val", "test"):
            own = splits[split]
            expected = score(metric, labels[own, column], every[own, column])
            assert found[split][metric] == pytest.approx(expected, rel=1e-5)
        written = [float(row[f"{name}_forest"]) for row in tested]
        np.testing.assert_allclose(written, every[splits["test"], column], rtol=1e-5, atol=1e-6)


def test_the_difference_is_that_of_the_test_scores(configure, tmp_path):
    """Its interval is that of both models on the same resamples of the molecules."""
    metrics = train(configure(ONE_EPOCH), tmp_path / "run").metrics
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    labels, network, forest = (
        np.array([float(row[name] or "nan") for row in rows])
        for name in ("y", "y_pred", "y_forest")
    )
    differences = []
    for counts in draw_resamples(len(labels), 1000, 0):
        drawn = np.repeat(np.arange(len(labels)), counts)
        both = (score("mae", labels[drawn], each[drawn]) for each in (network, forest))
        differences.append(np.subtract(*both))
    found = metrics["baseline_difference"]["mae"]
    expected = metrics["test"]["mae"] - metrics["baseline"]["test"]["mae"]
    assert found["difference"] == expected
    np.testing.assert_allclose(found["interval_95"], np.quantile(differences, [0.025, 0.975]), 1e-5)


def test_molecules_without_weight_do_not_count(with_columns, tmp_path):
    values = [0.1 * row for row in range(30)]
    parts = ["train"] * 20 + ["val"] * 5 + ["test"] * 5
    half = {"data.targets": ["y"], "data.splits_column": "part", **ONE_EPOCH}
    columns = {"y": values, "part": parts, "w": [1.0] * 10 + [0.0] * 10 + [1.0] * 10}
    weighted = with_columns(columns, {**half, "data.weight_column": "w"})
    first = train(weighted, tmp_path / "weighted").metrics["baseline"]
    columns["y"] = values[:10] + [""] * 10 + values[20:]
    blank = train(with_columns(columns, half), tmp_path / "blank").metrics["baseline"]
    assert first["test"] == blank["test"]


def test_bounds_are_fitted_but_not_scored(with_columns, tmp_path):
    """Their number counts in training; scores are those of the other labels."""
    values = [f"{'>' if row % 3 == 0 else ''}{0.1 * row:.1f}" for row in range(30)]
    settings = {"data.targets": ["y"], "data.split": (0.6, 0.2, 0.2), **ONE_EPOCH}
    metrics = train(with_columns({"y": values}, settings), tmp_path / "bounds").metrics
    rows = rows_of(tmp_path / "bounds" / "predictions_test.csv")
    exact = [row for row in rows if not row["y"].startswith(">")]
    assert 0 < len(exact) < len(rows)
    truth, predicted = (np.array([float(row[c]) for row in exact]) for c in ("y", "y_forest"))
    assert metrics["baseline"]["test"]["mae"] == pytest.approx(score("mae", truth, predicted))
    columns = {"y": [value.strip(">") for value in values]}
    train(with_columns(columns, {**settings, "name": "exact.csv"}), tmp_path / "exact")
    numbers = rows_of(tmp_path / "exact" / "predictions_test.csv")
    assert [row["y_forest"] for row in rows] == [row["y_forest"] for row in numbers]


def test_many_labels_have_fewer_trees(configure, monkeypatch, tmp_path):
    monkeypatch.setattr(baseline, "_TREE_LABELS", 0)
    assert train(configure(ONE_EPOCH), tmp_path / "run").metrics["baseline"]["trees"] == 3 + 20


def test_molecules_in_memory_have_one_if_they_are_smiles():
    smiles, values = ["C" * n for n in range(1, 21)], [n / 10 for n in range(20)]
    settings = {"model.layers": 1, **ONE_EPOCH}
    assert "baseline" in molsepnorm.fit(smiles, values, overrides=settings).metrics
    graphs, seen = list(featurize.get("ogb").stream(smiles)), Recorder()
    result = molsepnorm.fit(graphs, values, overrides=settings, callback=seen)
    assert "baseline" not in result.metrics
    assert seen.warnings == ["The run has no baseline, because its molecules are not SMILES."]
