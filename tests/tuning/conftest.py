"""A small table, and a recipe whose run takes a fraction of a second."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molsepnorm.training import TrainConfig, load_config

TINY = {
    "data.featurizer": "zinc",
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "model.max_path_length": 3,
    "run.epochs": 2,
    "run.batch_size": 8,
    "run.threads": 1,
}
ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    """`write_table("data.csv", {3: 1.5})`: 30 molecules with a number y, which is 1.5 in row 3."""

    def write(name: str, other: dict[int, float] | None = None) -> Path:
        rows = [
            ("C" * n + end, 0.5 * n + value) for n in range(1, 6) for end, value in ENDS.items()
        ]
        with open(tmp_path / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y"])
            for row, (smiles, y) in enumerate(rows):
                writer.writerow([smiles, (other or {}).get(row, round(y, 3))])
        return tmp_path / name

    return write


@pytest.fixture
def configure(write_table: Callable[..., Path]) -> Callable[..., TrainConfig]:
    """`configure({"run.epochs": 1})`: a tiny recipe from random weights."""

    def make(settings: dict[str, Any] | None = None, table: Path | None = None) -> TrainConfig:
        overrides = {**TINY, **(settings or {})}
        return load_config(table or write_table("data.csv"), overrides=overrides)

    return make
