"""The files of a run folder: history and what `--resume` checks."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest

from molsepnorm.data.datasets import load
from molsepnorm.data.legacy import legacy_fingerprints
from molsepnorm.errors import DataError, ModelError
from molsepnorm.model import encoding_of
from molsepnorm.training import train
from molsepnorm.training.architecture import architecture
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.folder import RunFolder

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in its third epoch; the tests change copies of it."""
    return tmp_path_factory.mktemp("stopped")


@pytest.fixture
def resumable(stopped, configure, stop_at, tmp_path):
    """A copy of the stopped run."""
    config = configure({"run.epochs": 3})
    if not (stopped / "run").exists():
        train(config, stopped / "run", callback=stop_at(7))
    run = tmp_path / "run"
    shutil.copytree(stopped / "run", run)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub("table: .*", f"table: {config.data.table}", text))
    return run


METRICS = (
    b'{"data": "x", "chosen_by": "mae", "best_epoch": 1, "epochs": 2, "parameters": 1, '
    b'"seconds": 1.5, "val": {"mae": 1.0}, %s}'
)
NO_DATA = "environment.json is damaged"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("environment.json", b"", NO_DATA),
        ("environment.json", b"[]", NO_DATA),
        ("environment.json", b'{"data": 3}', NO_DATA),
        ("environment.json", b"[" * 200_000, NO_DATA),
        ("splits.json", b"{}", "splits.json is damaged: "),
        ("splits.json", b'[{"train": ["1"]}]', r"splits.json is damaged: 0\.train\.0: "),
        ("splits.json", b'[{"train": [1', "splits.json is damaged: "),
        ("metrics.json", b"[]", "metrics.json is damaged: "),
        *(
            ("metrics.json", METRICS % entry, f"metrics.json is damaged: {where}")
            for entry, where in (
                (b'"test": {"mae": 1%s}' % (b"0" * 400), "test.mae: .*finite number"),
                (b'"test": {"mae": NaN}', "test.mae: .*finite number; got nan"),
                (
                    b'"test": {}, "test_interval_95": true',
                    "test_interval_95: Input should be an object",
                ),
                (b'"test": {}, "test_interval_95": {"mae": [1]}', "test_interval_95.mae.1: "),
                (b'"test": {}', "val and test must have the same scores"),
                (b'"test": {}, "test_constant": {"mae": "x"}', "test_constant.mae: "),
            )
        ),
        ("metrics.json", b'{"data": "x", "val": {"mae": "0.1"}}', "metrics.json is damaged: "),
    ],
)
def test_resuming_names_a_damaged_file(resumable, name, text, message):
    (resumable / name).write_bytes(text)
    with pytest.raises(ModelError, match=message) as caught:
        train(folder=resumable, resume=True)
    assert str(resumable / name) in str(caught.value)


OTHER_HISTORIES = [
    None,
    b"",
    b"epoch,step\n1,2\n",
    b"epoch\n1" + b"0" * 5000 + b"\n",
    b"\xff\xfe",
]


@pytest.mark.parametrize("text", [*OTHER_HISTORIES, "without a line in the middle"])
def test_a_resumed_run_has_all_its_history(resumable, rows_of, text):
    """It is in the checkpoint, even if the file was changed."""
    path = resumable / "history.csv"
    before = path.read_bytes()
    if text is None:
        path.unlink()
    else:
        lines = before.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[::2]) if isinstance(text, str) else text)
    assert train(folder=resumable, resume=True).finished
    assert path.read_bytes().startswith(before)
    assert [row["epoch"] for row in rows_of(path)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "text",
    [
        b"epoch,step\none,2\n",
        b"step\n2\n",
        b"epoch,step\n1,2,3\n",
        b"epoch,other\n1,1\n",
        b"\xff\xfe",
        b"epoch\n1" + b"0" * 5000 + b"\n",
    ],
)
def test_a_history_that_is_damaged_while_training_is_refused(tmp_path, text):
    run = RunFolder(tmp_path)
    run.history.write_bytes(text)
    record = EpochRecord(3, 9, 0.1, 1.0, 1.0, {"mae": 1.0}, 1.0, 1.0, best=True)
    with pytest.raises(ModelError, match="history.csv is damaged: .*Remove the file, and resume"):
        run.append_history(record)
    assert run.history.read_bytes() == text


def test_a_history_without_the_column_threads_is_continued(resumable, rows_of):
    path = resumable / "history.csv"
    run = RunFolder(resumable)
    lines = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    assert path.read_text().startswith(f"{lines[0]},threads\n")
    path.write_text("\n".join(lines))
    columns = lines[0].split(",")
    names = [each[4:] for each in columns if each.startswith("val_") and each != "val_loss"]
    scores = dict.fromkeys(names, 1.0)
    run.append_history(EpochRecord(9, 9, 0.1, 1.0, 1.0, scores, 1.0, 1.0, True, threads=2))
    *old, new = [row["threads"] for row in rows_of(path)]
    assert set(old) == {""} and new == "2"


def test_changed_data_or_splits_are_not_called_damage(configure, stop_at, tmp_path):
    run = tmp_path / "run"
    train(configure(), run, callback=stop_at(2))
    splits, environment = (run / "splits.json").read_text(), (run / "environment.json").read_text()
    (run / "splits.json").write_text('[{"train": [0], "val": [1], "test": [2]}]')
    with pytest.raises(DataError, match="that .*run began with or have another split: restore"):
        train(folder=run, resume=True)
    (run / "splits.json").write_text(splits)
    (run / "environment.json").write_text(re.sub('"data": ".*"', '"data": "0"', environment))
    with pytest.raises(
        DataError, match="the data are no longer those that .*run began with: restore"
    ):
        train(folder=run, resume=True)
    (run / "environment.json").write_text(environment)
    assert train(folder=run, resume=True).finished


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_of_an_earlier_version_resumes(with_columns, stop_at, tmp_path, weighted, number):
    """Its environment.json has one of two earlier fingerprints of the data."""
    settings = {"data.weight_column": "w"} if weighted else {"data.ignore_columns": ["w"]}
    columns = {"y": NUMBERS, "w": [1, 2, 3]}
    config = with_columns(columns, {"data.targets": ["y"], **settings})
    run = tmp_path / "run"
    train(config, run, callback=stop_at(2))
    earlier = legacy_fingerprints(load(config.data, encoding_of(architecture(config))))[number]
    environment = json.loads((run / "environment.json").read_text())
    assert environment["data"] != earlier
    (run / "environment.json").write_text(json.dumps({**environment, "data": earlier}))
    assert train(folder=run, resume=True).finished


def test_carriage_returns_do_not_split_rows(with_columns, tmp_path):
    """In rejected rows and in class names."""
    words = ["sweet\ror sour", "bitter"] * 4
    config = with_columns({"taste": words}, {"data.targets": ["taste"], "run.epochs": 1})
    with open(config.data.table, "ab") as file:
        file.write(b'"C1CC\rx",bitter\r\n')
    train(config, tmp_path / "run")
    rejected = pd.read_csv(tmp_path / "run" / "rejected.csv")
    assert rejected["smiles"].tolist() == ["C1CC\rx"]
    predicted = pd.read_csv(tmp_path / "run" / "predictions_test.csv")
    assert set(predicted["taste"]) <= set(words)
    assert predicted["line"].dtype.kind == "i"


def test_many_training_molecules_have_no_predictions(configure, tmp_path, monkeypatch):
    monkeypatch.setattr("molsepnorm.training.objectives.supervised.MAX_TRAINING", 23)
    run = train(configure({"run.epochs": 1}), tmp_path / "run").folder
    assert len(json.loads((run / "splits.json").read_text())[0]["train"]) == 24
    assert not (run / "predictions_train.csv").exists()
    assert (run / "predictions_val.csv").exists()
