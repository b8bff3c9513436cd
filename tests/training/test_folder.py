"""The files of a run folder: history and what `--resume` checks."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest

from molsepnorm.errors import ConfigError, DataError, ModelError, StorageError
from molsepnorm.model import PropertyModel
from molsepnorm.training import train
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run_folder.folder import RunFolder

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
                (b'"test": {"rmse": 1}', "val and test must have the same scores"),
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
    monkeypatch.setattr("molsepnorm.training.objectives.supervised.MAX_TRAINING", 22)
    run = train(configure({"run.epochs": 1}), tmp_path / "run").folder
    assert len(json.loads((run / "splits.json").read_text())[0]["train"]) == 23
    assert not (run / "predictions_train.csv").exists()
    assert (run / "predictions_val.csv").exists()


@pytest.fixture
def probed(configure, tmp_path):
    """A configuration with a probe: the run starts from a run on another target."""
    settings = {"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}
    start = train(configure(settings), tmp_path / "start").folder
    return configure({"finetune.start": str(start), "run.epochs": 1})


@pytest.fixture
def killed(probed, tmp_path, monkeypatch):
    """`killed("Trainer.save")`: the folder of a run that was killed where it calls this method."""

    def kill(method: str):
        owner = {"RunFolder": RunFolder, "Trainer": Trainer}[method.partition(".")[0]]
        with monkeypatch.context() as patch:
            patch.setattr(owner, method.partition(".")[2], _interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(probed, tmp_path / "run")
        return tmp_path / "run"

    return kill


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("method", "written"),
    [
        ("RunFolder.keep_best", {"checkpoints"}),
        ("RunFolder.append_history", {"checkpoints", "model"}),
        ("Trainer.save", {"checkpoints", "history.csv", "model"}),
    ],
)
def test_a_run_killed_before_its_first_checkpoint_is_started_anew(
    probed, killed, outcome, tmp_path, method, written
):
    """Also if its probe, epoch 0, is written."""
    whole, run = train(probed, tmp_path / "whole").folder, killed(method)
    present = {path.name for path in run.iterdir()}
    assert present & {"checkpoints", "history.csv", "model"} == written
    assert train(probed, run).finished
    assert outcome(run) == outcome(whole)


def test_a_run_started_anew_keeps_nothing_of_the_killed_one(
    configure, killed, tree, rows_of, stop_at, tmp_path
):
    """Without a probe it would have the old model, and once resumed the old probe."""
    config = configure({"run.epochs": 1})
    run = killed("Trainer.save")
    assert not train(config, run, callback=stop_at(1)).finished
    train(config, tmp_path / "other", callback=stop_at(1))
    assert tree(run).keys() == tree(tmp_path / "other").keys()
    assert train(folder=run, resume=True).finished
    assert [row["epoch"] for row in rows_of(run / "history.csv")] == ["1"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_run_killed_while_it_is_started_anew_is_started_once_more(
    probed, killed, monkeypatch, number
):
    """While the old model or the old probe is removed."""
    run, removed = killed("Trainer.save"), []

    def remove(path):
        if len(removed) == number:
            (path / "model.safetensors").unlink()
            raise KeyboardInterrupt
        removed.append(path.name)
        rmtree(path)

    rmtree = shutil.rmtree
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove)
        with pytest.raises(KeyboardInterrupt):
            train(probed, run)
    assert removed == ["model"][:number]
    assert train(probed, run).finished


@pytest.mark.parametrize(
    ("added", "removed"),
    [
        ("checkpoints/last.safetensors", ""),
        ("members/1", ""),
        ("metrics.json", ""),
        ("notes.txt", ""),
        ("model/README.md", ""),
        ("history.csv", ""),
        ("", "config.yaml"),
        ("", "environment.json"),
        ("", "rejected.csv"),
        ("", "checkpoints/probe"),
    ],
)
def test_only_epoch_0_of_a_killed_run_is_overwritten(
    probed, killed, tree, tmp_path, added, removed
):
    """Not a run with a checkpoint, a longer or a finished one, or a model without its run."""
    run = killed("Trainer.save")
    RunFolder(run).require_new()
    if added:
        (run / added).parent.mkdir(exist_ok=True)
        with open(run / added, "a") as file:
            file.write("1,5,0.1\n")
    if removed:
        (run / removed).rename(tmp_path / "removed")
    before = tree(run)
    with pytest.raises(ConfigError, match="run exists and is not empty: choose another folder"):
        train(probed, run)
    assert tree(run) == before


def test_a_model_folder_with_other_files_is_kept(probed, killed, tree):
    run = killed("Trainer.save")
    (run / "model" / "notes.txt").write_text("mine")
    before = tree(run)
    with pytest.raises(StorageError, match=r"it holds notes\.txt, which a model folder would"):
        train(probed, run)
    assert tree(run) == before


def test_a_model_alone_is_not_a_run(configure, probed, tree, tmp_path):
    """It may have been saved there by its user."""
    model = PropertyModel.from_pretrained(probed.finetune.start)
    model.save_pretrained(tmp_path / "run" / "model")
    before = tree(tmp_path / "run")
    with pytest.raises(ConfigError, match="run exists and is not empty: choose another folder$"):
        train(configure(), tmp_path / "run")
    assert tree(tmp_path / "run") == before
