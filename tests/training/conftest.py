"""A small table and a tiny network, on which a run takes a second."""

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
    "model.dropout": 0.1,
    "model.max_path_length": 3,
    "optim.ema": 0.9,
    "run.epochs": 3,
    "run.batch_size": 8,
}
ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """data.csv: 30 molecules, a number `y` and a yes/no `active`, both with blanks."""
    path = tmp_path / "data.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "active"])
        for length in range(1, 6):
            for end, value in ENDS.items():
                y = round(0.5 * length + value, 3)
                active = "" if length == 4 and end == "O" else int(y > 0.5)
                writer.writerow(["C" * length + end, y if end != "F" or length > 1 else "", active])
    return path


@pytest.fixture
def configure(table: Path) -> Callable[..., TrainConfig]:
    """`configure({"run.epochs": 1})`: a tiny run on `table`, target y where none is named."""

    def make(settings: dict[str, Any] | None = None) -> TrainConfig:
        overrides = {**TINY, "data.targets": ["y"], **(settings or {})}
        return load_config(table, overrides=overrides)

    return make
