"""The folder of a run and its files, which docs/training.md lists."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from molsepnorm._version import __version__
from molsepnorm.data.datasets.dataset import Dataset, Rejected
from molsepnorm.errors import ConfigError, DataError, ModelError, first_of
from molsepnorm.files import writing
from molsepnorm.files.digests import open_array, write_array
from molsepnorm.files.lock import LOCK
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.tables import free_name
from molsepnorm.files.writing import clear_errors, replacing, write_csv, write_json
from molsepnorm.model import README, PropertyModel
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.target import BOUND_SIGNS
from molsepnorm.training.auxiliary import Auxiliary
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.scoring import Predictions


def predictions_table(
    dataset: Dataset,
    task: Task,
    graphs: np.ndarray,
    predictions: np.ndarray,
    baseline: np.ndarray | None,
) -> dict[str, Any]:
    """Return columns of molecules (n,) with labels and predictions, in the order of the source.

    Labels of a target with the name of another column are in <target>_true; a feature column that
    is named like a prediction ends in _input.
    """
    order = np.argsort(dataset.store.rows[graphs], kind="stable")
    graphs, predictions = graphs[order], predictions[order]
    rows = dataset.store.rows[graphs]
    table: dict[str, Any] = dict([dataset.position(rows)])
    table |= {name: [cells[row] for row in rows] for name, cells in dataset.identifiers.items()}
    if (smiles := dataset.source_smiles) is not None:
        table["smiles"] = [smiles[row] for row in rows]
    labels, bounds = dataset.labels[graphs].T, dataset.bound_signs[graphs].T
    predicted = task.tables(predictions)
    if baseline is not None:
        of_forest = task.tables(baseline[order])
        for target, columns, others in zip(task.targets, predicted, of_forest, strict=True):
            columns[target.forest_column] = others[target.prediction_column]
    taken = {*table, *(column for columns in predicted for column in columns)}

    def add(name: str, suffix: str, cells: Sequence[Any] | np.ndarray) -> None:
        free = free_name(name, taken, suffix)
        taken.add(free)
        table[free] = cells

    for name, cells in dataset.columns.items():
        add(name, "_input", [cells[graph] for graph in graphs])
    for name, values in dataset.predicted.items():
        add(name, "_input", values[graphs])
    for target, truth, signs, columns in zip(task.targets, labels, bounds, predicted, strict=True):
        if (transform := target.transformation) is not None:
            untransformed = _with_bounds(transform.cells(truth), signs * transform.sign)
            add(target.name, "_true", untransformed)
        add(target.learned_name, "_true", _readable(truth, signs, target))
        table |= columns
    return table


def labels_column(columns: pd.Index, target: Target) -> str | None:
    """Return the column before the predictions of a target: its labels on the learned scale."""
    before = dict(zip(columns[1:], columns[:-1], strict=True))
    name = before.get(target.prediction_column, "")
    return name if name.startswith(target.learned_name) else None


def _with_bounds(labels: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the labels; bounds are texts such as ">10"."""
    if not bounds.any():
        return labels
    pairs = zip(labels, bounds.tolist(), strict=True)
    # the shortest decimal number that is the same float32
    cells = [f"{BOUND_SIGNS[b]}{float(str(v)):.9g}" if b else v for v, b in pairs]
    return np.array(cells, dtype=object)


def _readable(labels: np.ndarray, bounds: np.ndarray, target: Target) -> np.ndarray:
    if not target.classes:
        return _with_bounds(labels, bounds)
    names = np.array([*target.classes, None], dtype=object)
    return names[np.where(np.isnan(labels), len(target.classes), labels).astype(int)]


def targets_table(dataset: Dataset) -> pd.DataFrame:
    """Return a row for each target and split: numbers of rows and labels, and for the exact labels
    on the learned scale mean, sd, min and max, or classes, such as "0: 12; 1: 30"."""
    rows = []
    for summaries in zip(*map(dataset.summaries, dataset.splits.values()), strict=True):
        for (split, graphs), about in zip(dataset.splits.items(), summaries, strict=True):
            classes = "; ".join(f"{name}: {count}" for name, count in about.classes.items()) or None
            of_split = {"target": about.name, "split": split, "rows": len(graphs)}
            rows.append({**vars(about), **of_split, "classes": classes})
    columns = ["target", "kind", "split", "rows", "labels", "bounds", "missing"]
    return pd.DataFrame(rows, columns=[*columns, "mean", "sd", "min", "max", "classes"])


def read_table(path: Path, kind: type = str) -> pd.DataFrame:
    """Return a table of a run as texts or as numbers; an empty one if the file does not exist."""
    if not path.exists():
        return pd.DataFrame()
    try:
        with clear_errors(path, "read"):
            return pd.read_csv(path, dtype=kind, keep_default_na=kind is float)
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}. Restore the file") from error


_PREDICTED = "predicted"  # name of an array and its file
LOG = "log.txt"  # holds what training printed
_BEGIN = {"environment.json", "config.yaml", "splits.json", "rejected.csv", "targets.csv"}


@dataclass(frozen=True)
class LoadedWeights:
    """The weights that a network has from the model that it starts from."""

    loaded: int  # number of parameters that were loaded
    parameters: int  # of the network
    same_targets: tuple[str, ...]  # targets whose outputs were loaded
    new_targets: tuple[str, ...]  # targets whose outputs start with new weights
    excludes: Mapping[str, str]  # data sets that must not be used for scores -> reason
    trained_on: int = 0  # number of validation and test molecules that the start was trained on

    def __str__(self) -> str:
        text = f"{self.loaded:,} of {self.parameters:,} parameters were loaded"
        if self.same_targets:
            text += f"; its output weights were loaded for {first_of(self.same_targets, 5)}"
        if self.new_targets:
            text += f"; new output weights for {first_of(self.new_targets, 5)}"
        return text


@dataclass
class Environment:
    """The entries of `environment.json` that are read back."""

    data: str = ""
    loaded_weights: LoadedWeights | None = None


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
        self._start = self.path / "checkpoints" / "start"

    @staticmethod
    def of_model(model: Path | str) -> RunFolder | None:
        """Return the run of a run folder or of its model folder, if there is one."""
        for path in (Path(model), Path(model).resolve().parent):
            if (path / "config.yaml").is_file() and (path / "splits.json").is_file():
                return RunFolder(path)
        return None

    @staticmethod
    def numbered(name: str) -> Path:
        """Return the first of runs/<name>-1, -2, … that does not exist."""
        number = 1
        while (path := Path("runs") / f"{name}-{number}").exists():
            number += 1
        return path

    @property
    def ensemble(self) -> Path | None:
        """Folder of the ensemble that has this run as a member, if any."""
        above = RunFolder(self.path.parent.parent)
        is_member = above.members == self.path.parent and above.config.exists()
        return above.path if is_member else None

    @property
    def has_begun(self) -> bool:
        return self.checkpoint.exists() or self.members.exists()

    def require_new(self) -> None:
        """Refuse a folder with files, except those of a run that ended before a checkpoint."""
        with clear_errors(self.path, "write"):
            if not self.path.is_dir():
                return
            writing.remove_leftovers(self.path)
            present, begun = set(os.listdir(self.path)) - {LOCK}, self.has_begun
            if self.environment.name in present and not begun:
                present -= {*_BEGIN, LOG, self.checkpoint.parent.name}
        if present:
            resume = f"--resume {shlex.quote(str(self.path))}"
            advice = f", or continue that run with {resume}" if begun else ""
            raise ConfigError(f"{self.path} exists and is not empty: choose another folder{advice}")

    def require_started(self) -> None:
        """Refuse a folder without a run to resume, and restore a model that was being replaced."""
        if not self.config.exists() or not self.checkpoint.exists():
            raise ModelError(
                f"{self.path} is not a run that can be resumed: it needs {self.config.name} and "
                f"{self.checkpoint.relative_to(self.path)}"
            )
        with clear_errors(self.path, "read"):
            writing.remove_leftovers(self.path)

    def begin(self, config: TrainConfig, dataset: Dataset, loaded: LoadedWeights | None) -> None:
        """Write the files that are known before training, and remove what a killed run left."""
        with clear_errors(self.path, "write"):
            if self._start.is_dir():
                shutil.rmtree(self._start)
        start = {} if loaded is None else {"loaded_weights": asdict(loaded)}
        write_json(self.environment, _environment(dataset) | start)
        config.save(self.config)
        with replacing(self.splits) as scratch:  # in the format of chemprop's splits.json
            scratch.write_text(json.dumps([dataset.split_rows()]), encoding="utf-8")
        rejected = dataset.left_out
        if rejected is None:
            merged = (Rejected(*entry[:3]) for entry in dataset.merged)
            entries = sorted([*dataset.rejected, *merged], key=lambda entry: entry.row)
            rejected = pd.DataFrame(entries, columns=list(Rejected._fields))
        self._write_table("rejected.csv", rejected)
        self._write_table("targets.csv", targets_table(dataset))

    def require_same_data(self, dataset: Dataset, *, splits: bool = True) -> None:
        """Check that the data, and with `splits` their splits, have not changed since the start."""
        is_same, problem = self.recorded().data == dataset.digest, ""
        if is_same and splits and (saved := read_json(self.splits)) != [dataset.split_rows()]:
            check_types(list[dict[str, list[int]]], saved, f"{self.splits} is damaged")
            is_same, problem = False, " or have another split"
        if not is_same:
            raise DataError(
                f"the data are no longer those that {self.path} began with{problem}: restore them, "
                "or start a new run"
            )

    def recorded(self) -> Environment:
        content = read_json(self.environment)
        return check_types(Environment, content, f"{self.environment} is damaged")

    def written_metrics(self) -> Metrics | None:
        if not self.metrics.exists():
            return None
        return Metrics.from_json(read_json(self.metrics), f"{self.metrics} is damaged")

    def finished_metrics(self) -> Metrics | None:
        """Return the scores of a finished run, if it has a test split."""
        metrics = self.written_metrics()
        return metrics if metrics is not None and metrics.test else None

    def complete_metrics(self) -> Metrics | None:
        """Return the scores if the report, the last file that training writes, exists, too."""
        return self.finished_metrics() if self.report.exists() else None

    def write_card(self, text: str) -> None:
        with replacing(self.model / README) as scratch:
            scratch.write_text(text, encoding="utf-8")

    def keep_start(self, model: PropertyModel, predicted: Mapping[str, np.ndarray]) -> None:
        """Write the probe, or else the model before its first step, and the predictions of its
        auxiliary models, float32 (G,)."""
        model.save_pretrained(self._start)
        if predicted:
            values = np.stack([*predicted.values()])
            with replacing(self._start / _PREDICTED) as scratch:
                write_array(scratch, _PREDICTED, np.float32, values.shape, [values.tobytes()])

    def start(self) -> PropertyModel | None:
        return PropertyModel.from_pretrained(self._start) if self._start.exists() else None

    def auxiliary(self, molecules: int) -> Auxiliary:
        """Return the auxiliary models of the run, their predictions for its G molecules, and the
        columns of molecules."""
        if (model := self.start()) is None:
            return Auxiliary()
        predicted, names = dict[str, np.ndarray](), model.inputs.predicted
        if names:
            path, shape = self._start / _PREDICTED, (len(names), molecules)
            values = np.array(open_array(path, _PREDICTED, np.float32, shape))
            predicted = dict(zip(names, values, strict=True))
        return Auxiliary(model.auxiliary, predicted, molecules=model.molecules)

    def kept(self) -> PropertyModel:
        return PropertyModel.from_pretrained(self.model)

    def write_history(self, lines: Sequence[Mapping[str, Any]]) -> None:
        with replacing(self.history) as scratch:
            write_csv(scratch, lines[0], (line.values() for line in lines))

    def finish(
        self, model: PropertyModel, dataset: Dataset, predictions: Predictions, metrics: Metrics
    ) -> None:
        model.save_pretrained(self.model)
        for split, values in predictions.values.items():
            graphs, forest = predictions.graphs[split], predictions.forest.get(split)
            table = predictions_table(dataset, model.task, graphs, values, forest)
            self._write_table(f"predictions_{split}.csv", table)
        write_json(self.metrics, metrics.to_json())

    def _write_table(self, name: str, table: Mapping[str, Iterable[Any]]) -> None:
        columns = (["" if pd.isna(cell) else cell for cell in table[name]] for name in table)
        with replacing(self.path / name) as scratch:
            write_csv(scratch, table, zip(*columns, strict=True))


def _environment(dataset: Dataset) -> dict[str, Any]:
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
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv,
        "data": dataset.digest,
        "warnings": list(dataset.warnings),
    }
