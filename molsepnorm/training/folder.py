"""The folder of a run, file by file.

::

    RUN/
    ├── config.yaml            what was asked for; `--config` reads it back
    ├── environment.json       versions, machine, command
    ├── splits.json            rows of the source in each split
    ├── rejected.csv           rows left out, with the reason
    ├── history.csv            a line per epoch
    ├── metrics.json           scores of the finished run
    ├── predictions_test.csv   truth and prediction of every test molecule
    ├── model/                 the best model by validation; `predict` and `evaluate` read it
    └── checkpoints/           last.safetensors, from which `--resume` goes on
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pydantic import FiniteFloat

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset, Rejected
from molsepnorm.devices.verdict import known
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.files.digests import fingerprint_unsealed
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import (
    clear_errors,
    csv_writer,
    fingerprint,
    remove_leftovers,
    replacing,
    write_json,
)
from molsepnorm.tasks import Target, Task
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.lock import LOCK

__all__ = ["RunFolder"]


class RunFolder:
    """Names and writes the files of a run; each is replaced whole, so none is ever half written."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.splits = self.path / "splits.json"
        self.history = self.path / "history.csv"
        self.metrics = self.path / "metrics.json"
        self.model = self.path / "model"
        self.checkpoint = self.path / "checkpoints" / "last.safetensors"

    @staticmethod
    def of_model(model: Path | str) -> RunFolder | None:
        """The run whose folder, or whose model folder, this is; None for a model on its own."""
        for path in (Path(model), Path(model).resolve().parent):
            if (path / "config.yaml").is_file() and (path / "splits.json").is_file():
                return RunFolder(path)
        return None

    @staticmethod
    def numbered(name: str, under: Path | str = "runs") -> Path:
        """The first of <under>/<name>-1, -2, … that does not exist."""
        number = 1
        while (path := Path(under) / f"{name}-{number}").exists():
            number += 1
        return path

    def require_new(self) -> None:
        """Check that nothing would be overwritten but a beginning without a checkpoint, which a
        full disk or a kill leaves and nobody can go on from.

        Raises:
            ConfigError: something is there already.
        """
        begun = {path.name for path in (self.environment, self.config, self.splits)}
        begun |= {"rejected.csv", self.checkpoint.parent.name}
        with clear_errors(self.path, "write"):
            if self.path.is_dir():
                remove_leftovers(self.path)
            there = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
            ours = self.environment.name in there and not self.checkpoint.exists()
            if there - {LOCK} - (begun if ours else set()):
                resume = f", or go on with that run by --resume {self.path}"
                raise ConfigError(
                    f"{self.path} exists and is not empty: choose another folder"
                    f"{resume if self.checkpoint.exists() else ''}"
                )

    def require_started(self) -> None:
        """Check that there is a run to go on with.

        Raises:
            ModelError: there is none.
        """
        if not self.config.exists() or not self.checkpoint.exists():
            raise ModelError(
                f"{self.path} is no run to resume: it needs {self.config.name} and "
                f"{self.checkpoint.relative_to(self.path)}"
            )

    def begin(
        self, config: TrainConfig, dataset: Dataset, *, adaptive_threads: bool = False
    ) -> None:
        """Write all that is known before training."""
        data = _fingerprint(dataset, dataset.fingerprint)
        write_json(self.environment, {**_environment(adaptive_threads), "data": data})
        config.save(self.config)
        with replacing(self.splits) as scratch:
            scratch.write_text(json.dumps(_splits(dataset)), encoding="utf-8")
        rejected = {
            name: [getattr(entry, name) for entry in dataset.rejected] for name in Rejected._fields
        }
        with replacing(self.path / "rejected.csv") as scratch:
            _write_csv(scratch, rejected)

    def require_same_data(self, dataset: Dataset, *, splits: bool = True) -> None:
        """Check that the data, and with `splits` their split, are those the run began with.

        Raises:
            DataError: they are not.
            ModelError: the files that say what they were are damaged.
        """
        environment = read_json(self.environment)
        recorded = environment.get("data", "") if isinstance(environment, dict) else None
        if not isinstance(recorded, str):
            raise ModelError(f"{self.environment} is damaged: it has no fingerprint of the data")
        if recorded != _fingerprint(dataset, dataset.fingerprint):
            earlier = fingerprint_unsealed(dataset.store.path)
            if recorded != _fingerprint(dataset, earlier):
                raise self._other_data("")
        if splits and (kept := read_json(self.splits)) != _splits(dataset):
            check_types(list[dict[str, list[int]]], kept, f"{self.splits} is damaged")
            raise self._other_data(", or are split in another way")

    def _other_data(self, why: str) -> DataError:
        return DataError(
            f"the data are no longer those that {self.path} began with{why}: put the old file "
            "back, or start a new run"
        )

    def finished_metrics(self) -> dict[str, Any] | None:
        """The scores of a run that finished before: the test split is not looked at again.

        Raises:
            ModelError: the file is damaged.
        """
        if not self.metrics.exists():
            return None
        metrics = read_json(self.metrics)
        check_types(_Metrics, metrics, f"{self.metrics} is damaged")
        return metrics

    def append_history(self, record: EpochRecord) -> None:
        """Add a line, dropping those of epochs that a resumed run takes again."""
        row = {
            key: value for key, value in asdict(record).items() if key not in ("scores", "threads")
        }
        row |= {f"val_{name}": score for name, score in record.scores.items()}
        row |= {"best": int(record.best), "threads": record.threads}
        kept = [old for old in self._history() if int(old["epoch"]) < record.epoch]
        if kept and list(kept[0]) != list(row):
            raise self._damaged_history(f"its columns are not {', '.join(row)}")
        with (
            replacing(self.history) as scratch,
            open(scratch, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, fieldnames=list(row))
            writer.writeheader()
            writer.writerows([*kept, row])

    def read_history(self) -> bytes:
        """The content of the history; none before the first line."""
        with clear_errors(self.history, "read"):
            return self.history.read_bytes() if self.history.exists() else b""

    def restore_history(self, content: bytes | None) -> None:
        """Put the checkpoint's history in the place of what is there, which may have been changed.

        Raises:
            ModelError: the checkpoint is of an earlier version and has none, and the one that is
                there is damaged.
        """
        if content is None:
            self._history()
        elif content != self.read_history():
            with replacing(self.history) as scratch:
                scratch.write_bytes(content)

    def _history(self) -> list[dict[str, str]]:
        """The lines so far, each with an epoch and a cell for every column."""
        try:
            lines = list(csv.DictReader(io.StringIO(self.read_history().decode())))
            for line in lines:
                line.setdefault("threads", "")  # files of earlier versions lack this last column
            if any(int(line["epoch"]) < 1 or None in {*line, *line.values()} for line in lines):
                raise ValueError("a line has more or fewer cells than the first, or no epoch")
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise self._damaged_history(str(error)) from error
        return lines

    def _damaged_history(self, why: str) -> ModelError:
        return ModelError(
            f"{self.history} is damaged: {why}. Put a good copy back, or remove it, and it begins "
            "anew"
        )

    def write_predictions(self, dataset: Dataset, task: Task, predictions: np.ndarray) -> None:
        """Truth and prediction (G, O) of every test molecule, in the source's order.

        A target called like another column has its truth in <target>_true.
        """
        graphs = dataset.splits["test"]
        rows = dataset.store.rows[graphs]
        table: dict[str, Any] = {"row": rows}
        if dataset.smiles is not None:
            table["smiles"] = [dataset.smiles[row] for row in rows]
        labels, predicted = dataset.store.labels[graphs].T, task.tables(predictions)
        taken = {*table, *(column for columns in predicted for column in columns)}
        for target, truth, columns in zip(task.targets, labels, predicted, strict=True):
            name = target.name
            while name in taken:
                name += "_true"
            taken.add(name)
            table |= {name: _readable(truth, target), **columns}
        with replacing(self.path / "predictions_test.csv") as scratch:
            _write_csv(scratch, table)


def _write_csv(path: Path, table: Mapping[str, Iterable[Any]]) -> None:
    columns = (["" if pd.isna(cell) else cell for cell in column] for column in table.values())
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file)
        writer.writerow(table)
        writer.writerows(zip(*columns, strict=True))


def _readable(labels: np.ndarray, target: Target) -> np.ndarray:
    if target.kind != "multiclass":
        return labels
    names = np.array([*target.classes, None], dtype=object)
    return names[np.where(np.isnan(labels), len(target.classes), labels).astype(int)]


@dataclass
class _Metrics:
    """The types in `metrics.json` that a resumed run or a series relies on."""

    data: str
    chosen_by: str
    best_epoch: int | None
    epochs: int
    parameters: int
    seconds: FiniteFloat
    val: dict[str, FiniteFloat | None]
    test: dict[str, FiniteFloat | None]
    test_constant: dict[str, FiniteFloat | None] = field(default_factory=dict)
    test_interval_95: dict[str, tuple[FiniteFloat, FiniteFloat]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.val or self.val.keys() != self.test.keys():
            raise ValueError("val and test must have the same scores")


def _fingerprint(dataset: Dataset, of_store: str) -> str:
    """Stands for the encoded molecules, their labels and their weights."""
    if dataset.weights is None:
        return of_store
    return fingerprint(of_store, dataset.weights.tobytes().hex())


def _splits(dataset: Dataset) -> list[dict[str, list[int]]]:
    """Rows of the source in each split, in the form of chemprop's `splits.json`."""
    rows = dataset.store.rows
    return [{name: rows[graphs].tolist() for name, graphs in dataset.splits.items()}]


def _environment(adaptive_threads: bool) -> dict[str, object]:
    packages = {}
    for name in ("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "molsepnorm": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "adaptive_threads": adaptive_threads,
        "gpu": gpu,
        "fast_paths": [
            {"path": each.path, "passed": each.passed, "said": str(each)} for each in known()
        ],
        "command": sys.argv,
    }
