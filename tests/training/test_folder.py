"""The files of a run folder: history and what `--resume` checks."""

from __future__ import annotations

import shutil

import pytest

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.training import train
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.run_folder.verification import verify
from runs import configured, outcome, rows_of, stop_at, write_table


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in its third epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    config = configured(write_table(folder / "data.csv"))
    return train(config, folder / "run", callback=stop_at(7)).folder


@pytest.fixture
def resumable(stopped, tmp_path):
    """A copy of the stopped run."""
    return shutil.copytree(stopped, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.json", b"[" * 200_000),
        ("splits.json", b'[{"train": ["1"]}]'),
        ("metrics.json", b'{"data": "x", "val": {"mae": NaN}}'),
    ],
)
def test_resuming_names_a_damaged_file(resumable, name, text):
    (resumable / name).write_bytes(text)
    with pytest.raises(ModelError, match=f"{name} is damaged") as caught:
        train(folder=resumable, resume=True)
    assert str(resumable / name) in str(caught.value)


@pytest.mark.parametrize("text", [None, b"\xff\xfe"])
def test_a_resumed_run_has_all_its_history(resumable, text):
    """It is in the checkpoint, even if the file was changed."""
    path = resumable / "history.csv"
    before = path.read_bytes()
    path.unlink()
    if text is not None:
        path.write_bytes(text)
    assert train(folder=resumable, resume=True).finished
    assert path.read_bytes().startswith(before)
    assert [row["epoch"] for row in rows_of(path)] == ["1", "2", "3"]


@pytest.fixture
def settings(trained):
    """Settings of a run with a probe, which starts from a run on another target."""
    start = trained({"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}).folder
    return {"finetune.start": str(start), "run.epochs": 1}


@pytest.fixture
def killed(configure, settings, tmp_path, monkeypatch):
    """`killed("Trainer.save")`: the folder of a run that was killed where it calls this method."""

    def kill(method: str):
        owner = {"RunFolder": RunFolder, "Trainer": Trainer}[method.partition(".")[0]]
        with monkeypatch.context() as patch:
            patch.setattr(owner, method.partition(".")[2], _interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(configure(settings), tmp_path / "run")
        return tmp_path / "run"

    return kill


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_a_run_killed_before_its_first_checkpoint_is_started_anew(
    configure, trained, settings, killed
):
    """After its probe is written. Once there is a checkpoint, it is resumed."""
    run = killed("Trainer.save")
    present = {path.name for path in run.iterdir()}
    assert present & {"checkpoints", "history.csv", "model"} == {"checkpoints"}
    assert train(configure(settings), run).finished
    assert outcome(run) == outcome(trained(settings).folder)


@pytest.mark.parametrize("method", ["Trainer._keep", "RunFolder.write_history"])
def test_a_run_killed_at_its_first_validation_is_resumed(
    configure, trained, settings, killed, method
):
    run = killed(method)
    with pytest.raises(ConfigError, match="run exists and is not empty: choose another folder"):
        train(configure(settings), run)
    assert train(folder=run, resume=True).finished
    assert outcome(run) == outcome(trained(settings).folder)


def test_a_run_started_anew_keeps_nothing_of_the_killed_one(configure, killed, tree, tmp_path):
    """Without a probe it would have the old model, and once resumed the old probe."""
    config = configure({"run.epochs": 1})
    run = killed("Trainer.save")
    assert not train(config, run, callback=stop_at(1)).finished
    train(config, tmp_path / "other", callback=stop_at(1))
    assert tree(run).keys() == tree(tmp_path / "other").keys()
    assert train(folder=run, resume=True).finished
    assert [row["epoch"] for row in rows_of(run / "history.csv")] == ["1"]


def test_a_file_that_is_left_out_of_a_shared_copy_is_no_damage(copied, tmp_path):
    run = copied({"run.epochs": 1})
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / "training_molecules.gz").unlink()
    assert [each.problem for each in verify(tmp_path / "model")] == [""]
