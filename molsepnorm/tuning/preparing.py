"""The checks and the data of a search, before its first trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.tables import is_stream
from molsepnorm.errors import ConfigError
from molsepnorm.model import SUPERVISED
from molsepnorm.tasks.metrics import METRICS, Metric
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.parsing import seconds_of
from molsepnorm.training.recipes import load_dataset

_MOLECULES, _MAX_SPLITS = 500, 5
"""A trial validates on this number of molecules, over at most this number of splits."""


def check_search(config: TrainConfig, trials: int | None, budget: str | None) -> float:
    """Check the arguments of `tune` without the data; return the budget in seconds."""
    data = config.data
    data.require_split()
    refused = {
        "give the number of trials (--trials 50), a budget (--budget 1h), or both": (
            trials is None and budget is None
        ),
        f"at least one trial is needed; got {trials}": trials is not None and trials < 1,
        f"objective.name is {config.objective.name}: only {SUPERVISED} is tuned": (
            config.objective.name != SUPERVISED
        ),
        "run.budget is not used in a search, where run.epochs is the length of a trial: leave it "
        "out": config.run.budget is not None,
        "data.test_set: false (--no-test) makes each fold a test split in turn, so a search would "
        "choose settings by molecules that score the best one later: leave it out": (
            data.folds is not None and not data.test_set
        ),
        "the data are a pipe, and a search may be continued later: write them to a file": any(
            path is not None and is_stream(path) for path in (data.table, data.splits_file)
        ),
    }
    for message, is_refused in refused.items():
        if is_refused:
            raise ConfigError(message)
    try:
        return math.inf if budget is None else seconds_of(budget)
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
        splits = folds or _default_splits(config, first)
    if splits < 1:
        raise ConfigError(f"at least one split is needed; got {splits}")
    numbers = [config.data.fold + number for number in range(1, splits)]
    others = [
        config.changed({"data.fold": number % folds if folds else number}) for number in numbers
    ]
    return [_without_test(each) for each in [first, *map(load_dataset, others)]]


def _default_splits(config: TrainConfig, data: Dataset) -> int:
    """Return how many splits to validate on enough molecules; 1 if the split cannot be drawn
    again."""
    try:
        config.changed({"data.fold": config.data.fold + 1})
    except ConfigError:
        return 1
    molecules = len(np.unique(data.molecule_ids[data.splits["val"]]))
    is_given = config.data.splits_file is not None
    return 1 if is_given else min(_MAX_SPLITS, math.ceil(_MOLECULES / molecules))


def _without_test(dataset: Dataset) -> Dataset:
    """Return the data set without the test split, and without the labels of its molecules."""
    splits = {**dataset.splits, "test": np.empty(0, np.int64)}
    used = np.concatenate([splits["train"], splits["val"]])
    labels = np.full_like(dataset.labels, np.nan)
    labels[used] = dataset.labels[used]
    return replace(dataset, labels=labels, splits=splits)


def common_metric(config: TrainConfig, data: Sequence[Dataset]) -> Metric:
    """Return the metric that compares trials.

    Raises:
        ConfigError: it is undefined on the validation molecules of a split.
    """
    fit_task = OBJECTIVES[config.objective.name].fit_task
    names = {fit_task(config, each)[0].metric for each in data}
    if len(names) > 1 or config.run.metric not in (None, *names):
        raise ConfigError(
            "the metric is undefined on the validation molecules of a split (too few labels, or "
            "all of one class): try --split-type stratified, a larger validation split, or "
            "--metric loss"
        )
    return METRICS[names.pop()]
