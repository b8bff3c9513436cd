"""`train` and `evaluate` as a caller uses them: the run folder, its files, and the errors."""

from __future__ import annotations

import csv
import gzip
import json
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk
from support import set_zinc_sizes

from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, DataError, ModelError, StorageError
from molsepnorm.model import PropertyModel
from molsepnorm.predict import Predictor
from molsepnorm.training import StopWhen, evaluate, load_config, train
from molsepnorm.training.distributed import DistributedContext

ONE = {"run.epochs": 1}
FILES = {
    "config.yaml",
    "environment.json",
    "splits.json",
    "history.csv",
    "metrics.json",
    "predictions_train.csv",
    "predictions_val.csv",
    "predictions_test.csv",
    "rejected.csv",
    "report.html",
    "targets.csv",
    "model",
    "model/README.md",
    "model/config.json",
    "model/model.safetensors",
    "model/training_molecules.safetensors",
    "checkpoints",
    "checkpoints/last.safetensors",
}


def _rows(path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def run(configure, tmp_path, table):
    """A finished run with both targets, on a table with two invalid rows."""
    lines = table.read_text().splitlines()
    lines[3], lines[10] = "C1CC,1,1", '"not, a molecule",1,1'
    table.write_text("\n".join(lines) + "\n")
    config = configure({"data.targets": ["y", "active"], "data.split": [0.5, 0.25, 0.25]})
    return config, train(config, tmp_path / "run")


def test_the_folder_has_exactly_the_documented_files(run, tree):
    _, result = run
    assert set(tree(result.folder)) == FILES


def test_the_splits_contain_all_valid_rows(run):
    """In chemprop's format; rejected.csv has the other rows with the reasons."""
    _, result = run
    (splits,) = json.loads((result.folder / "splits.json").read_text())
    assert list(splits) == ["train", "val", "test"]
    rejected = _rows(result.folder / "rejected.csv")
    assert [row["smiles"] for row in rejected] == ["C1CC", "not, a molecule"]
    assert all(row["reason"] for row in rejected)
    rows = [
        *(row for part in splits.values() for row in part),
        *(int(r["line"]) - 2 for r in rejected),
    ]
    assert sorted(rows) == list(range(30))
    assert [len(part) for part in splits.values()] == [14, 7, 7]


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_predictions_are_written_with_their_labels(run, table, split):
    """In the order of the table; missing labels are empty."""
    _, result = run
    (splits,) = json.loads((result.folder / "splits.json").read_text())
    source, predictions = _rows(table), _rows(result.folder / f"predictions_{split}.csv")
    assert [int(row["line"]) - 2 for row in predictions] == splits[split]
    for row in predictions:
        origin = source[int(row["line"]) - 2]
        assert row["smiles"] == origin["smiles"]
        for target in ("y", "active"):
            assert (row[target] == "") == (origin[target] == "")
            if row[target]:
                assert float(row[target]) == pytest.approx(float(origin[target]), rel=1e-6)
        assert 0 <= float(row["active_pred"]) <= 1


def test_the_scores_can_be_computed_from_the_predictions(run):
    """With scikit-learn, from the file alone."""
    _, result = run
    test = json.loads((result.folder / "metrics.json").read_text())["test"]
    rows = _rows(result.folder / "predictions_test.csv")
    y = [(float(row["y"]), float(row["y_pred"])) for row in rows if row["y"]]
    assert test["mae"] == pytest.approx(sk.mean_absolute_error(*zip(*y, strict=True)), rel=1e-5)
    assert test["rmse"] == pytest.approx(
        sk.mean_squared_error(*zip(*y, strict=True)) ** 0.5, rel=1e-5
    )
    active = [(float(r["active"]), float(r["active_pred"])) for r in rows if r["active"]]
    assert test["roc_auc"] == pytest.approx(sk.roc_auc_score(*zip(*active, strict=True)))


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_the_predictions_equal_those_of_predictor(run, split):
    """From the model folder and SMILES alone."""
    _, result = run
    rows = _rows(result.folder / f"predictions_{split}.csv")
    predictions = Predictor.from_pretrained(result.folder).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, predictions, strict=True):
        for target in ("y", "active"):
            assert prediction.values[target] == pytest.approx(
                float(row[f"{target}_pred"]), rel=1e-5, abs=1e-6
            )


def test_metrics_describe_the_run(run):
    """They are equal to those that `train` returns."""
    _, result = run
    written = json.loads((result.folder / "metrics.json").read_text())
    assert written == result.metrics
    assert (written["epochs"], written["steps"], written["seed"]) == (3, 6, 0)
    assert 1 <= written["best_epoch"] <= 3
    assert written["data"] == "data.csv"
    assert written["parameters"] == sum(p.numel() for p in result.model.network.parameters())
    assert result.finished


def test_the_history_has_a_line_for_every_epoch(run):
    """Its values are consistent."""
    _, result = run
    rows = _rows(result.folder / "history.csv")
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [row["step"] for row in rows] == ["2", "4", "6"]
    best = [int(row["epoch"]) for row in rows if row["best"] == "1"]
    assert best[0] == 1
    assert best[-1] == result.metrics["best_epoch"]
    for row in rows:
        assert float(row["val_loss"]) > 0
        assert float(row["seconds"]) > 0
    kept = rows[result.metrics["best_epoch"] - 1]
    assert result.metrics["val"]["mae"] == pytest.approx(float(kept["val_mae"]), rel=1e-5)


def test_the_saved_configuration_reproduces_the_run(run, tmp_path):
    config, result = run
    assert load_config(config=result.folder / "config.yaml") == config
    again = train(load_config(config=result.folder / "config.yaml"), tmp_path / "again")
    assert again.metrics["test"] == result.metrics["test"]


def test_the_environment_is_recorded(run):
    _, result = run
    told = json.loads((result.folder / "environment.json").read_text())
    assert {
        "molsepnorm",
        "python",
        "packages",
        "platform",
        "cores",
        "threads",
        "gpu",
        "command",
    } <= (set(told))
    assert told["packages"]["torch"][0].isdigit()


def test_a_target_without_validation_labels_still_trains(configure, tmp_path, table):
    """Its scores are null, so metrics.json is valid JSON."""
    first = train(configure({"data.targets": ["active"]}), tmp_path / "first")
    splits_file = first.folder / "splits.json"
    config = configure({"data.targets": ["active"], "data.splits_file": str(splits_file)})
    (splits,) = json.loads((first.folder / "splits.json").read_text())
    lines = table.read_text().splitlines()
    for row in (*splits["val"], *splits["test"]):
        lines[row + 1] = lines[row + 1].rpartition(",")[0] + ","
    table.write_text("\n".join(lines) + "\n")
    result = train(config, tmp_path / "second")
    metrics = json.loads((result.folder / "metrics.json").read_text())
    assert metrics["test"].keys() >= {"roc_auc", "pr_auc", "accuracy", "log_loss"}
    assert set(metrics["test"].values()) == set(metrics["val"].values()) == {None}
    assert metrics["test_interval_95"] == {}
    assert metrics["chosen_by"] == "loss"


def test_a_folder_that_is_not_empty_is_refused(configure, tmp_path, tree):
    """It is not changed."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="run exists and is not empty: choose another folder"):
        train(configure(), tmp_path / "run")
    assert tree(tmp_path / "run") == {"notes.txt": b"mine"}


def test_the_message_offers_resuming_only_for_a_run(configure, tmp_path):
    """A folder with other files is not a run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError) as caught:
        train(configure(), tmp_path / "run")
    assert "--resume" not in str(caught.value)


@pytest.mark.parametrize("killed", ["Trainer.save", "RunFolder.begin"])
def test_a_run_without_a_checkpoint_is_started_anew(
    configure, tmp_path, monkeypatch, outcome, killed
):
    """Files of a run that was killed before its first checkpoint are overwritten."""
    from molsepnorm.training import loop
    from molsepnorm.training.run_folder import folder

    config = configure({"run.epochs": 1})
    train(config, tmp_path / "whole")

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if killed == "Trainer.save":
            patch.setattr(loop.Trainer, "save", stop)
        else:
            patch.setattr(folder, "_splits", stop)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "run")
    assert (tmp_path / "run" / "config.yaml").exists()
    with pytest.raises(ModelError, match="not a run that can be resumed"):
        train(folder=tmp_path / "run", resume=True)
    assert train(config, tmp_path / "run").finished
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_folder_with_a_configuration_alone_is_refused(configure, tmp_path, tree):
    """It may be the user's own configuration."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("# mine")
    with pytest.raises(ConfigError, match="run exists and is not empty"):
        train(configure(), tmp_path / "run")
    assert tree(tmp_path / "run") == {"config.yaml": b"# mine"}


def test_an_empty_folder_is_accepted(configure, tmp_path):
    (tmp_path / "run").mkdir()
    assert train(configure({"run.epochs": 1}), tmp_path / "run").finished


def test_a_folder_below_a_file_is_refused(configure, tmp_path, table):
    for place in (table, table / "run"):
        with pytest.raises(StorageError, match=f"cannot write {place}"):
            train(configure({"run.epochs": 1}), place)


def test_the_error_without_a_configuration_names_load_config(tmp_path):
    with pytest.raises(ConfigError, match=r"load_config\('zinc'\) makes one"):
        train(folder=tmp_path / "run")


@pytest.mark.parametrize("what", ["missing", "empty", "no checkpoint"])
def test_resuming_needs_a_run(configure, tmp_path, what):
    folder = tmp_path / "run"
    if what != "missing":
        folder.mkdir()
    if what == "no checkpoint":
        configure().save(folder / "config.yaml")
    with pytest.raises(
        ModelError, match="run is not a run that can be resumed: it needs config.yaml"
    ):
        train(folder=folder, resume=True)


def test_resuming_a_finished_run_returns_its_results(run, tree):
    """No file changes."""
    _, result = run
    before = tree(result.folder)
    again = train(folder=result.folder, resume=True)
    assert again.finished
    assert again.metrics == result.metrics
    assert tree(result.folder) == before


@pytest.mark.parametrize("change", ["row", "label", "smiles", "row gone"])
def test_a_run_does_not_resume_with_changed_data(configure, tmp_path, table, change):
    """Even if only a label was corrected and the number of rows is the same."""
    train(configure(), tmp_path / "run", callback=StopWhen(lambda: True))
    lines = table.read_text().splitlines()
    if change == "row":
        lines.append("CCCCCCCCO,3.5,1")
    elif change == "row gone":
        del lines[-1]
    elif change == "label":
        lines[1] = "CO,7.5,0"
    else:
        lines[1] = lines[1].replace("CO", "CS")
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="no longer those that .*run began with"):
        train(folder=tmp_path / "run", resume=True)


def test_a_run_resumes_from_any_working_directory(configure, tmp_path, table, monkeypatch):
    """Although its table was given as a relative path."""
    monkeypatch.chdir(tmp_path)
    config = configure({"data.table": "data.csv", "run.epochs": 1})
    train(config, "run", callback=StopWhen(lambda: True))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert train(folder=tmp_path / "run", resume=True).finished


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_checkpoint_is_refused(configure, tmp_path, damage):
    train(configure(), tmp_path / "run", callback=StopWhen(lambda: True))
    path = tmp_path / "run" / "checkpoints" / "last.safetensors"
    path.write_bytes(path.read_bytes()[:-100] if damage == "cut" else b"no checkpoint")
    with pytest.raises(ModelError, match="last.safetensors is damaged or belongs to another"):
        train(folder=tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", ["config.yaml", "splits.json"])
def test_a_damaged_file_of_the_folder_is_named(configure, tmp_path, name):
    train(configure(), tmp_path / "run", callback=StopWhen(lambda: True))
    (tmp_path / "run" / name).write_text("{")
    with pytest.raises((ConfigError, ModelError, DataError), match=name):
        train(folder=tmp_path / "run", resume=True)


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "gpu", "tpu"])
def test_an_unavailable_device_is_refused_before_any_work(configure, tmp_path, device):
    """The message lists the available devices."""
    import torch

    if device.startswith("cuda") and torch.cuda.is_available() and device != "cuda:7":
        pytest.skip("there is a GPU here")
    with pytest.raises(ConfigError, match=f"{device}.*cpu"):
        train(configure({"run.device": device}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_evaluation_gives_the_scores_of_the_run(run):
    """On each split; "all" includes every valid molecule."""
    config, result = run
    for split in ("val", "test"):
        dataset, *_, scores = evaluate(result.model, config.data, split)
        assert scores == pytest.approx(result.metrics[split], nan_ok=True)
    dataset, *_, scores = evaluate(result.model, config.data, "all")
    labels = dataset.labels[:, 0]
    texts = [dataset.smiles[row] for row in dataset.store.rows]
    predicted = [p.values["y"] for p in Predictor(result.model).predict(texts)]
    expected = np.nanmean(np.abs(labels - np.array(predicted)))
    assert scores["mae"] == pytest.approx(expected, rel=1e-4)


def test_evaluation_refuses_an_unknown_split(run):
    config, result = run
    with pytest.raises(
        ConfigError, match="unknown split 'tset': choose one of train, val, test, all"
    ):
        evaluate(result.model, config.data, "tset")


def test_evaluation_refuses_other_targets(run, table):
    config, result = run
    with pytest.raises(ConfigError, match="the model predicts y, active, and the data have active"):
        evaluate(result.model, config.data.model_copy(update={"targets": ["active"]}))


def test_evaluation_refuses_a_data_set_of_other_features(configure, tmp_path):
    """Before it is loaded."""
    result = train(configure({"data.featurizer": "ogb", "run.epochs": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="reads 'ogb' features and zinc has 'zinc' features"):
        evaluate(result.model, DataConfig(dataset="zinc"))


def test_evaluation_of_a_table_uses_the_features_of_the_model(run, table):
    config, result = run
    assert result.model.featurizer == "zinc"
    other = DataConfig(table=table, featurizer="ogb", split=config.data.split)
    *_, scores = evaluate(result.model, other, "test")
    assert scores == pytest.approx(result.metrics["test"], nan_ok=True)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_split_all_works_on_a_few_molecules(run, tmp_path, rows):
    _, result = run
    lines = ["smiles,y,active", "CCO,1.5,1", "CCN,0.5,0", "CCCl,1,1"][: rows + 1]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    dataset, *_, scores = evaluate(result.model, DataConfig(table=tmp_path / "new.csv"), "all")
    assert len(dataset.store) == rows
    assert np.isfinite(scores["mae"])


def test_numbers_for_a_binary_target_are_refused(run, tmp_path):
    _, result = run
    text = "smiles,y,active\n" + "".join(f"{'C' * i},1,{i % 3}\n" for i in range(1, 20))
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises((DataError, ConfigError), match="active"):
        evaluate(result.model, DataConfig(table=tmp_path / "new.csv"), "all")


def test_evaluation_of_a_run_folder_uses_the_split_of_the_run(run, table):
    """A changed table is refused."""
    _, result = run
    found = evaluate(result.folder, DataConfig(table=table))
    assert (found.split, found.molecules) == (
        "test",
        len(_rows(result.folder / "predictions_test.csv")),
    )
    assert found.scores == pytest.approx(result.metrics["test"], nan_ok=True)
    table.write_text(table.read_text().replace("CCN,", "CCNC,"))
    with pytest.raises(DataError, match="no longer those"):
        evaluate(result.folder, DataConfig(table=table), "val")


def test_evaluation_of_a_run_folder_on_other_data(run, configure, table, tmp_path, monkeypatch):
    """All rows of another table are scored; a data set has its own split."""
    _, result = run
    other = tmp_path / "other.csv"
    other.write_text(table.read_text())
    found = evaluate(result.folder, DataConfig(table=other))
    assert (found.split, found.molecules) == ("all", len(found.dataset.store))
    with pytest.raises(ConfigError, match="has no split 'test': the model was not trained on this"):
        evaluate(result.folder, DataConfig(table=other), "test")

    table.write_text(table.read_text().replace("smiles,y,", "smiles,penalised_logp,"))
    renamed = configure({"data.targets": ["penalised_logp"], "run.epochs": 1})
    folder = train(renamed, tmp_path / "renamed").folder
    (tmp_path / "zinc").mkdir()
    set_zinc_sizes(monkeypatch, (2, 1, 2))
    for name, rows in (("train", "CC,1\nCO,2\n"), ("val", "CN,3\n"), ("test", "CCC,4\nCCO,5\n")):
        with gzip.open(tmp_path / "zinc" / f"{name}.csv.gz", "wt") as file:
            file.write(f"smiles,y\n{rows}")
    found = evaluate(folder, DataConfig(dataset="zinc-full", data_dir=tmp_path))
    assert (found.split, found.molecules) == ("test", 2)


def test_evaluation_loads_a_model_from_its_folder(run):
    config, result = run
    *_, scores = evaluate(PropertyModel.from_pretrained(result.folder), config.data, "test")
    assert scores == pytest.approx(result.metrics["test"], nan_ok=True)


def _pipe(content: bytes) -> Path:
    """Return a pipe like that of a shell's <(…); it stays open."""
    read, end = os.pipe()
    os.write(end, content)
    os.close(end)
    return Path(f"/dev/fd/{read}")


def test_a_run_on_a_pipe_resumes_only_from_a_file(configure, table, tmp_path):
    """The result is the same."""
    expected = train(configure(ONE), tmp_path / "expected").metrics["test"]
    settings = {**ONE, "data.table": _pipe(table.read_bytes())}
    stopped = train(configure(settings), tmp_path / "run", callback=StopWhen(lambda: True))
    assert not stopped.finished
    with pytest.raises(ConfigError, match="run began with data from a pipe, /dev/fd/.*resume once"):
        train(folder=tmp_path / "run", resume=True)
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(settings["data.table"]), str(table)))
    assert train(folder=tmp_path / "run", resume=True).metrics["test"] == expected


def test_a_run_with_a_splits_file_from_a_pipe_does_not_resume(configure, tmp_path):
    split = json.dumps([{"train": "0-19", "val": "20-24", "test": "25-29"}]).encode()
    settings = {**ONE, "data.splits_file": _pipe(split)}
    assert not train(
        configure(settings), tmp_path / "run", callback=StopWhen(lambda: True)
    ).finished
    with pytest.raises(ConfigError, match="set data.splits_file to its path"):
        train(folder=tmp_path / "run", resume=True)


def test_several_processes_cannot_share_a_pipe(configure, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "molsepnorm.training.run.DistributedContext.join",
        lambda _: nullcontext(DistributedContext(0, 2)),
    )
    monkeypatch.setattr(DistributedContext, "on_main_process", lambda self, action: action())
    with pytest.raises(ConfigError, match="/dev/fd/.* is a pipe, and each of the 2 processes"):
        train(configure({"data.table": _pipe(b"smiles,y\n")}), tmp_path / "run")
