"""The folder of a run and its files.

::

    RUN/
    ├── config.yaml            the configuration; `--config` reads it
    ├── environment.json       versions, machine, command
    ├── splits.json            rows of the source in each split
    ├── rejected.csv           rows of the table that were left out, with the reason
    ├── targets.csv            labels of each target in each split
    ├── history.csv            a line per epoch
    ├── metrics.json           scores of the finished run
    ├── predictions_test.csv   labels and predictions of the test molecules
    ├── predictions_val.csv    the same for the validation molecules
    ├── predictions_train.csv  the same for the training molecules, unless there are many
    ├── report.html            what the scores mean, with charts and molecules, as a page
    ├── log.txt                what training printed, if a command or `cli.log.RunLog` wrote it
    ├── model/                 the best model by validation, its card README.md, training molecules
    ├── checkpoints/           last.safetensors, from which `--resume` continues
    └── members/               the runs of an ensemble, in place of history.csv and checkpoints/
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pydantic import FiniteFloat
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset, Rejected
from molsepnorm.data.legacy import legacy_fingerprints
from molsepnorm.devices.verdict import known
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.files.lock import LOCK
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import (
    clear_errors,
    csv_writer,
    remove_leftovers,
    replacing,
    write_json,
)
from molsepnorm.model import README, PropertyModel
from molsepnorm.tasks import Target, Task
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.finetuning import LoadedWeights
from molsepnorm.training.objectives import Objective, Results
from molsepnorm.training.target_table import targets_table

__all__ = ["LOG", "RunFolder"]

LOG = "log.txt"
"""Name of the file that holds what training printed."""


class RunFolder:
    """Reads and writes the files of a run. Files are replaced as a whole, never partly written."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.splits = self.path / "splits.json"
        self.history = self.path / "history.csv"
        self.metrics = self.path / "metrics.json"
        self.report = self.path / "report.html"
        self.model = self.path / "model"
        self.members = self.path / "members"
        self.checkpoint = self.path / "checkpoints" / "last.safetensors"
        self._probe = self.path / "checkpoints" / "probe"
        self._own = self.path / "checkpoints" / "objective.safetensors"
        self._earlier = self.path / "checkpoints" / "earlier.json"

    @staticmethod
    def of_model(model: Path | str) -> RunFolder | None:
        """Return the run of a run folder or its model folder; None for any other model folder."""
        for path in (Path(model), Path(model).resolve().parent):
            if (path / "config.yaml").is_file() and (path / "splits.json").is_file():
                return RunFolder(path)
        return None

    @staticmethod
    def numbered(name: str, under: Path | str = "runs") -> Path:
        """Return the first of <under>/<name>-1, -2, … that does not exist."""
        number = 1
        while (path := Path(under) / f"{name}-{number}").exists():
            number += 1
        return path

    @property
    def has_begun(self) -> bool:
        """True if there is something to resume."""
        return self.checkpoint.exists() or self.members.exists()

    def require_new(self) -> None:
        """Raise a ConfigError if the folder has files; those of a run that ended before its first
        checkpoint may be overwritten."""
        initial = {"environment.json", "config.yaml", "splits.json", "checkpoints"}
        initial |= {"rejected.csv", "targets.csv", LOG}
        with clear_errors(self.path, "write"):
            if not self.path.is_dir():
                return
            remove_leftovers(self.path)
            present, begun = set(os.listdir(self.path)) - {LOCK}, self.has_begun
            if self.environment.name in present and not begun:
                present -= initial
        if present:
            resume = f", or continue that run with --resume {self.path}" if begun else ""
            raise ConfigError(f"{self.path} exists and is not empty: choose another folder{resume}")

    def require_started(self) -> None:
        """Raise a ModelError unless the folder holds a run that can be resumed. A model that a
        killed process was replacing is restored."""
        if not self.config.exists() or not self.checkpoint.exists():
            raise ModelError(
                f"{self.path} is not a run that can be resumed: it needs {self.config.name} and "
                f"{self.checkpoint.relative_to(self.path)}"
            )
        with clear_errors(self.path, "read"):
            remove_leftovers(self.path)

    def begin(
        self,
        config: TrainConfig,
        dataset: Dataset,
        loaded: LoadedWeights | None = None,
        adaptive_threads: bool = False,
    ) -> None:
        """Write the files that are known before training, with the weights that it starts from."""
        environment = {**_environment(adaptive_threads), "data": dataset.fingerprint}
        environment["warnings"] = list(dataset.warnings)
        if loaded is not None:
            environment |= {**config.finetune.origin(), "loaded_weights": asdict(loaded)}
        write_json(self.environment, environment)
        config.save(self.config)
        with replacing(self.splits) as scratch:
            scratch.write_text(json.dumps(_splits(dataset)), encoding="utf-8")
        rejected = dataset.left_out
        if rejected is None:
            entries = [*dataset.rejected, *(Rejected(*each[:3]) for each in dataset.merged)]
            entries.sort(key=lambda entry: entry.row)
            rejected = pd.DataFrame(entries, columns=list(Rejected._fields))
        with (
            replacing(self.path / "rejected.csv") as scratch,
            open(scratch, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv_writer(file)
            writer.writerow(rejected.columns)
            writer.writerows(rejected.itertuples(index=False, name=None))
        with replacing(self.path / "targets.csv") as scratch:
            _write_csv(scratch, targets_table(dataset))

    def require_same_data(self, dataset: Dataset, *, splits: bool = True) -> None:
        """Check that the data, and with `splits` their splits, are those of the start of the run.

        Raises:
            DataError: they have changed.
            ModelError: the files that describe them are damaged.
        """
        environment = read_json(self.environment)
        recorded = environment.get("data", "") if isinstance(environment, dict) else None
        if not isinstance(recorded, str):
            raise ModelError(f"{self.environment} is damaged: it has no fingerprint of the data")
        if recorded != dataset.fingerprint and recorded not in legacy_fingerprints(dataset):
            problem = ""
        elif splits and (saved := read_json(self.splits)) != _splits(dataset):
            check_types(list[dict[str, list[int]]], saved, f"{self.splits} is damaged")
            problem = " or have another split"
        else:
            return
        raise DataError(
            f"the data are no longer those that {self.path} began with{problem}: restore the old "
            "file, or start a new run"
        )

    def excludes(self) -> dict[str, str]:
        """Return the data sets that the weights which the run started from must not be evaluated
        on, each with the reason."""
        return self._of_start(dict[str, str], "excludes", {})

    def trained_on(self) -> int:
        """Return the number of validation and test molecules that the start was trained on."""
        return self._of_start(int, "trained_on", 0)

    def _of_start(self, kind: Any, name: str, default: Any) -> Any:
        """Return what is recorded about the weights that the run started from."""
        environment = read_json(self.environment)
        loaded = environment.get("loaded_weights", {}) if isinstance(environment, dict) else {}
        found = loaded.get(name, default) if isinstance(loaded, dict) else default
        return check_types(kind, found, f"{self.environment} is damaged")

    def finished_metrics(self) -> dict[str, Any] | None:
        """Return the scores of a finished run, so that the test split is not scored again; None
        if the run is not finished."""
        if not self.metrics.exists():
            return None
        metrics = read_json(self.metrics)
        check_types(_Metrics, metrics, f"{self.metrics} is damaged")
        return metrics

    def complete_metrics(self) -> dict[str, Any] | None:
        """Return the scores if the report exists, too. It is the last file that training writes,
        and a resumed run writes what is missing."""
        return self.finished_metrics() if self.report.exists() else None

    def lengthen(self, config: TrainConfig) -> None:
        """Write the configuration of a run with another number of epochs.

        The run is then not finished. Its scores so far, if there are any, are kept for `earlier`.
        """
        if (metrics := self.finished_metrics()) is not None:
            scores = {name: metrics[name] for name in ("best_epoch", "val", "test")}
            earlier = {**metrics.get("earlier", {}), str(metrics["epochs"]): scores}
            write_json(self._earlier, earlier)
            with clear_errors(self.path, "write"):
                self.report.unlink(missing_ok=True)
                self.metrics.unlink()
        config.save(self.config)

    def earlier(self, epochs: int) -> dict[str, dict[str, Any]]:
        """Return the entry `earlier` of `metrics.json`: the scores that the run had after fewer
        epochs than `epochs`, by their number; nothing if the test split is scored once."""
        if not self._earlier.exists():
            return {}
        damaged = f"{self._earlier} is damaged"
        found = check_types(dict[str, dict[str, Any]], read_json(self._earlier), damaged)
        found = {number: scores for number, scores in found.items() if number != str(epochs)}
        return {"earlier": found} if found else {}

    def keep_best(self, model: PropertyModel, objective: Objective) -> None:
        """Write the best model so far, and the other tensors of its objective if there are any."""
        replace(model, network=objective.network).save_pretrained(self.model)
        if own := objective.own_state():
            with replacing(self._own) as scratch:
                scratch.write_bytes(save({name: each.contiguous() for name, each in own.items()}))

    def keep(self, model: PropertyModel) -> None:
        """Replace the best model by the one that a run ends with."""
        model.save_pretrained(self.model)

    def write_card(self, text: str) -> None:
        """Write the card of the model. A model that is kept later replaces the folder, and has none
        until this is called again."""
        with replacing(self.model / README) as scratch:
            scratch.write_text(text, encoding="utf-8")

    def keep_probe(self, probe: PropertyModel) -> None:
        """Write the model that is averaged with the network, for a run that is resumed."""
        probe.save_pretrained(self._probe)

    def probe(self) -> PropertyModel | None:
        """Read the model of `keep_probe`; None if there is none."""
        return PropertyModel.from_pretrained(self._probe) if self._probe.exists() else None

    def best(self) -> tuple[PropertyModel, dict[str, Tensor]]:
        """Read the best model and the other tensors of its objective.

        Raises:
            ModelError: a file is damaged.
        """
        own: dict[str, Tensor] = {}
        if self._own.exists():
            try:
                with clear_errors(self._own, "read"):
                    own = load(self._own.read_bytes())
            except (SafetensorError, ValueError) as error:
                raise ModelError(f"{self._own} is damaged: {error}") from error
        return PropertyModel.from_pretrained(self.model), own

    def append_history(self, record: EpochRecord) -> None:
        """Add a line, and remove lines of epochs that a resumed run repeats. A column that the
        file of an earlier version lacks stays empty in its lines."""
        row = asdict(record)
        scores, threads = row.pop("scores"), row.pop("threads")
        row |= {f"val_{name}": score for name, score in scores.items()}
        row |= {"best": int(record.best), "threads": threads}
        if math.isnan(record.train_loss):
            row["train_loss"] = None
        try:
            lines = csv.DictReader(io.StringIO(self.read_history().decode()))
            earlier = [line for line in lines if int(line["epoch"]) < record.epoch]
            with (
                replacing(self.history) as scratch,
                open(scratch, "w", newline="", encoding="utf-8") as file,
            ):
                writer = csv.DictWriter(file, fieldnames=list(row))
                writer.writeheader()
                writer.writerows([*earlier, row])
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise ModelError(
                f"{self.history} is damaged: {error}. Remove the file, and resume the run to "
                "restore it"
            ) from error

    def read_history(self) -> bytes:
        """Return the content of the history; empty before the first line."""
        with clear_errors(self.history, "read"):
            return self.history.read_bytes() if self.history.exists() else b""

    def restore_history(self, content: bytes | None) -> None:
        """Replace the history by the checkpoint's; a checkpoint of an earlier version has none."""
        if content is not None and content != self.read_history():
            with replacing(self.history) as scratch:
                scratch.write_bytes(content)

    def finish(
        self, dataset: Dataset, task: Task, results: Results, metrics: dict[str, Any]
    ) -> None:
        """Write the scores of a finished run, and its predictions (G, O) if there are any."""
        for split, predicted in results.predictions.items():
            graphs, baseline = results.graphs[split], results.baseline.get(split)
            table = _predictions_table(dataset, task, graphs, predicted, baseline)
            with replacing(self.path / f"predictions_{split}.csv") as scratch:
                _write_csv(scratch, table)
        write_json(self.metrics, metrics)


def _predictions_table(
    dataset: Dataset,
    task: Task,
    graphs: np.ndarray,
    predictions: np.ndarray,
    baseline: np.ndarray | None,
) -> dict[str, Any]:
    """Return columns with label and prediction of molecules (n,), in the source's order.

    <target>_forest is the prediction of the baseline: a value, a probability or a class.
    If a target has the name of another column, its labels are in <target>_true.
    """
    order = np.argsort(dataset.store.rows[graphs], kind="stable")
    graphs, predictions = graphs[order], predictions[order]
    rows = dataset.store.rows[graphs]
    table: dict[str, Any] = dict([dataset.position(rows)])
    table |= {name: [cells[row] for row in rows] for name, cells in dataset.identifiers.items()}
    if (smiles := dataset.written or dataset.smiles) is not None:
        table["smiles"] = [smiles[row] for row in rows]
    labels, predicted = dataset.labels[graphs].T, task.tables(predictions)
    bounds = np.zeros(labels.shape, np.int8) if dataset.bounds is None else dataset.bounds[graphs].T
    if baseline is not None:
        for name, columns, others in zip(
            task.names, predicted, task.tables(baseline[order]), strict=True
        ):
            columns[f"{name}_forest"] = others[f"{name}_pred"]
    taken = {*table, *(column for columns in predicted for column in columns)}
    for target, truth, of_truth, columns in zip(
        task.targets, labels, bounds, predicted, strict=True
    ):
        cells = {target.name: _readable(truth, of_truth, target)}
        if (transform := target.transformation) is not None:
            unit = np.array([float(f"{value:.6g}") for value in transform.inverse(truth)])
            own = _with_bounds(unit, of_truth * transform.sign)
            cells = {target.name: own, target.learned_name: cells[target.name]}
        for name, values in cells.items():
            while name in taken:
                name += "_true"
            taken.add(name)
            table[name] = values
        table |= columns
    return table


def _write_csv(path: Path, table: Mapping[str, Iterable[Any]]) -> None:
    columns = (["" if pd.isna(cell) else cell for cell in table[name]] for name in table)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file)
        writer.writerow(table)
        writer.writerows(zip(*columns, strict=True))


def _with_bounds(labels: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the labels, those of bounds as texts such as ">10"."""
    if not bounds.any():
        return labels
    signs = {1: ">", -1: "<"}
    cells = [f"{signs[b]}{v:.6g}" if b else v for v, b in zip(labels, bounds.tolist(), strict=True)]
    return np.array(cells, dtype=object)


def _readable(labels: np.ndarray, bounds: np.ndarray, target: Target) -> np.ndarray:
    if target.kind != "multiclass":
        return _with_bounds(labels, bounds)
    names = np.array([*target.classes, None], dtype=object)
    return names[np.where(np.isnan(labels), len(target.classes), labels).astype(int)]


@dataclass
class _Baseline:
    """Types of the baseline's scores."""

    val: dict[str, FiniteFloat | None]
    test: dict[str, FiniteFloat | None]
    trees: int
    seconds: FiniteFloat


@dataclass
class _Difference:
    """Types of the difference between two scores."""

    difference: FiniteFloat
    interval_95: tuple[FiniteFloat, FiniteFloat]


@dataclass
class _Similarity:
    """Types of the similarity of the test molecules to the training molecules."""

    median: FiniteFloat
    test: int
    train: int


@dataclass
class _Metrics:
    """Types of the entries of `metrics.json` that are read back."""

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
    baseline: _Baseline | None = None
    baseline_difference: dict[str, _Difference] = field(default_factory=dict)
    headlines: list[str] = field(default_factory=list)
    constant_difference: dict[str, _Difference] = field(default_factory=dict)
    val_test_difference: dict[str, _Difference] = field(default_factory=dict)
    molecules: dict[str, int] = field(default_factory=dict)
    split: str | None = None
    nearest_train_similarity: _Similarity | None = None
    earlier: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.val or self.val.keys() != self.test.keys():
            raise ValueError("val and test must have the same scores")


def _splits(dataset: Dataset) -> list[dict[str, list[int]]]:
    """Return the rows of the source in each split, in the format of chemprop's `splits.json`."""
    return [dataset.split_rows()]


def _environment(adaptive_threads: bool) -> dict[str, object]:
    packages = {}
    for name in ("torch", "torch-geometric", "ogb", "rdkit", "numpy", "pandas", "pydantic"):
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "molsepnorm": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "adaptive_threads": adaptive_threads,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "fast_paths": [
            {"path": each.path, "passed": each.passed, "said": str(each)} for each in known()
        ],
        "command": sys.argv,
    }
