"""Fixtures that run commands as a user does."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from molsepnorm.cli import main

TINY = (
    *("--epochs", "2", "--layers", "1", "--batch-size", "16"),
    *("--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "model.heads=2"),
    *("--set", "model.max_path_length=3", "--featurizer", "zinc"),
)
ENDS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")


def invoke(*args: Any, stdin: str | bytes | None = None) -> Result:
    """`invoke("train", "--data", path)`."""
    return CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)


def succeed(*args: Any, **options: Any) -> str:
    """Run a command that must succeed, and return its output."""
    result = invoke(*args, **options)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    return result.stdout


def fail(*args: Any, code: int = 2) -> str:
    """Run a command that must fail, and return its message: one paragraph, no traceback."""
    result = invoke(*args)
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stderr.count("Error: ") == 1
    message = result.stderr.partition("Error: ")[2].strip()
    assert message
    assert "\n\n" not in message
    assert len(message) < 800
    return message


def read_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def write_csv(path: Path, **columns: Any) -> Path:
    """Write 30 SMILES, with the cells of each column repeated."""
    smiles = [f"{'C' * length}{end}" for length in range(1, 6) for end in ENDS]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *columns])
        for row, text in enumerate(smiles):
            writer.writerow([text, *(cells[row % len(cells)] for cells in columns.values())])
    return path


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    return invoke


@pytest.fixture(scope="session")
def ok() -> Callable[..., str]:
    return succeed


@pytest.fixture(scope="session")
def refused() -> Callable[..., str]:
    return fail


@pytest.fixture(scope="session")
def tiny() -> tuple[str, ...]:
    """Options of a run that takes one second; the first two are the number of epochs."""
    return TINY


@pytest.fixture(scope="session")
def write_table() -> Callable[..., Path]:
    return write_csv
