"""A small model with random weights, and libraries of small molecules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.predict.screening import ScreenOptions, screen
from molsepnorm.tasks import Target, Task
from support import SMALL, far_from_initial

ENDS = ("O", "N", "=O", "Cl", "C(=O)O", "c1ccccc1")


@pytest.fixture(scope="session")
def small_model() -> Callable[..., PropertyModel]:
    """`small_model(*targets, seed=0)`."""

    def make(*targets: Target, seed: int = 0) -> PropertyModel:
        task = Task(targets or (Target("y", "regression"),), "loss")
        network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": task.outputs}))
        with torch.no_grad():
            network.head.weight.add_(seed)
        return PropertyModel.of(network, "zinc", task)

    return make


@pytest.fixture(scope="session")
def predictor(small_model) -> Predictor:
    return Predictor(small_model())


@pytest.fixture(scope="session")
def molecules() -> Callable[..., pd.DataFrame]:
    """`molecules(n, invalid=())`: a table with n rows, and the given rows invalid.

    A molecule returns after some rows, so that values are equal."""

    def make(rows: int, invalid: tuple[int, ...] = ()) -> pd.DataFrame:
        smiles = [f"{'C' * (1 + row % 17)}{ENDS[row % len(ENDS)]}" for row in range(rows)]
        for row in invalid:
            smiles[row] = "C1CC"
        return pd.DataFrame(
            {
                "zinc_id": [f"Z{row}" for row in range(rows)],
                "smiles": smiles,
                "price": np.arange(rows) % 7 + 0.5,
                "note": [f'a, "{row}"' for row in range(rows)],
            }
        )

    return make


@pytest.fixture
def screened(predictor, tmp_path) -> Callable[..., pd.DataFrame]:
    """`screened(inputs, top=3, into="out")`: the rows of all parts of a screen, in their order."""

    def call(
        inputs: list[str], into: str = "out", by: Predictor = predictor, **options
    ) -> pd.DataFrame:
        options = {"rows_per_part": 7, **options}
        screen(by, [str(each) for each in inputs], tmp_path / into, ScreenOptions(**options))
        return rows_of(tmp_path / into / "parts")

    return call


def rows_of(folder: Path) -> pd.DataFrame:
    """All Parquet files of a folder as one table, in the order of their names."""
    parts = [pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))]
    return pd.concat(parts, ignore_index=True)
