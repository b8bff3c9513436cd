"""The command line as a user sees it: output, files and exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from molsepnorm.model import SCHEMA
from molsepnorm.training.step import TrainStep
from runs import outcome

from .conftest import TINY as SHORT
from .conftest import fail, invoke, read_rows, succeed, write_csv

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
TINY = ("--epochs", "3", *SHORT[2:4], "--batch-size", "8", *SHORT[6:])
TINY = (*TINY, "--set", "model.dropout=0.1", "--set", "optim.ema=0.9")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder with data.csv and a run trained on it, in three epochs of three steps."""
    folder = tmp_path_factory.mktemp("cli")
    table = write_csv(folder / "data.csv", y=NUMBERS, name=["a", "b"])
    succeed("train", "--data", table, "--targets", "y", *TINY, "-o", folder / "run")
    return folder


# --- the round trip -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdin", "columns"),
    [
        ("CCO\nCCN\n", ["smiles"]),
        ('"id","smiles"\n1,CCO\n2,CCN\n', ["id", "smiles"]),
        ("\ufeffsmiles,id\nCCO,1\nCCN,2\n", ["smiles", "id"]),
        ('smiles,note\nCCO,"two\nlines"\nCCN,\n', ["smiles", "note"]),
    ],
    ids=["lines", "quoted header", "bom", "line break"],
)
def test_predict_reads_standard_input(workspace, stdin, columns):
    """Standard input has one SMILES per line, or is a CSV."""
    rows = read_rows(succeed("predict", "--model", workspace / "run", stdin=stdin.encode()))
    assert [row["smiles"] for row in rows] == ["CCO", "CCN"]
    assert list(rows[0]) == [*columns, "y_pred", "error"]
    assert all(row["y_pred"] and not row["error"] for row in rows)


def test_settings_override_presets_and_recipes(workspace, tmp_path):
    succeed(
        *("train", "--data", workspace / "data.csv", "--preset", "slim", "--set", "model.layers=2"),
        *("--epochs", 1, "--lr", "2e-3", "--seed", 7, "--norm", "shared", "-o", tmp_path / "run"),
        *("--set", "model.width=16", "--set", "model.heads=2", "--set", "optim.ema=null"),
    )
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    model, optim, run = saved["model"], saved["optim"], saved["run"]
    assert (model["layers"], model["width"], model["norm"]) == (2, 16, "shared")
    assert model["dropout"] == 0.1  # slim's
    assert (optim["lr"], optim["ema"], run["seed"], run["epochs"]) == (2e-3, None, 7, 1)


def test_json_is_valid_if_a_score_is_undefined(tmp_path):
    """ROC-AUC of one class is null, not NaN."""
    table, one = tmp_path / "b.csv", tmp_path / "one.csv"
    write_csv(table, y=[0, 1])
    succeed("train", "--data", table, *TINY[2:], "--epochs", 1, "-o", tmp_path / "run")
    write_csv(one, y=[1])
    evaluate = ("evaluate", "--model", tmp_path / "run", "--data", one, "--split", "all")
    text = succeed(*evaluate, "--json")

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(text, parse_constant=refuse)["roc_auc"] is None


# --- errors ---------------------------------------------------------------------------------------


BAD = [
    (2, "No such command 'trian'", "trian"),
    (2, "name one source", "train"),
    (1, "no such file", "train --data none.csv"),
    (1, "line 4: RDKit cannot read 'C1CC'", "train --data bad.csv --on-invalid fail"),
    (2, "exists and is not empty", "train --data {made}/data.csv -o {made}/run"),
    (1, "cannot write", "train --data {made}/data.csv -o {made}/data.csv/run"),
    (1, "not a run that can be resumed", "train --resume ."),
    (2, "takes no other option than --quiet", "train --resume {made}/run --layers 5"),
    (1, "model.safetensors missing", "predict --model incomplete --smiles C"),
    (1, "upgrade molsepnorm", "predict --model newer --smiles C"),
    (1, "there is a folder of that name", "predict --model {made}/run --smiles C -o ."),
]
FILES = {
    "bad.csv": "smiles,y\nC,1\nCC,2\nC1CC,3\n" + "CCC,4\n" * 20,
}


@pytest.mark.parametrize(("code", "words", "command"), BAD)
def test_an_error_is_one_paragraph_without_files(
    workspace, tmp_path, tree, monkeypatch, code, words, command
):
    """The exit status is 2 for a wrong request, and 1 if carrying it out failed."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name in ("incomplete", "newer"):
        shutil.copytree(workspace / "run" / "model", tmp_path / name)
    (tmp_path / "incomplete" / "model.safetensors").unlink()
    about = json.loads((tmp_path / "newer" / "config.json").read_text())
    (tmp_path / "newer" / "config.json").write_text(json.dumps({**about, "schema": SCHEMA + 1}))
    before, theirs = tree(tmp_path), tree(workspace)
    args = [word.format(made=workspace) for word in command.split()]
    assert words in fail(*args, code=code)
    assert tree(tmp_path) == before
    assert tree(workspace) == theirs


def test_a_disk_that_fills_up_during_training_gives_a_clear_error(workspace, small_disk):
    """The model or the checkpoint does not fit."""
    args = ("train", "--data", workspace / "data.csv", *TINY, "-o", small_disk / "run")
    assert "the disk is full" in fail(*args, code=1)
    assert not list(small_disk.rglob("*.partial"))


def test_a_full_disk_behind_standard_output_gives_a_clear_error(workspace):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", workspace / "run", "--smiles", "C"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


# --- stopping -------------------------------------------------------------------------------------

_MAIN = "from molsepnorm.cli import main; main()"

_SIGNAL_AT_STEP = """
import os, signal
from molsepnorm.training.step import TrainStep
plain, taken = TrainStep.__call__, []
def stepped(self, *planned):
    if len(taken) == 4:
        os.kill(os.getpid(), signal.SIGTERM)
    taken.append(planned)
    return plain(self, *planned)
TrainStep.__call__ = stepped
from molsepnorm.cli import main
main()
"""


def test_a_stopped_run_is_resumed_exactly(workspace, tmp_path):
    """The run is stopped in the middle of the second epoch. The resumed run gives the results of an
    uninterrupted one."""
    train = ["train", "--data", workspace / "data.csv", "--targets", "y", *TINY]
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", _SIGNAL_AT_STEP, *train, "-o", run], capture_output=True, text=True
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout
    assert f"Continue: molsepnorm train --resume {run}" in done.stderr
    assert not (run / "metrics.json").exists()
    assert "mae" in succeed("train", "--resume", run)
    assert outcome(run) == outcome(workspace / "run")


def test_a_second_interrupt_stops_at_once(workspace, tmp_path, monkeypatch):
    """There is no traceback, and the step is not finished."""
    plain, taken = TrainStep.__call__, []

    def stepped(self, *planned):
        if len(taken) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("went on")
        taken.append(planned)
        return plain(self, *planned)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", stepped)
        result = invoke("train", "--data", workspace / "data.csv", *TINY, "-o", tmp_path / "run")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 130)
    assert "mae" in succeed("train", "--resume", tmp_path / "run")


def test_predict_on_a_terminal_needs_molecules(workspace):
    """The command does not wait for lines to be typed."""
    master, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", workspace / "run"],
            stdin=terminal,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(master)
        os.close(terminal)
    assert done.returncode == 2
    assert "no molecules: give --smiles, --input, or SMILES on stdin" in done.stderr
