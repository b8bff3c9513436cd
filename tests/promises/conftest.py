"""Promises to the users, through commands and public calls only.

The tests of this folder are the measure of a change that should leave everything as it is. Numbers
are compared with `golden.json`, to 0.001 by default, because processors round differently. Where a
change is meant to move one, write the file anew with `MOLSEPNORM_WRITE_GOLDEN=1 pytest -n 0
tests/promises`, and let the difference be read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

HERE = Path(__file__).parent
DEMO = HERE.parents[1] / "data" / "demo.csv"
ROWS = 240
TARGETS = "penalised_logp,rule_4_400"
PROGRAM = (sys.executable, "-m", "molsepnorm")

Command = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """One thread, so that numbers repeat."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OUTDATED_IGNORE": "1"}


@pytest.fixture(scope="session")
def molsepnorm() -> Command:
    """`molsepnorm("train", …)` runs a command, which must succeed."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*PROGRAM, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done

    return run


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 240 molecules with an identifier, a number and a class."""
    path = tmp_path_factory.mktemp("table") / "small.csv"
    rows = pd.read_csv(DEMO, usecols=["smiles", *TARGETS.split(",")]).head(ROWS)
    rows.insert(0, "compound_id", [f"M-{number}" for number in range(ROWS)])
    rows.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 40 other molecules without labels; one SMILES is invalid."""
    path = tmp_path_factory.mktemp("table") / "new.csv"
    smiles = pd.read_csv(DEMO)["smiles"][ROWS : ROWS + 40].tolist()
    smiles[7] = "not a molecule"
    pd.DataFrame({"name": [f"N-{number}" for number in range(40)], "smiles": smiles}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture(scope="session")
def run(molsepnorm: Command, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run on the table by the default recipe, in three epochs."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = ("--targets", TARGETS, "--epochs", 3, "--seed", 0)
    molsepnorm("train", "--data", table, *options, "--output", folder)
    return folder


def figures(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns, the number of rows, and mean and deviation of each column of numbers."""
    numbers = rows.select_dtypes("number")
    return {
        "columns": [*map(str, rows.columns)],
        "rows": len(rows),
        "numbers": {
            str(name): [len(cells.dropna()), cells.mean(), cells.std()]
            for name, cells in numbers.items()
        },
    }


def _same(expected: Any, found: Any, tolerance: float) -> bool:
    if isinstance(expected, dict) and isinstance(found, dict):
        same = (_same(expected[name], found[name], tolerance) for name in expected)
        return expected.keys() == found.keys() and all(same)
    if isinstance(expected, list) and isinstance(found, list):
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(_same(*pair, tolerance) for pair in pairs)
    if isinstance(expected, float) and isinstance(found, float):
        return found == pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True)
    return bool(expected == found)


@pytest.fixture(scope="session")
def golden() -> Iterator[Callable[[str, Any, float], None]]:
    """`golden(name, found, tolerance)` compares with what `golden.json` has under the name."""
    path = HERE / "golden.json"
    writes = bool(os.environ.get("MOLSEPNORM_WRITE_GOLDEN"))
    known = json.loads(path.read_text()) if path.exists() else {}

    def compare(name: str, found: Any, tolerance: float = 1e-3) -> None:
        found = json.loads(json.dumps(found))
        if writes:
            known[name] = found
        assert name in known, f"golden.json has no entry {name}"
        assert _same(known[name], found, tolerance), f"{name}: {known[name]} became {found}"

    yield compare
    if writes:
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
