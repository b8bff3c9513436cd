"""Runs without a test split and without scores: on all rows of a table (`--split 0.9,0.1,0`), or on
splits that name no test rows."""

from __future__ import annotations

import json

import pytest

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.training import evaluate, load_config, train, train_replicates
from molsepnorm.training.report import write_report
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.tuning import tune

ALL = {"data.split": [0.9, 0.1, 0], "run.epochs": 1}


def require_test_split(config, folder):
    """Check that runs which are compared by their test scores do not start."""
    for start in (
        lambda: train(config.changed({"run.ensemble": 2}), folder),
        lambda: train_replicates(config, folder, seeds=[0]),
        lambda: tune(config, folder, trials=1),
    ):
        with pytest.raises(ConfigError, match="is scored on a test split"):
            start()
    assert not RunFolder(folder).has_begun


@pytest.mark.parametrize("split_type", ["random", "scaffold"])
def test_every_row_with_a_label_is_for_training_or_validation(configure, tmp_path, split_type):
    train(configure({**ALL, "data.split_type": split_type}), tmp_path / "run")
    (splits,) = json.loads((tmp_path / "run" / "splits.json").read_text())
    assert splits["test"] == []
    assert sorted([*splits["train"], *splits["val"]]) == [row for row in range(30) if row != 3]
    assert len(splits["val"]) == (5 if split_type.startswith("scaffold") else 3)  # five have a ring


def test_such_a_run_has_validation_scores_only(configure, tmp_path):
    config = configure({**ALL, "data.split_type": "random"})
    result = train(config, tmp_path / "run")
    assert result.finished and result.metrics == {}
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found.keys() >= {"kept_epoch", "epochs", "seconds", "val"}
    assert not [name for name in found if name.startswith("test")]
    with pytest.raises(ModelError, match="no test scores"):
        write_report(tmp_path / "run")


@pytest.mark.parametrize("way", ["column", "file"])
def test_splits_that_name_no_test_rows_give_the_run_of_a_test_share_of_0(
    table, configure, tmp_path, way
):
    drawn = train(configure(ALL), tmp_path / "drawn")
    splits = tmp_path / "drawn" / "splits.json"
    settings = {"run.epochs": 1, "data.splits_file": str(splits)}
    if way == "column":
        (rows,) = json.loads(splits.read_text())
        of_row = {str(row): name for name, part in rows.items() for row in part}
        header, *lines = table.read_text().splitlines()
        lines = [f"{line},{of_row.get(str(row), '')}" for row, line in enumerate(lines)]
        table.write_text("\n".join([f"{header},part", *lines]) + "\n")
        settings = {"run.epochs": 1, "data.splits_column": "part"}
    named = train(configure(settings), tmp_path / "named")
    assert named.metrics == {} and named.model.domain == drawn.model.domain
    assert named.model.calibration == drawn.model.calibration != ()
    found = [
        json.loads((tmp_path / each / "metrics.json").read_text()) for each in ("drawn", "named")
    ]
    assert found[0].keys() == found[1].keys() and found[0]["val"] == found[1]["val"]
    config = configure(settings)
    with pytest.raises(ConfigError, match="has no test split"):
        evaluate(tmp_path / "named", config.data)
    assert evaluate(tmp_path / "named", config.data, split="val").molecules == 3
    require_test_split(config, tmp_path / "run")


def test_the_second_fit_has_all_labels_and_its_validation_scores_are_too_optimistic(
    configure, tmp_path
):
    train(configure({"data.targets": ["active"]}), tmp_path / "start")
    start = {"finetune.start": str(tmp_path / "start"), "run.blend": "none", "run.refit": True}
    config = configure({**ALL, **start})
    result = train(config, tmp_path / "run")
    assert len(result.model.training_molecules()) == 29  # one of 30 has no label
    with pytest.raises(ConfigError, match="has no test split: score another table"):
        evaluate(tmp_path / "run", config.data)
    assert "kernel regression" in evaluate(tmp_path / "run", config.data, split="val").leak


def test_what_needs_a_test_split_is_refused_before_training(configure, tmp_path):
    config = configure(ALL)
    require_test_split(config, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"data\.folds divides the rows outside the test split"):
        config.changed({"data.folds": 3})
    train(config.changed({"data.folds": 3, "data.test_set": False}), tmp_path / "fold")


@pytest.mark.parametrize("split", ["0.9,0,0.1", "0.8,0.3,-0.1"])
def test_only_the_test_share_may_be_0(table, split):
    with pytest.raises(ConfigError, match="three fractions that sum to 1"):
        load_config(table, overrides={"data.split": split})
