"""`evaluate` returns the scores of the run, for every kind of split and target."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model import PropertyModel
from molsepnorm.training import evaluate, load_config, train
from molsepnorm.training.scoring import dataset_scores
from runs import NUMBERS, TINY, YES_NO, on_columns, outcome, rows_of, split_rows, write_rows
from support import of_targets

SPLITS = ("train", "val", "test", "all")
COLOURS = ["red", "blue", "green", "red", "", "blue", "red"]


@pytest.fixture(scope="module")
def coloured(tmp_path_factory):
    """A finished run with a regression, a binary and a three-class target."""
    folder = tmp_path_factory.mktemp("coloured")
    columns = {"y": NUMBERS, "a": YES_NO, "c": COLOURS}
    settings = {"data.targets": ["y", "a", "c"], "data.split": [0.4, 0.3, 0.3]}
    config = on_columns(folder, columns, settings)
    return config, train(config, folder / "run")


def test_class_scores_equal_scikit_learns(coloured):
    """From predictions_test.csv alone."""
    _, result = coloured
    rows = [row for row in rows_of(result.folder / "predictions_test.csv") if row["c"]]
    classes = ["blue", "green", "red"]
    truth = [row["c"] for row in rows]
    predicted = [row["c_pred"] for row in rows]
    shares = np.array([[float(row[f"c_prob_{name}"]) for name in classes] for row in rows])
    shares /= shares.sum(axis=1, keepdims=True)
    test = result.metrics["test"]
    assert test["accuracy/c"] == pytest.approx(sk.accuracy_score(truth, predicted))
    assert test["mcc/c"] == pytest.approx(sk.matthews_corrcoef(truth, predicted))
    assert test["log_loss/c"] == pytest.approx(sk.log_loss(truth, shares, labels=classes), rel=1e-4)
    assert test["accuracy"] == pytest.approx((test["accuracy/c"] + test["accuracy/a"]) / 2)
    assert test["mae"] >= 0
    assert "mae/y" not in test  # there is one of them alone


def test_the_baseline_predicts_the_share_of_each_class(coloured):
    """The shares are those of the training labels."""
    config, result = coloured
    colours = [row["c"] for row in rows_of(config.data.table)]
    splits = split_rows(result.folder)
    taught = [colours[row] for row in splits["train"] if colours[row]]
    asked = [colours[row] for row in splits["test"] if colours[row]]
    expected = -np.mean([np.log(taught.count(each) / len(taught)) for each in asked])
    assert result.metrics["test_constant"]["log_loss/c"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_gives_the_scores_of_the_run(coloured, split):
    """With only the table, or with the configuration of the run."""
    config, result = coloured
    for data in (DataConfig(table=config.data.table), config.data):
        found = evaluate(result.folder, data, split)
        assert found.split == split
        assert found.scores == pytest.approx(result.metrics[split], nan_ok=True)
        if split == "test":
            expected = result.metrics["test_interval_95"]
            assert found.intervals.keys() == expected.keys()
            for name, ends in expected.items():
                assert found.intervals[name] == pytest.approx(ends)
    found = evaluate(result.model, config.data, split)
    assert found.scores == pytest.approx(result.metrics[split], nan_ok=True)


def test_intervals_of_new_combinations_are_those_of_the_run(tmp_path):
    """Rows of one molecule, which such a split divides, count one by one."""
    rows = [[f"{'C' * n}O", f"{t}.5", n / 10 + t / 20] for n in range(1, 21) for t in range(3)]
    path = write_rows(tmp_path / "pairs.csv", ["smiles", "t", "y"], *rows)
    settings = {"data.targets": ["y"], "data.feature_columns": ["t"], "data.split_by": "none"}
    result = train(load_config(path, overrides={**TINY, **settings}), tmp_path / "run")
    found = evaluate(result.folder, DataConfig(table=path)).intervals
    assert {name: [*ends] for name, ends in found.items()} == {
        name: pytest.approx(ends) for name, ends in result.metrics["test_interval_95"].items()
    }


def test_a_model_in_memory_scores_all_rows_of_a_table(coloured):
    """Its run is not known, so a random tenth of the table would have no meaning."""
    config, result = coloured
    expected = evaluate(result.folder, config.data, "all").scores
    unsplit = config.data.model_copy(update={"split": None})
    for data in (config.data, unsplit):
        found = evaluate(result.model, data)
        assert (found.split, found.molecules) == ("all", 30)
        assert found.scores == pytest.approx(expected, nan_ok=True)
        assert found.leak == "the model is trained on 12 of these molecules"
    with pytest.raises(ConfigError, match="data.split: null .* no split 'val': set data.spl"):
        evaluate(result.model, unsplit, "val")


def test_scores_of_training_molecules_have_a_warning(coloured, tmp_path):
    """Those of all rows of the table, too, and of another table that writes them in another way."""
    config, result = coloured
    found = {split: evaluate(result.folder, config.data, split).leak for split in SPLITS}
    assert found == {
        "train": "the model is trained on these molecules",
        "val": None,
        "test": None,
        "all": "the model is trained on some of these molecules",
    }
    other = _new_table(tmp_path / "new.csv", [("CCSSC", 1, 1, "red"), ("CSSC", 0, 1, "blue")])
    assert evaluate(result.folder, other).leak is None
    copied = config.data.model_copy(update={"table": tmp_path / "copy.csv"})
    rows = rows_of(config.data.table)
    for row in rows:
        row["smiles"] = f"[CH3]{row['smiles'][1:]}"  # the first atom has one neighbour
    _new_table(copied.table, [[*row.values()] for row in rows])
    count = len(result.model.training_molecules().smiles)
    found = evaluate(result.folder, copied).leak
    assert found == f"the model is trained on {count} of these molecules"


def test_scores_that_training_called_too_optimistic_have_a_warning(coloured, tmp_path):
    config, result = coloured
    copied = shutil.copytree(result.folder, tmp_path / "run")
    metrics = {**result.metrics, "molecules_in_several_splits": 2}
    (copied / "metrics.json").write_text(json.dumps(metrics))
    for split in ("val", "test"):
        leak = evaluate(copied, config.data, split).leak
        assert "2 molecules are in more than one split" in leak


def _new_table(path, rows, header="smiles,y,a,c"):
    return DataConfig(table=write_rows(path, header.split(","), *rows))


@pytest.mark.parametrize(
    ("name", "value"), [("limits", {"y": (None, 0.5)}), ("missing_values", ["2"]), ("decimal", ",")]
)
def test_the_table_of_a_run_is_not_read_in_another_way(coloured, name, value):
    config, result = coloured
    data = config.data.model_copy(update={name: value})
    with pytest.raises(ConfigError, match=f"was trained on this table with data.{name} "):
        evaluate(result.folder, data)


def test_another_table_is_read_with_the_models_classes(coloured, tmp_path):
    """It may lack classes, have other proportions, or class names that look like numbers."""
    _, result = coloured
    rows = [("CCO", 1, 1, "red"), ("CCN", 0, 1, "red"), ("CCCl", 1, 1, "")]
    found = evaluate(result.folder, _new_table(tmp_path / "new.csv", rows))
    assert (found.split, found.molecules) == ("all", 3)
    assert of_targets(found.dataset, "kind") == ("regression", "binary", "multiclass")
    assert of_targets(found.dataset, "classes") == ((), (), ("blue", "green", "red"))
    assert 0 <= found.scores["accuracy/c"] <= 1
    assert np.isnan(found.scores["roc_auc"])


WAYS = {
    "column": {"data.splits_column": "part"},
    "folds": {"data.folds": 4, "data.fold": 2},
}
PARTS = ["train"] * 5 + ["", "valid", "TEST", "training", "test"]


@pytest.mark.parametrize("way", WAYS)
def test_the_splits_file_of_a_run_reproduces_it_exactly(with_columns, tmp_path, way):
    """For every kind of split; `evaluate` finds the split of the run for its own table, in
    the copy of its folder."""
    columns = {"y": NUMBERS, "part": PARTS}
    first = with_columns(columns, {"data.targets": ["y"], "run.epochs": 2, **WAYS[way]})
    result = train(first, tmp_path / "first")
    splits = split_rows(tmp_path / "first")
    if way == "column":
        said = {"val": [6], "test": [7, 9], "train": [*range(5), 8]}
        for name, rows in said.items():
            assert splits[name] == sorted(ten + row for ten in (0, 10, 20) for row in rows)
        every = evaluate(result.folder, DataConfig(table=first.data.table), "all")
        assert every.molecules == 30 > sum(map(len, splits.values()))
    file = tmp_path / "splits.json"
    file.write_text((tmp_path / "first" / "splits.json").read_text())
    again = {"data.splits_file": file, "run.epochs": 2}
    train(with_columns(columns, {"data.targets": ["y"], **again}), tmp_path / "again")
    file.unlink()
    found = [outcome(tmp_path / name) for name in ("again", "first")]
    assert found[0]["metrics"].pop("split") == "split of a file"
    del found[1]["metrics"]["split"]
    assert found[0] == found[1]
    assert split_rows(tmp_path / "again") == splits
    for folder in ("first", "again"):
        found = evaluate(tmp_path / folder, DataConfig(table=first.data.table))
        assert (found.split, found.molecules) == ("test", len(splits["test"]))
        assert found.scores == pytest.approx(result.metrics["test"], nan_ok=True)


def test_a_data_sets_own_evaluator_replaces_the_score_of_its_metric(coloured):
    """Other metrics do not change."""
    config, result = coloured
    found = evaluate(result.folder, config.data, "test")
    labels = found.dataset.labels[found.dataset.splits["test"]]
    predictions = np.full((len(labels), result.model.task.outputs), 0.25)
    plain = dataset_scores(found.dataset, result.model.task, predictions, labels)
    given = []

    def official(*both):
        given.append(both)
        return 0.125

    theirs = replace(found.dataset, metric="roc_auc", evaluator=official)
    scores = dataset_scores(theirs, result.model.task, predictions, labels)
    assert scores == pytest.approx({**plain, "roc_auc": 0.125}, nan_ok=True)
    ((asked, about),) = given
    assert asked is predictions
    assert about is labels


def test_targets_without_labels_are_not_scored(coloured, tmp_path):
    """The column may be empty or missing. A table needs labels of at least one target."""
    _, result = coloured
    rows = [("CCO", 1, ""), ("CCN", 0, "")]
    found = evaluate(result.folder, _new_table(tmp_path / "new.csv", rows, "smiles,y,a"))
    assert found.dataset.warnings[-1] == "Not scored: a, c, since no row has a label."
    assert found.scores["mae"] >= 0 and np.isnan(found.scores["accuracy/a"])
    data = _new_table(tmp_path / "none.csv", rows, "smiles,Y,a")
    with pytest.raises(DataError, match="none.csv has no label of y, a, c, the targets of the mod"):
        evaluate(result.folder, data)


def test_predictions_that_are_not_finite_are_counted(coloured, tmp_path):
    """Their target has no scores; the scores of other targets stay."""
    config, result = coloured
    good = evaluate(result.folder, config.data)
    model = PropertyModel.from_pretrained(result.folder)
    with torch.no_grad():
        model.network.head.weight[1] = 3e38  # of a: its output overflows for most molecules
    copied = shutil.copytree(result.folder, tmp_path / "run")
    model.save_pretrained(copied / "model")
    found = evaluate(copied, config.data)
    assert good.not_finite == 0 < found.not_finite <= found.molecules
    assert np.isnan(found.scores["accuracy/a"]) and np.isnan(found.scores["accuracy"])
    for name in ("mae", "accuracy/c"):
        assert found.scores[name] == good.scores[name]
