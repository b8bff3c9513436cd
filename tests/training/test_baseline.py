"""The random forest beside the network of a run on a table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

import molsepnorm
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.descriptors import FAST_DESCRIPTORS, structure_inputs
from molsepnorm.tasks.metrics import draw_resamples
from molsepnorm.training import train
from molsepnorm.training.completing import baseline
from runs import rows_of
from support import Recorder, score

ONE_EPOCH = {"run.epochs": 1, "run.threads": 1, "run.blend": "none"}


pytestmark = pytest.mark.usefixtures("baselines")


def test_scores_are_those_of_scikit_learn(configure, tmp_path, monkeypatch):
    """It has the training, validation and test rows and the metrics of the network."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))  # progress without a cache
    config = configure({**ONE_EPOCH, "run.seed": 4, "data.targets": ["y", "active"]})
    seen = Recorder()
    metrics = train(config, tmp_path / "run", callback=seen).metrics
    assert seen.progress[-1] == (30, 30)
    rows = rows_of(config.data.table)
    (splits,) = json.loads((tmp_path / "run" / "splits.json").read_text())
    smiles = [row["smiles"] for row in rows]
    features = np.hstack(structure_inputs(smiles, True, FAST_DESCRIPTORS, False)).astype(np.float32)
    found = metrics["baseline"]
    assert (found["trees"], found["seconds"] > 0) == (3 + 24, True)
    tested = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert [int(row["line"]) - 2 for row in tested] == splits["test"]
    for name, metric in (("y", "mae"), ("active", "brier")):
        labels = np.array([float(row[name] or "nan") for row in rows], np.float32)
        used = [row for row in splits["train"] if not math.isnan(labels[row])]
        median = np.nanmedian(features[splits["train"]], axis=0)
        inputs = np.where(np.isnan(features), median, features)
        if name == "y":
            varying = (inputs[used] != np.median(inputs[used], axis=0)).sum(axis=0) >= 5
            settings = {"max_iter": 24, "learning_rate": 0.3, "min_samples_leaf": 5}
            settings |= {"max_features": min(100 / varying.sum(), 1.0), "early_stopping": False}
            boosting = HistGradientBoostingRegressor(random_state=4, **settings)
            boosting.fit(inputs[used][:, varying], labels[used])
            forest = ExtraTreesRegressor(3, random_state=4).fit(inputs[used], labels[used])
            every = (forest.predict(inputs) + boosting.predict(inputs[:, varying])) / 2
        else:  # weights choose the splits, and the leaves hold one class each
            weights = np.bincount(labels[used].astype(int))[labels[used].astype(int)] ** -0.5
            forest = RandomForestClassifier(12, max_features="log2", random_state=4)
            every = forest.fit(inputs[used], labels[used], weights).predict_proba(inputs)[:, 1]
        for split in ("val", "test"):
            expected = score(metric, labels[splits[split]], every[splits[split]])
            assert found[split][metric] == pytest.approx(expected, rel=1e-5)
        column = [float(row[f"{name}_forest"]) for row in tested]
        np.testing.assert_allclose(column, every[splits["test"]], rtol=1e-5, atol=1e-6)


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
