"""Two processes that do the same at the same moment: both succeed, or one gets a clear message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.training.run_folder.verification import verify
from runs import rows_of
from support import tiny_model

TINY = (
    *("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.ffn_width=16"),
    *("--set", "model.heads=2", "--set", "model.max_path_length=3", "--batch-size", "16"),
    *("--targets", "y", "--featurizer", "zinc", "--device", "cpu"),
)
ENDS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "data.csv"
    smiles = ["C" * length + end for length in range(1, 11) for end in ENDS]
    rows = [f"{text},{len(text) + 0.5}\n" for text in smiles]
    path.write_text("smiles,y\n" + "".join(rows))
    return path


def _both(tmp_path: Path, *args: object) -> list[tuple[int, str]]:
    """Run a command in two processes at once; return the exit status and messages of each."""
    command = [sys.executable, "-m", "molsepnorm", *map(str, args)]
    environment = {**os.environ, "MOLSEPNORM_CACHE": str(tmp_path / "cache")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    return [(each.communicate(timeout=120)[1], each.returncode)[::-1] for each in processes]


def _partial(folder: Path) -> list[Path]:
    """Return files that a writer left behind."""
    return [path for path in folder.rglob(".*") if path.suffix in {".partial", ".old", ".spool"}]


@pytest.mark.claim(
    "Two processes that train, tune or predict into one place both succeed, or one gets a message."
)
def test_two_processes_train_into_one_folder(table, tmp_path):
    """One trains. The other one is refused while the first is at work, or after it."""
    out = tmp_path / "run"
    found = _both(tmp_path, "train", "--data", table, *TINY, "--epochs", 2, "-o", out)
    (winner, _), (loser, message) = sorted(found)
    assert (winner, loser) == (0, 2)
    assert "is training into" in message or "exists and is not empty" in message
    assert "Traceback" not in message
    assert not _partial(tmp_path) and not (out / ".lock").exists()
    assert "test" in json.loads((out / "metrics.json").read_text())
    assert not any(each.problem for each in verify(out))
    PropertyModel.from_pretrained(out)


def test_two_processes_tune_into_one_folder(table, tmp_path):
    out = tmp_path / "tuned"
    args = ("tune", "--data", table, *TINY, "--epochs", 1, "--trials", 2, "-o", out)
    found = _both(tmp_path, *args)
    (winner, _), (loser, message) = sorted(found)
    assert winner == 0, found
    assert loser in {0, 2} and "Traceback" not in message
    assert loser == 0 or str(out) in message
    assert not _partial(tmp_path)


def test_two_processes_predict_into_one_file(table, tmp_path):
    """Both write the same rows, and the file is that of one of them."""
    tiny_model().save_pretrained(tmp_path / "run")
    out = tmp_path / "out.csv"
    args = ("predict", "--model", tmp_path / "run", "-i", table, "--processes", 1, "-o", out)
    assert [code for code, _ in _both(tmp_path, *args)] == [0, 0]
    rows = rows_of(out)
    assert len(rows) == 60 and all(row["y_pred"] and not row["error"] for row in rows)
    assert not _partial(tmp_path)
