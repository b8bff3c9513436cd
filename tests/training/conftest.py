"""Small tables and a tiny network, on which a run takes a second."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from molsepnorm.training import StopWhen, TrainConfig, load_config

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
    "run.refit": False,  # the kept model is that of the best epoch; test_refit.py has it on
}
ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
RINGS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")
TIMES = ("seconds", "graphs_per_second")


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


@pytest.fixture
def with_columns(tmp_path: Path) -> Callable[..., TrainConfig]:
    """`with_columns({"a": cells, "b": cells}, settings)`: a tiny run on columns.csv, whose first
    column is 30 SMILES; of each column as many cells as are wanted, from the first on again."""

    def make(columns: dict[str, Sequence[Any]], settings: dict[str, Any] | None = None):
        settings = dict(settings or {})
        path = tmp_path / settings.pop("name", "columns.csv")
        smiles = [f"{'C' * length}{end}" for length in range(1, 6) for end in RINGS]
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([settings.get("data.smiles_column", "smiles"), *columns])
            for row, text in enumerate(smiles):
                writer.writerow([text, *(cells[row % len(cells)] for cells in columns.values())])
        return load_config(path, overrides={**TINY, **settings})

    return make


@pytest.fixture
def rows_of() -> Callable[[Path], list[dict[str, str]]]:
    """The rows of a CSV file."""
    return _rows


@pytest.fixture
def split_rows() -> Callable[[Path], dict[str, list[int]]]:
    """The rows of each split of a run's folder."""
    return lambda folder: json.loads((folder / "splits.json").read_text())[0]


@pytest.fixture
def outcome() -> Callable[[Path], dict[str, Any]]:
    """All that a run leaves but for its times, to compare bit by bit."""

    def look(folder: Path) -> dict[str, Any]:
        metrics = json.loads((folder / "metrics.json").read_text())
        del metrics["seconds"]
        metrics.get("baseline", {}).pop("seconds", None)
        state = load_file(folder / "checkpoints" / "last.safetensors")
        history = _rows(folder / "history.csv")
        return {
            "history": [{k: v for k, v in row.items() if k not in TIMES} for row in history],
            "metrics": metrics,
            "model": (folder / "model" / "model.safetensors").read_bytes(),
            "predictions": (folder / "predictions_test.csv").read_bytes(),
            "state": {name: tensor.numpy().tobytes() for name, tensor in state.items()},
        }

    return look


@pytest.fixture
def stop_at() -> Callable[[int], StopWhen]:
    """`stop_at(k)`: a callback that stops the run after k steps."""

    def make(steps: int) -> StopWhen:
        taken = iter(range(1, 1_000_000))
        return StopWhen(lambda: next(taken) == steps)

    return make


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`scripted("mae", [0.5, 0.4])`: the scores of the validations, epoch by epoch."""
    from molsepnorm.training.loop import Trainer

    def make(metric: str, scores: Sequence[float]) -> None:
        monkeypatch.setattr(
            Trainer, "validate", lambda self: (1.0, {metric: scores[self.progress.epoch - 1]})
        )

    return make


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
