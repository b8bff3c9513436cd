"""The checks and the data of a search, before its first trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.tables import is_stream
from molsepnorm.errors import ConfigError, counted
from molsepnorm.model import SUPERVISED
from molsepnorm.tasks.metrics import METRICS, Metric
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.parsing import seconds_of
from molsepnorm.training.recipes import load_dataset

_MOLECULES, _MAX_SPLITS = 500, 5
"""A trial validates on this number of molecules, over at most this number of splits."""


def check_search(config: TrainConfig, trials: int | None, budget: str | None) -> float | None:
    """Check the arguments of `tune` without the data; return the budget in seconds."""
    if trials is None and budget is None:
        raise ConfigError(
            "give the number of trials (--trials 50), a budget (--budget 1h), or both"
        )
    if trials is not None and trials < 1:
        raise ConfigError(f"at least one trial is needed; got {trials}")
    if config.objective.name != SUPERVISED:
        raise ConfigError(f"objective.name is {config.objective.name}: only {SUPERVISED} is tuned")
    if config.run.budget is not None:
        raise ConfigError(
            "run.budget is not used in a search, where run.epochs is the length of a trial: leave "
            "it out"
        )
    config.data.require_split()
    if config.data.folds is not None and not config.data.test_set:
        raise ConfigError(
            "data.test_set: false (--no-test) makes each fold a test split in turn, so a search "
            "would choose settings by molecules that score the best one later: leave it out"
        )
    for path in (config.data.table, config.data.splits_file):
        if path is not None and is_stream(path):
            raise ConfigError(
                f"{path} is a pipe, and a search may be continued later: write the data to a file"
            )
    try:
        return None if budget is None else seconds_of(budget)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def load_splits(config: TrainConfig, splits: int | None) -> list[Dataset]:
    """Load the data set with each of its splits, without test labels."""
    first = load_dataset(config)
    first.require_test("The best configuration of a search")
    folds = config.data.folds
    if folds is not None and splits not in (None, folds):
        raise ConfigError(
            f"data.folds is {folds}, and a trial is trained on every fold; got {splits} splits"
        )
    if splits is None:
        molecules = np.unique(first.molecule_ids[first.splits["val"]])
        splits = folds or _default_splits(config, len(molecules))
    if splits < 1:
        raise ConfigError(f"at least one split is needed; got {splits}")
    numbers = [config.data.fold + number for number in range(1, splits)]
    others = [
        config.changed({"data.fold": number % folds if folds else number}) for number in numbers
    ]
    data = [first, *map(load_dataset, others)]
    return [_without_test(each) for each in data]


def _default_splits(config: TrainConfig, molecules: int) -> int:
    """Return how many splits to validate on enough molecules; 1 if the split cannot be drawn
    again."""
    if config.data.splits_file is not None:
        return 1
    try:
        config.changed({"data.fold": config.data.fold + 1})
    except ConfigError:
        return 1
    return min(_MAX_SPLITS, math.ceil(_MOLECULES / molecules))


def _without_test(dataset: Dataset) -> Dataset:
    """Return the data set without the test split, and without the labels of its molecules."""
    splits = {**dataset.splits, "test": np.empty(0, np.int64)}
    used = np.concatenate([splits["train"], splits["val"]])
    labels = np.full_like(dataset.labels, np.nan)
    labels[used] = dataset.labels[used]
    return replace(dataset, labels=labels, splits=splits)


def common_metric(config: TrainConfig, data: Sequence[Dataset], callback: Callback) -> Metric:
    """Return the metric that compares trials: the loss if the metric of the data is undefined on
    the validation molecules of a split.

    Raises:
        ConfigError: the metric is undefined, and the configuration names it.
    """
    fit_task = OBJECTIVES[config.objective.name].fit_task
    tasks, fitted = zip(*(fit_task(config, each) for each in data), strict=True)
    undefined = sum(
        len(after.warnings) > len(before.warnings)  # that the loss replaces the metric
        for before, after in zip(data, fitted, strict=True)
    )
    if not undefined:
        return METRICS[tasks[0].metric]
    where = (
        f"undefined on the validation molecules of {undefined} of {counted(len(data), 'split')} "
        "(too few labels, or all of one class)"
    )
    if config.run.metric is not None:
        raise ConfigError(
            f"run.metric {config.run.metric} is {where}: try --split-type stratified or a larger "
            "validation split, or leave --metric out to compare the trials by the loss"
        )
    callback.on_warning(f"The metric is {where}, so the trials are compared by the loss.")
    return METRICS["loss"]
