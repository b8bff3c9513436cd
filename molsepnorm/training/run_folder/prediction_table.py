"""The tables of a run: labels and predictions, and the labels of each split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ModelError
from molsepnorm.files.tables import free_name
from molsepnorm.files.writing import clear_errors
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.target import BOUND_SIGNS


def predictions_table(
    dataset: Dataset,
    task: Task,
    graphs: np.ndarray,
    predictions: np.ndarray,
    baseline: np.ndarray | None,
) -> dict[str, Any]:
    """Return columns with label and prediction of molecules (n,), in the source's order.

    Feature columns are among them, since they tell the rows of a molecule apart. <target>_forest is
    the prediction of the baseline. If a target has the name of another column, its labels are in
    <target>_true; a feature column that is named like a prediction ends in _input.
    """
    order = np.argsort(dataset.store.rows[graphs], kind="stable")
    graphs, predictions = graphs[order], predictions[order]
    rows = dataset.store.rows[graphs]
    table: dict[str, Any] = dict([dataset.position(rows)])
    table |= {name: [cells[row] for row in rows] for name, cells in dataset.identifiers.items()}
    if (smiles := dataset.source_smiles) is not None:
        table["smiles"] = [smiles[row] for row in rows]
    labels, predicted = dataset.labels[graphs].T, task.tables(predictions)
    bounds = dataset.bound_signs[graphs].T
    if baseline is not None:
        for target, columns, others in zip(
            task.targets, predicted, task.tables(baseline[order]), strict=True
        ):
            columns[target.forest_column] = others[target.prediction_column]
    taken = {*table, *(column for columns in predicted for column in columns)}
    for name, inputs in dataset.columns.items():
        free = free_name(name, taken, "_input")
        taken.add(free)
        table[free] = [inputs[graph] for graph in graphs]
    for target, truth, of_truth, columns in zip(
        task.targets, labels, bounds, predicted, strict=True
    ):
        cells = {target.name: _readable(truth, of_truth, target)}
        if (transform := target.transformation) is not None:
            own = _with_bounds(transform.cells(truth), of_truth * transform.sign)
            cells = {target.name: own, target.learned_name: cells[target.name]}
        for name, values in cells.items():
            free = free_name(name, taken, "_true")
            taken.add(free)
            table[free] = values
        table |= columns
    return table


def labels_column(columns: pd.Index, target: Target) -> str | None:
    """Return the column before the predictions of a target: its labels on the learned scale."""
    first = target.prediction_column
    place = columns.get_loc(first) if first in columns else 0
    name = columns[place - 1] if place else ""
    return name if name.startswith(target.learned_name) else None


def _with_bounds(labels: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the labels, those of bounds as texts such as ">10"."""
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
    """Return a row for each target and split: numbers of rows, labels (with bounds), bounds and
    missing labels; and for the exact labels on the learned scale mean, sd, min and max, or classes,
    such as "0: 12; 1: 30"."""
    rows = []
    for summaries in zip(*map(dataset.summaries, dataset.splits.values()), strict=True):
        for (split, graphs), each in zip(dataset.splits.items(), summaries, strict=True):
            classes = "; ".join(f"{name}: {count}" for name, count in each.classes.items()) or None
            of_split = {"target": each.name, "split": split, "rows": len(graphs)}
            rows.append({**vars(each), **of_split, "classes": classes})
    columns = ["target", "kind", "split", "rows", "labels", "bounds", "missing"]
    return pd.DataFrame(rows, columns=[*columns, "mean", "sd", "min", "max", "classes"])


def read_table(path: Path, kind: type = str) -> pd.DataFrame:
    """Return a table of a run as texts or as numbers; an empty one if the file does not exist.

    Raises:
        ModelError: the file is damaged.
        StorageError: it cannot be read.
    """
    if not path.exists():
        return pd.DataFrame()
    try:
        with clear_errors(path, "read"):
            return pd.read_csv(path, dtype=kind, keep_default_na=kind is float)
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}. Restore the file") from error
