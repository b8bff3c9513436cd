"""Tiny runs for the tests of `training`: their settings and tables, and what a run leaves."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from molsepnorm.model import ExtraArrays
from molsepnorm.molecules.featurize.descriptors import FAST_DESCRIPTORS, structure_inputs
from molsepnorm.training import StopWhen, TrainConfig, load_config, train

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
    "run.refit": False,  # the model is that of the last epoch; test_refit.py has it on
}
"""Settings of a run of a second: of 24 training molecules, three steps are an epoch."""

ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
RINGS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")
NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]
LABELS = {"y": [1.0, 2.5, 0.2, 3.1, 4.0, 2.2], "active": [0, 1, 0, 1, 1]}
"""Columns of two kinds of targets, which the structure determines."""


def write_rows(path: Path, *rows: Any) -> Path:
    """Write a CSV file; the first row is its header."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_table(path: Path) -> Path:
    """30 molecules, a number `y` and a yes/no `active`, both with blanks."""
    rows = []
    for length in range(1, 6):
        for end, value in ENDS.items():
            y = round(0.5 * length + value, 3)
            active = "" if length == 4 and end == "O" else int(y > 0.5)
            rows.append(["C" * length + end, y if end != "F" or length > 1 else "", active])
    return write_rows(path, ["smiles", "y", "active"], *rows)


def configured(table: Path, settings: dict[str, Any] | None = None) -> TrainConfig:
    """A tiny run on a table, of the target y where none is named."""
    return load_config(table, overrides={**TINY, "data.targets": ["y"], **(settings or {})})


def on_columns(
    folder: Path, columns: dict[str, Sequence[Any]], settings: dict[str, Any] | None = None
) -> TrainConfig:
    """A tiny run on columns.csv, or the file of `settings["name"]`: 30 SMILES, and of each column
    as many cells as are wanted, from the first on again."""
    settings = dict(settings or {})
    path = folder / settings.pop("name", "columns.csv")
    smiles = [f"{'C' * length}{end}" for length in range(1, 6) for end in RINGS]
    rows = (
        [text, *(cells[row % len(cells)] for cells in columns.values())]
        for row, text in enumerate(smiles)
    )
    write_rows(path, [settings.get("data.smiles_column", "smiles"), *columns], *rows)
    return load_config(path, overrides={**TINY, **settings})


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def split_rows(folder: Path) -> dict[str, list[int]]:
    """The rows of each split of a run."""
    (splits,) = json.loads((folder / "splits.json").read_text())
    return splits


def rows_in(folder: Path, split: str) -> list[dict[str, str]]:
    """The rows of data.csv, beside a run's folder, in a split of the run."""
    rows = rows_of(folder.parent / "data.csv")
    return [rows[row] for row in split_rows(folder)[split]]


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run leaves but for its times, to compare bit by bit."""
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["seconds"]
    metrics.get("baseline", {}).pop("seconds", None)
    predictions, times = folder / "predictions_test.csv", {"seconds", "graphs_per_second"}
    state = load_file(folder / "checkpoints" / "last.safetensors")
    return {
        "history": [
            {name: cell for name, cell in row.items() if name not in times}
            for row in rows_of(folder / "history.csv")
        ],
        "metrics": metrics,
        "model": (folder / "model" / "model.safetensors").read_bytes(),
        "predictions": predictions.read_bytes() if predictions.exists() else None,
        "state": {name: tensor.numpy().tobytes() for name, tensor in state.items()},
    }


def forest_arrays(smiles: list[str]) -> ExtraArrays:
    """The arrays that a forest reads."""
    counts, descriptors, _ = structure_inputs(smiles, True, FAST_DESCRIPTORS, False)
    return ExtraArrays.none(len(smiles))._replace(counts=counts, descriptors=descriptors)


def stop_at(steps: int) -> StopWhen:
    """A callback that stops a run after so many steps."""
    taken = iter(range(1, 1_000_000))
    return StopWhen(lambda: next(taken) == steps)


def require_exact_resume(config: TrainConfig, whole: Path, parts: Path, steps: int) -> None:
    """Train a run that is stopped after so many steps and resumed: it leaves what `whole` does."""
    assert not train(config, parts, callback=stop_at(steps)).finished
    assert train(folder=parts, resume=True).finished
    assert outcome(parts) == outcome(whole)
