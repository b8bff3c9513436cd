"""`train` and `evaluate` as a caller uses them: the run folder, its files, and the errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.predict import Predictor
from molsepnorm.training import StopWhen, load_config, train
from runs import configured, rows_of, split_rows, write_table

ONE = {"run.epochs": 1}
FILES = {
    *("config.yaml", "environment.json", "splits.json", "history.csv", "metrics.json"),
    *("predictions_train.csv", "predictions_val.csv", "predictions_test.csv", "rejected.csv"),
    *("report.html", "targets.csv", "checkpoints", "checkpoints/last.safetensors"),
    *("model", "model/README.md", "model/config.json", "model/model.safetensors"),
    "model/training_molecules.gz",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run with both targets, on a table with two invalid rows."""
    folder = tmp_path_factory.mktemp("run")
    table = write_table(folder / "data.csv")
    lines = table.read_text().splitlines()
    lines[3], lines[10] = "C1CC,1,1", '"not, a molecule",1,1'
    table.write_text("\n".join(lines) + "\n")
    settings = {"data.targets": ["y", "active"], "data.split": [0.5, 0.25, 0.25]}
    config = configured(table, settings)
    return config, train(config, folder / "run")


def test_the_folder_has_exactly_the_documented_files(run, tree):
    _, result = run
    assert set(tree(result.folder)) == FILES


def test_the_splits_contain_all_validrows_of(run):
    """In chemprop's format; rejected.csv has the other rows with the reasons."""
    _, result = run
    splits = split_rows(result.folder)
    assert list(splits) == ["train", "val", "test"]
    rejected = rows_of(result.folder / "rejected.csv")
    assert [row["smiles"] for row in rejected] == ["C1CC", "not, a molecule"]
    assert all(row["reason"] for row in rejected)
    rows = [
        *(row for part in splits.values() for row in part),
        *(int(r["line"]) - 2 for r in rejected),
    ]
    assert sorted(rows) == list(range(30))
    assert [len(part) for part in splits.values()] == [14, 7, 7]


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_predictions_are_written_with_their_labels(run, split):
    """In the order of the table; missing labels are empty. `Predictor` makes the same ones from the
    model folder and SMILES alone."""
    config, result = run
    source, rows = rows_of(config.data.table), rows_of(result.folder / f"predictions_{split}.csv")
    assert [int(row["line"]) - 2 for row in rows] == split_rows(result.folder)[split]
    predictions = Predictor.from_pretrained(result.folder).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, predictions, strict=True):
        origin = source[int(row["line"]) - 2]
        assert row["smiles"] == origin["smiles"]
        for target in ("y", "active"):
            assert (row[target] == "") == (origin[target] == "")
            if row[target]:
                assert float(row[target]) == pytest.approx(float(origin[target]), rel=1e-6)
            predicted = float(row[f"{target}_pred"])
            assert prediction.values[target] == pytest.approx(predicted, rel=1e-5, abs=1e-6)
        assert 0 <= float(row["active_pred"]) <= 1


def test_the_saved_configuration_reproduces_the_run(run, tmp_path):
    config, result = run
    assert load_config(config=result.folder / "config.yaml") == config
    again = train(load_config(config=result.folder / "config.yaml"), tmp_path / "again")
    assert again.metrics["test"] == result.metrics["test"]


@pytest.mark.parametrize("change", ["label", "row gone"])
def test_a_run_does_not_resume_with_changed_data(configure, tmp_path, table, change):
    """Even if only a label was corrected and the number of rows is the same."""
    train(configure(), tmp_path / "run", callback=StopWhen(lambda: True))
    lines = table.read_text().splitlines()
    if change == "label":
        lines[1] = "CO,7.5,0"
    else:
        del lines[-1]
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="no longer those that .*run began with"):
        train(folder=tmp_path / "run", resume=True)


def test_a_run_refuses_a_pipe(configure, tmp_path):
    """A pipe is like that of a shell's <(…)."""
    read, end = os.pipe()
    with open(read), open(end, "w"):
        settings = {**ONE, "data.table": Path(f"/dev/fd/{read}")}
        with pytest.raises(ConfigError, match="is a pipe"):
            train(configure(settings), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
