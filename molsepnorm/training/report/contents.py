"""The contents of a report, from the files in the folder of a finished run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.errors import ModelError
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.model import PropertyModel
from molsepnorm.tasks import Target
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import load_config
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.run_folder.folder import RunFolder, labels_column, read_table


@dataclass(frozen=True, eq=False)
class TargetPredictions:
    """Labels and predictions of a target for the n molecules of a split."""

    target: Target
    labels: np.ndarray  # float64 [n]: learned scale or class index; NaN without an exact label
    values: np.ndarray  # float64 [n, O]: value, probability of class 1, or those of all classes
    bounds: int  # number of labels that are bounds, such as >10

    @property
    def scored(self) -> np.ndarray:
        """bool [n]: the molecules with an exact label and a finite prediction."""
        return np.isfinite(self.labels) & np.isfinite(self.values).all(axis=1)

    def truth(self, row: int) -> str:
        label = self.labels[row]
        if self.target.kind == "regression":
            return f"{label:.{self.target.digits - 2}g}"
        return self.target.classes[int(label)] if self.target.classes else f"{label:.0f}"

    def prediction(self, row: int) -> str:
        values = self.values[row]
        if self.target.kind == "regression":
            return f"{values[0]:.{self.target.digits - 2}g}"
        if self.target.kind == "binary":
            return f"probability {values[0]:.3f}"
        best = int(values.argmax())
        return f"{self.target.classes[best]} (probability {values[best]:.3f})"


@dataclass(frozen=True, eq=False)
class Contents:
    run: RunFolder
    config: TrainConfig
    metrics: Metrics
    environment: dict[str, Any]
    model: PropertyModel
    tables: dict[str, pd.DataFrame]  # texts of `predictions_<split>.csv`
    labels: pd.DataFrame  # texts of `targets.csv`
    rejected: pd.DataFrame  # texts of `rejected.csv`
    histories: dict[str, pd.DataFrame]  # numbers of `history.csv`, by member; "" for the only one

    @staticmethod
    def read(folder: Path | str) -> Contents:
        run = RunFolder(folder)
        if not run.config.is_file():
            raise ModelError(
                f"{run.path} is not the folder of a run, such as runs/logS-1: it has no config.yaml"
            )
        if (metrics := run.finished_metrics()) is None:
            raise ModelError(
                f"{run.path} has no test scores to report: its data have no test split, or it is "
                f"not finished (molsepnorm train --resume {shlex.quote(str(run.path))})"
            )
        environment = read_json(run.environment) if run.environment.exists() else {}
        paths = {split: run.path / f"predictions_{split}.csv" for split in ("train", "val", "test")}
        members = sorted(run.members.glob("*/history.csv"), key=lambda path: path.parent.name)
        histories = {f"member {path.parent.name}": path for path in members} or {"": run.history}
        return Contents(
            run=run,
            config=load_config(config=run.config),
            metrics=metrics,
            environment=check_types(dict, environment, f"{run.environment} is damaged"),
            model=PropertyModel.from_pretrained(run.model),
            tables={split: read_table(path) for split, path in paths.items() if path.exists()},
            labels=read_table(run.path / "targets.csv"),
            rejected=read_table(run.path / "rejected.csv"),
            histories={name: _history(path) for name, path in histories.items()},
        )

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.model.task.targets

    def smiles(self, split: str) -> list[str]:
        return [*self.tables.get(split, {}).get("smiles", ())]

    def predicted(self, split: str, target: Target) -> TargetPredictions | None:
        """Return labels and predictions of a split; None if the run wrote none."""
        table = self.tables.get(split)
        if table is None:
            return None
        try:
            # one by one: a list of names would be looked up in all columns
            values = [_numbers(table[name]) for name in target.output_columns]
            cells = table[labels_column(table.columns, target)]
            bounds = cells.str.startswith((">", "<")) & (target.kind == "regression")
            if target.classes:
                codes = {name: float(i) for i, name in enumerate(target.classes)} | {"": np.nan}
                labels = np.array([codes[cell] for cell in cells])
            else:
                labels = _numbers(cells.mask(bounds, ""))
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"{self.run.path / f'predictions_{split}.csv'} is damaged: labels or predictions "
                f"of {target.name} cannot be read ({error}). Restore the file"
            ) from error
        return TargetPredictions(target, labels, np.stack(values, axis=1), int(bounds.sum()))


def _numbers(cells: pd.Series) -> np.ndarray:
    return cells.replace("", "nan").to_numpy(dtype=np.float64)


def _history(path: Path) -> pd.DataFrame:
    history = read_table(path, float)
    if len(history) and "epoch" not in history:
        raise ModelError(f"{path} is damaged: it has no column epoch. Restore the file")
    return history
