"""A run and a screen that are killed go on where they were, and end as if undisturbed."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from .conftest import DEMO, PROGRAM, environment


def kill_once(command: list[str], reached: Callable[[], bool]) -> None:
    """Start a command, and kill it as soon as a condition holds, before it has ended."""
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not reached():
        assert process.poll() is None, "the command ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_killed_run_is_resumed_to_the_bit(molsepnorm, table, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = ("--data", table, "--targets", "penalised_logp", "--epochs", 5, "--no-baseline")
    molsepnorm("train", *options, "--output", whole)
    history = parts / "history.csv"
    kill_once(
        [*PROGRAM, "train", *map(str, options), "--output", str(parts)],
        lambda: history.exists() and len(history.read_text().splitlines()) > 3,
    )
    assert not (parts / "metrics.json").exists()
    molsepnorm("train", "--resume", parts)
    for name in ("predictions_test.csv", "model/model.safetensors"):
        assert digest(parts / name) == digest(whole / name), name


def test_a_killed_screen_goes_on(molsepnorm, run, tmp_path):
    rows = pd.read_csv(DEMO)[["smiles"]].head(1200)
    rows.to_csv(tmp_path / "library.csv", index=False)
    options = ("--model", run, "--input", tmp_path / "library.csv", "--rows-per-part", 100)
    options += ("--top", 20, "--by", "penalised_logp", "--processes", 1)
    molsepnorm("screen", *options, "--output", tmp_path / "whole")
    output = tmp_path / "parts"
    command = [*PROGRAM, "screen", *map(str, options), "--output", str(output)]
    kill_once(command, lambda: len([*output.glob("parts/*.parquet")]) > 2)
    assert not (output / "top.csv").exists()
    molsepnorm("screen", *options, "--output", output)
    found = [pd.read_parquet(folder / "parts") for folder in (tmp_path / "whole", output)]
    pd.testing.assert_frame_equal(*found)
    assert digest(output / "top.csv") == digest(tmp_path / "whole" / "top.csv")
