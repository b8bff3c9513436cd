"""`train_replicates`: one configuration over several seeds and splits, and their mean scores."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, product
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.tables import read_table
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.files.reading import read_json
from molsepnorm.files.tables import free_name
from molsepnorm.files.writing import replacing, write_csv, write_json
from molsepnorm.model import SUPERVISED
from molsepnorm.tasks import Task, json_scores
from molsepnorm.tasks.metrics import mean_and_sd
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import training_dataset
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.recipes import load_dataset
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.run import require_same_settings, train
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.run_folder.folder import read_table as read_run_table


@dataclass(frozen=True)
class Replicates:
    """The result of `train_replicates`."""

    folder: Path
    runs: dict[str, dict[str, Any]]
    """`metrics.json` of every finished run, by the name of its folder."""
    summary: dict[str, Any]
    """The content of `summary.json`: mean and unbiased standard deviation of every score, and in
    `leaks` the reasons why those of some runs are too optimistic.

    If every fold is a test set (`data.test_set: false`), they are over the folds, each with the
    mean score of its seeds."""
    finished: bool
    """False if a callback stopped it; the same call continues it."""


def train_replicates(
    config: TrainConfig,
    folder: Path | str,
    *,
    seeds: Sequence[int],
    splits: int | None = None,
    callback: Callback | Iterable[Callback] | None = None,
) -> Replicates:
    """Train with each seed, and on each of several splits, one run after the other.

    Finished runs are not repeated, and a stopped run is continued. If every fold is a test set
    (`data.test_set: false`), `oof_predictions.csv` is written at the end.

    >>> config = load_config("ogbg-molhiv")                                # doctest: +SKIP
    >>> replicates = train_replicates(config, "runs/molhiv", seeds=range(10))  # doctest: +SKIP
    >>> replicates.summary["test"]["roc_auc"]                             # doctest: +SKIP
    {'mean': 0.771, 'sd': 0.009, 'values': [0.768, ...]}

    Args:
        config: the configuration; `run.seed` and `data.fold` are replaced.
        folder: the folder for the results, with a folder per run and `summary.json`.
        splits: number of splits: the first entries of `data.splits_file`, or replicates with other
            training and validation molecules. None for the configured split, or for all folds if
            `data.folds` is set.

    Raises:
        ConfigError: no seed, a repeated seed, splits that do not exist, or the folder holds runs
            of another configuration.
        DataError: the folder holds runs on other data, or as in `train`.
        ModelError, StorageError: as in `train`.
    """
    folder = Path(folder)
    if not len(seeds) or len(set(seeds)) < len(seeds):
        raise ConfigError("at least one seed is needed, each once, such as 0-9 or 0,1,2")
    if splits is not None:
        _require_several(config, splits)
    splits = splits or config.data.folds
    configs: dict[RunFolder, TrainConfig] = {}
    kind = "fold" if config.data.folds else "split"
    for fold, seed in product([config.data.fold] if splits is None else range(splits), seeds):
        prefix = "" if splits is None else f"{kind}-{fold}-"
        run = RunFolder(folder / f"{prefix}seed-{seed}")
        configs[run] = config.changed({"data.fold": fold, "run.seed": seed})
    _require_ready(configs, splits is not None)
    runs: dict[str, dict[str, Any]] = {}
    summary: dict[str, Any] = {}
    for run, seeded in configs.items():
        metrics = run.complete_metrics()
        if metrics is None:
            begun = run.has_begun
            result = train(None if begun else seeded, run.path, resume=begun, callback=callback)
            if not result.finished:
                break
        runs[run.path.name] = result.metrics if metrics is None else metrics.to_json()
        summary = _summary(config, runs, len(seeds))
        write_json(folder / "summary.json", summary)
    finished = len(runs) == len(configs)
    if finished and is_nested(config):
        paths = list(configs)
        folds = [paths[i : i + len(seeds)] for i in range(0, len(paths), len(seeds))]
        summary["out_of_fold"] = write_out_of_fold(config, folder, folds)
        write_json(folder / "summary.json", summary)
    return Replicates(folder, runs, summary, finished)


def _require_several(config: TrainConfig, splits: int) -> None:
    data = config.data
    if splits < 1:
        raise ConfigError(f"at least one split is needed; got {splits}")
    if data.folds is not None and splits != data.folds:
        raise ConfigError(f"data.folds is {data.folds}, the number of splits; got {splits}")
    if data.table is None or data.column_of_split is not None:
        owner = data.dataset or f"the column '{data.column_of_split}'"
        raise ConfigError(f"{owner} defines the split, so there is one split and no replicates")


def _require_ready(configs: Mapping[RunFolder, TrainConfig], several_splits: bool) -> None:
    """Check, before hours of training, that existing runs fit and that new ones are trainable."""
    for run, config in configs.items():
        if run.config.exists():
            require_same_settings(config, run)
    first, *_ = configs.values()
    is_supervised = first.objective.name == SUPERVISED
    if is_nested(first) and not is_supervised:
        raise ConfigError("data.test_set: false (--no-test) is for models with targets")
    if first.data.table is None:
        return
    for fold, group in groupby(configs, key=lambda run: configs[run].data.fold):
        runs = list(group)
        config = configs[runs[0]]
        begun = [run for run in runs if run.environment.exists()]
        dataset = training_dataset(config)
        dataset.require_test("Each replicate")
        for run in begun:
            run.require_same_data(dataset, splits=run.splits.exists())
        try:
            if several_splits and is_supervised and not begun:
                OBJECTIVES[SUPERVISED].fit_task(config, dataset)
        except DataError as error:
            name = "split" if config.data.folds is None else "fold"
            raise DataError(f"{name} {fold} (counted from 0) cannot be trained: {error}") from error


def _summary(config: TrainConfig, runs: dict[str, dict[str, Any]], seeds: int) -> dict[str, Any]:
    first, *_ = metrics = list(runs.values())
    size = seeds if is_nested(config) else 1
    groups = [metrics[i : i + size] for i in range(0, len(metrics), size)]
    summary = {
        "data": first["data"],
        "chosen_by": ", ".join(sorted({run["chosen_by"] for run in metrics})),
        "runs": list(runs),
        "val": _spreads(groups, "val"),
        "test": _spreads(groups, "test"),
        "parameters": first["parameters"],
        "seconds": _spread([run["seconds"] for run in metrics]),
        "command": sys.argv,
        "config": config.content(),
    }
    if "test_constant" in first:
        summary["test_constant"] = _spreads(groups, "test_constant")
    if all("baseline" in run for run in metrics):
        parts = {split: _spreads(groups, "baseline", split) for split in ("val", "test")}
        summary["baseline"] = parts
        if is_nested(config):
            summary["baseline_difference"] = {
                name: _difference(ours["values"], parts["test"][name]["values"], config.data.folds)
                for name, ours in summary["test"].items()
            }
    leaks = {name: Metrics.from_json(run).leaks for name, run in runs.items()}
    if any(leaks.values()):
        summary["leaks"] = {name: reasons for name, reasons in leaks.items() if reasons}
    if labels := _common([run.get("labels", {}) for run in metrics]):
        summary["labels"] = labels
    return summary


def _spreads(groups: Sequence[Sequence[Mapping[str, Any]]], *path: str) -> dict[str, Any]:
    """Return the spread of each score over groups of runs; a group has the mean of its runs."""
    parts = [[reduce(getitem, path, run) for run in group] for group in groups]
    return {
        name: _spread([mean_and_sd([part[name] for part in group])["mean"] for group in parts])
        for name in parts[0][0]
    }


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    return {**mean_and_sd(values), "values": list(values)}


def _difference(ours: list[Any], others: list[Any], folds: int | None) -> dict[str, Any]:
    gap = paired_difference(ours, others, folds)
    pairs = zip(ours, others, strict=True)
    values = [None if one is None or other is None else one - other for one, other in pairs]
    ends = None if gap.interval is None else list(gap.interval)
    return {"difference": gap.mean, "interval_95": ends, "values": values}


def _common(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the entries about the labels of each target that are the same in all runs."""
    common: dict[str, dict[str, Any]] = defaultdict(dict)
    for target, about in runs[0].items():
        for key, value in about.items():
            if all(run.get(target, {}).get(key) == value for run in runs):
                common[target][key] = value
    return dict(common)


_ROUNDING = 1e-9  # relative size of a standard error that is rounding


@dataclass(frozen=True)
class Difference:
    """Mean difference of scores over pairs of runs with equal seed and split, or over folds.

    `interval` is the 95 % interval by Student's t, None for a single pair or equal differences;
    `mean` is None without pairs.
    """

    mean: float | None
    interval: tuple[float, float] | None
    pairs: int


def paired_difference(
    scores: Sequence[float | None], base: Sequence[float | None], folds: int | None = None
) -> Difference:
    """Compare scores with others in pairs; a pair with an undefined score, None, does not count.

    The training sets of two folds overlap, so the plain standard error of their differences is too
    small. If each pair is one of `folds`, Nadeau and Bengio correct it: the variance of the mean is
    (1/k + n_test/n_train) times the variance of the k differences, and n_test/n_train is 1/(folds -
    1).

    >>> paired_difference([0.31, 0.35, 0.30], [0.32, 0.37, 0.33])
    Difference(mean=-0.02..., interval=(-0.044..., 0.004...), pairs=3)
    >>> paired_difference([0.8, 0.9, 0.7, 0.9, 0.8], [1.0, 1.0, 1.0, 1.0, 1.0], folds=5)
    Difference(mean=-0.18..., interval=(-0.33..., -0.02...), pairs=5)

    Source: Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52 (2003).
    """
    from scipy import stats

    defined = [pair for pair in zip(scores, base, strict=True) if None not in pair]
    pairs = np.array(defined, dtype=float).reshape(-1, 2)
    differences, count = pairs[:, 0] - pairs[:, 1], len(pairs)
    if not count:
        return Difference(None, None, 0)
    mean, overlap = float(differences.mean()), 0.0 if folds is None else 1 / (folds - 1)
    error = float(differences.std(ddof=min(1, count - 1)) * np.sqrt(1 / count + overlap))
    if error <= _ROUNDING * np.abs(pairs).max():
        return Difference(mean, None, count)
    low, high = stats.t.interval(0.95, count - 1, mean, error)
    return Difference(mean, (float(low), float(high)), count)


OOF = "oof_predictions.csv"
_UNREADABLE = "a feature column has a value that no training row outside its fold has"
_UNLABELLED = "the row has no label, or the weight 0, so it is in no fold"


def is_nested(config: TrainConfig) -> bool:
    return config.data.folds is not None and not config.data.test_set


def write_out_of_fold(
    config: TrainConfig, folder: Path, folds: Sequence[Sequence[RunFolder]]
) -> dict[str, Any]:
    """Write `oof_predictions.csv`, and return the scores of all rows together.

    The file has all rows and columns of the table, with the line of each row, its fold, the
    prediction of the model that was trained without this fold (the mean over the seeds), and the
    reason if there is none. A row that was merged into another one has its prediction. `folds` are
    the finished runs that have each fold as their test set, one for each seed.
    """
    dataset = load_dataset(config)
    task = Task.fit(dataset.targets, dataset.exact_labels[dataset.molecules], "loss", strict=False)
    # the last entry is for rows without a molecule
    predictions = np.full((len(dataset.store) + 1, task.outputs), np.nan, np.float32)
    fold_of = np.full(len(dataset.store) + 1, -1)
    merged = {entry.row: entry.into for entry in dataset.merged}
    for fold, runs in enumerate(folds):
        for run in runs:
            run.require_same_data(dataset, splits=False)
        rows = [row for row in read_json(runs[0].splits)[0]["test"] if row not in merged]
        graphs = np.searchsorted(dataset.store.rows, sorted(rows))
        of_runs = [_read_predictions(run, task, len(graphs)) for run in runs]
        predictions[graphs], fold_of[graphs] = np.mean(of_runs, axis=0), fold
    assert config.data.table is not None
    table = read_table(config.data.table, config.data.reading)
    graph_of = np.full(len(table), -1)
    graph_of[dataset.store.rows] = np.arange(len(dataset.store))
    graph_of[[*merged]] = graph_of[[*merged.values()]]
    unlabelled = np.append(np.isnan(dataset.labels).all(axis=1), False)
    reasons = np.where(fold_of >= 0, "", np.where(unlabelled, _UNLABELLED, _UNREADABLE))
    added: dict[str, Any] = {"fold": np.where(fold_of >= 0, fold_of.astype(object), "")[graph_of]}
    for part in task.tables(predictions[graph_of]):
        added |= part
    added["error"] = reasons.astype(object)[graph_of]
    for rejected in dataset.rejected:
        added["error"][rejected.row] = rejected.reason
    columns = [table.iloc[:, number] for number in range(table.shape[1])]
    line, *names = (free_name(name, table.columns, "_oof") for name in ("line", *added))
    with replacing(folder / OOF) as scratch:
        whole = zip(table.index, *columns, *added.values(), strict=True)
        cells = (["" if pd.isna(cell) else cell for cell in row] for row in whole)
        write_csv(scratch, [line, *table.columns, *names], cells)
    scored = np.flatnonzero(fold_of >= 0)
    return {
        "file": OOF,
        "molecules": np.bincount(fold_of[scored], minlength=len(folds)).tolist(),
        "scores": json_scores(task.scores(predictions[scored], dataset.exact_labels[scored])),
        "labels": dataset.about_labels({"out of fold": scored}),
    }


def _read_predictions(run: RunFolder, task: Task, count: int) -> np.ndarray:  # float32 (n, O)
    names = [name for target in task.targets for name in target.output_columns]
    path = run.path / "predictions_test.csv"
    try:
        cells = read_run_table(path)[names].replace("", "nan").to_numpy(dtype=object)
        if len(cells) != count:
            raise ValueError(f"it has {len(cells)} rows, and the test split has {count}")
        return cells.astype(np.float32)
    except (ValueError, KeyError) as error:
        raise ModelError(f"{path} is damaged: {error}. Train this fold again") from error
