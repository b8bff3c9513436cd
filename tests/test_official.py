"""benchmarks/official/: a run on a small table."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_a_run_scores_the_test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, and the activity cliffs among them."""
    run = importlib.import_module("official.run")
    smiles = ["C" * length for length in range(1, 41)]
    labels = np.arange(40) / 10
    split = ["train"] * 30 + ["test"] * 10
    cliffs = [0] * 35 + [1] * 5
    table = pd.DataFrame({"smiles": smiles, "y": labels, "cliff_mol": cliffs, "split": split})
    table.to_csv(tmp_path / "T.csv", index=False)
    folder = tmp_path / "f"
    folder.mkdir()
    found = run.train(tmp_path / "T.csv", "RMSE", 0, folder)
    predicted = pd.read_csv(folder / "run" / "predictions_test.csv")
    errors = predicted["y_pred"].to_numpy() - labels[30:]
    assert found["test"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    assert found["cliffs"] == pytest.approx(np.sqrt(np.mean(errors[5:] ** 2)), rel=1e-4)
