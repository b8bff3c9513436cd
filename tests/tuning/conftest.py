"""A small table, and a recipe whose run takes a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from molsepnorm.training import TrainConfig, load_config

TINY = {**runs.TINY, "run.epochs": 2, "run.threads": 1}


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    """`write_table("data.csv", {3: 1.5})`: 30 molecules with a number y, which is 1.5 in row 3."""

    def write(name: str, other: dict[int, float] | None = None) -> Path:
        rows = [
            ("C" * n + end, round(0.5 * n + value, 3))
            for n in range(1, 6)
            for end, value in runs.ENDS.items()
        ]
        cells = ((smiles, (other or {}).get(row, y)) for row, (smiles, y) in enumerate(rows))
        return runs.write_rows(tmp_path / name, ["smiles", "y"], *cells)

    return write


@pytest.fixture
def configure(write_table: Callable[..., Path]) -> Callable[..., TrainConfig]:
    """`configure({"run.epochs": 1})`: a tiny recipe from random weights."""

    def make(settings: dict[str, Any] | None = None, table: Path | None = None) -> TrainConfig:
        overrides = {**TINY, **(settings or {})}
        return load_config(table or write_table("data.csv"), overrides=overrides)

    return make
