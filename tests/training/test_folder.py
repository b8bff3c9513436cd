"""The files of a run folder: history and what `--resume` checks."""

from __future__ import annotations

import re
import shutil

import pytest

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.training import train
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run_folder.folder import RunFolder


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.json", b'{"data": 3}'),
        ("environment.json", b"[" * 200_000),
        ("splits.json", b'[{"train": ["1"]}]'),
        ("metrics.json", b"[]"),
        ("metrics.json", b'{"data": "x", "val": {"mae": NaN}}'),
    ],
)
def test_resuming_names_a_damaged_file(resumable, name, text):
    (resumable / name).write_bytes(text)
    with pytest.raises(ModelError, match=f"{name} is damaged") as caught:
        train(folder=resumable, resume=True)
    assert str(resumable / name) in str(caught.value)


@pytest.mark.parametrize("text", [None, b"", b"epoch,step\n1,2\n", b"\xff\xfe"])
def test_a_resumed_run_has_all_its_history(resumable, rows_of, text):
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


def test_a_run_killed_before_its_first_checkpoint_is_started_anew(
    probed, killed, outcome, tmp_path
):
    """After its probe is written. Once there is a checkpoint, it is resumed."""
    whole = train(probed, tmp_path / "whole").folder
    run = killed("Trainer.save")
    present = {path.name for path in run.iterdir()}
    assert present & {"checkpoints", "history.csv", "model"} == {"checkpoints"}
    assert train(probed, run).finished
    assert outcome(run) == outcome(whole)


@pytest.mark.parametrize("method", ["Trainer._set_best", "RunFolder.write_history"])
def test_a_run_killed_at_epoch_0_is_resumed(probed, killed, outcome, tmp_path, method):
    whole, run = train(probed, tmp_path / "whole").folder, killed(method)
    with pytest.raises(ConfigError, match="run exists and is not empty: choose another folder"):
        train(probed, run)
    assert train(folder=run, resume=True).finished
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
