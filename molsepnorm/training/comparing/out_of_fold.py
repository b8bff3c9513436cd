"""Cross-validation without a held-out test set: each row is predicted by a model of other folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.tables import read_table
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.files.reading import read_json
from molsepnorm.files.tables import free_name
from molsepnorm.files.writing import clear_errors, replacing, write_csv
from molsepnorm.model import SUPERVISED
from molsepnorm.tasks import Task, json_scores
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import training_dataset
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.recipes import load_dataset
from molsepnorm.training.run_folder.folder import RunFolder

OOF = "oof_predictions.csv"

_UNREADABLE = "a feature column has a value that no training row outside its fold has"
_UNLABELLED = "the row has no label, or the weight 0, so it is in no fold"


def is_nested(config: TrainConfig) -> bool:
    """Return whether every fold is the test set of a run."""
    return config.data.folds is not None and not config.data.test_set


def require_trainable(configs: Iterable[TrainConfig]) -> None:
    """Raise a `ConfigError` or a `DataError` if a fold or a split cannot be trained, before any is.

    Folds of pre-training are not checked.
    """
    for config in configs:
        data = config.data
        if config.objective.name != SUPERVISED:
            if is_nested(config):
                raise ConfigError(
                    "data.test_set: false (--no-test) is for models with targets, and the "
                    f"objective {config.objective.name} has none"
                )
            return
        try:
            OBJECTIVES[SUPERVISED].fit_task(config, training_dataset(config))
        except DataError as error:
            name = "split" if data.folds is None else "fold"
            raise DataError(
                f"{name} {data.fold} (counted from 0) cannot be trained: {error}"
            ) from error


def write_out_of_fold(
    config: TrainConfig, folder: Path, folds: Sequence[Sequence[RunFolder]]
) -> dict[str, Any]:
    """Write `oof_predictions.csv`, and return the scores of all rows together.

    The file has all rows and columns of the table in their order, with the line of each row, its
    fold, the prediction of the model that was trained without this fold, and the reason if there is
    none. A row that was merged into another one has the prediction of that row. With several seeds,
    the prediction is the mean over the seeds.

    Args:
        config: the configuration of the runs.
        folder: folder for the file.
        folds: the finished runs that have each fold as their test set, one for each seed.

    Raises:
        DataError: the table has changed since the runs began.
        ModelError: a file of a run is damaged.
    """
    dataset = load_dataset(config)
    of_molecules = dataset.exact_labels[dataset.molecules]
    task = Task.fit(dataset.targets, of_molecules, "loss", strict=False)
    predictions = np.full((len(dataset.store), task.outputs), np.nan, np.float32)
    fold_of = np.full(len(dataset.store), -1)
    for fold, runs in enumerate(folds):
        for run in runs:
            run.require_same_data(dataset, splits=False)
        graphs = _test_graphs(dataset, runs[0])
        each = [_read_predictions(run, task, len(graphs)) for run in runs]
        predictions[graphs], fold_of[graphs] = np.mean(each, axis=0), fold
    _write(config, dataset, task, predictions, fold_of, folder / OOF)
    graphs = np.flatnonzero(fold_of >= 0)
    scores = task.scores(predictions[graphs], dataset.exact_labels[graphs])
    return {
        "file": OOF,
        "molecules": np.bincount(fold_of[graphs], minlength=len(folds)).tolist(),
        "scores": json_scores(scores),
        "labels": dataset.about_labels({"out of fold": graphs}),
    }


def _test_graphs(dataset: Dataset, run: RunFolder) -> np.ndarray:  # int64 (n,)
    """Return the molecules of a run's test split, in the order of its predictions."""
    merged = {entry.row for entry in dataset.merged}
    rows = [row for row in read_json(run.splits)[0]["test"] if row not in merged]
    return np.searchsorted(dataset.store.rows, sorted(rows))


def _read_predictions(run: RunFolder, task: Task, count: int) -> np.ndarray:  # float32 (n, O)
    """Return the predictions of a run's test molecules, on the scales that are learned."""
    names = [name for target in task.targets for name in target.output_columns]
    path = run.path / "predictions_test.csv"
    try:
        with clear_errors(path, "read"):
            table = pd.read_csv(path, dtype=str)
        predictions = table[names].to_numpy(dtype=object).astype(np.float32)
        if len(predictions) != count:
            raise ValueError(f"it has {len(predictions)} rows, and the test split has {count}")
    except (ValueError, KeyError) as error:
        raise ModelError(f"{path} is damaged: {error}. Train this fold again") from error
    return predictions


def _write(
    config: TrainConfig,
    dataset: Dataset,
    task: Task,
    predictions: np.ndarray,  # float32 (G, O)
    fold_of: np.ndarray,  # int (G,), -1 for a molecule without a prediction
    path: Path,
) -> None:
    source = config.data.table
    assert source is not None
    table = read_table(source, config.data.reading)
    graph_of = np.full(len(table), -1)
    graph_of[dataset.store.rows] = np.arange(len(dataset.store))
    for entry in dataset.merged:
        graph_of[entry.row] = graph_of[entry.into]
    # the last entry is that of rows without a molecule
    folds = np.append(fold_of, -1)[graph_of]
    unlabelled = np.append(np.isnan(dataset.labels).all(axis=1), False)[graph_of]
    values = np.concatenate([predictions, np.full((1, task.outputs), np.nan, np.float32)])[graph_of]
    errors = {entry.row: entry.reason for entry in dataset.rejected}
    added: dict[str, Sequence[Any] | np.ndarray] = {"fold": [f if f >= 0 else "" for f in folds]}
    added |= {name: column for part in task.tables(values) for name, column in part.items()}
    reasons = np.where(folds >= 0, "", np.where(unlabelled, _UNLABELLED, _UNREADABLE))
    added["error"] = [errors.get(row, reason) for row, reason in enumerate(reasons)]
    own = [table.iloc[:, number] for number in range(table.shape[1])]
    names = [free_name(name, table.columns, "_oof") for name in ("line", *added)]
    rows = zip(table.index, *own, *added.values(), strict=True)
    with replacing(path) as scratch:
        header = [names[0], *table.columns, *names[1:]]
        write_csv(scratch, header, (["" if pd.isna(c) else c for c in row] for row in rows))
