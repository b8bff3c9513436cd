"""`evaluate`: scores of a trained model on data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from molsepnorm.data import datasets
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.datasets import DataConfig, Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.predict.inference import Precision, pick_device, predict
from molsepnorm.tasks import Task, check_labels
from molsepnorm.training.config import load_config
from molsepnorm.training.folder import RunFolder

__all__ = ["Evaluation", "Selection", "evaluate", "score_on", "select"]


class Evaluation(NamedTuple):
    """What `evaluate` found."""

    dataset: Dataset
    split: str
    molecules: int
    """How many were scored."""
    not_finite: int
    """Number of molecules with a prediction that is not finite: their targets have no scores."""
    scores: dict[str, float]
    """By metric, see `molsepnorm.tasks.Task.scores`."""


class Selection(NamedTuple):
    """A model, and molecules encoded for it."""

    model: PropertyModel
    dataset: Dataset
    split: str
    graphs: np.ndarray
    """int64 [n]: which molecules of the data set's store."""


def evaluate(
    model: PropertyModel | Path | str,
    data: DataConfig,
    split: str | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
) -> Evaluation:
    """Score a model on a split of a data set, or on all its molecules.

    Args:
        model: a model, or its folder. A run's folder knows how its own table was split, so that
            "test" are the molecules that were not trained on.
        data: what to score it on.
        split: train, val, test, or all. By default test; for a table that the folder's run has
            not been trained on, all.
        device: where to run it, and where the model stays: auto (a GPU where there is one), cpu,
            cuda, cuda:1, …
        precision: of matrix products: fp32, tf32 on a GPU, or bf16.

    Raises:
        ConfigError: no such split or device, or the data set lacks one of the model's targets.
        DataError: the data cannot be had or used, or changed since the run began.
        ModelError: the folder holds no complete model.
    """
    place = pick_device(device)
    model, dataset, split, graphs = select(model, data, split)
    labels = dataset.labels[graphs]
    check_labels(model.task.targets, labels)
    model.network.to(place)
    predictions = predict(model, GraphTensors.of(dataset.store, place), graphs, precision)
    scores = score_on(dataset, model.task, predictions, labels)
    odd = int((~np.isfinite(predictions).all(axis=1)).sum())
    return Evaluation(dataset, split, len(graphs), odd, scores)


def select(
    model: PropertyModel | Path | str,
    data: DataConfig,
    split: str | None = None,
    usual: str = "test",
    labelled: bool = True,
) -> Selection:
    """Molecules to show a model; errors as in `evaluate`, and arguments too.

    Args:
        model: a model, or its folder.
        data: where the molecules come from.
        split: which of them.
        usual: the split in place of None, where the data have splits.
        labelled: whether a table must have the model's targets, as in `datasets.load`.
    """
    names = (*datasets.SPLITS, "all")
    if split is not None and split not in names:
        raise ConfigError(f"unknown split '{split}': choose one of {', '.join(names)}")
    own_run = None
    if not isinstance(model, PropertyModel):
        folder, model = model, PropertyModel.from_pretrained(model)
        if data.table is not None:
            data, split, own_run = _own_split(RunFolder.of_model(folder), data, split, usual)
    split = split or usual
    data = _fit_to_model(data, model)
    dataset = datasets.load(
        data.model_copy(update={"split": None}) if split == "all" else data,
        model.encoding,
        labelled,
    )
    if own_run is not None and split != "all":
        own_run.require_same_data(dataset)
    if dataset.targets != model.task.names:
        raise ConfigError(
            f"the model predicts {', '.join(model.task.names)}, and the data have "
            f"{', '.join(dataset.targets)}"
        )
    graphs = np.arange(len(dataset.store)) if split == "all" else dataset.splits[split]
    return Selection(model, dataset, split, graphs)


def score_on(
    dataset: Dataset, task: Task, predictions: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """`Task.scores`, where a set with an evaluation of its own has the last word on its metric."""
    scores = task.scores(predictions, labels)
    if dataset.evaluator is not None and dataset.metric is not None:
        scores[dataset.metric] = dataset.evaluator(predictions, labels)
    return scores


def _own_split(
    run: RunFolder | None, data: DataConfig, split: str | None, usual: str
) -> tuple[DataConfig, str, RunFolder | None]:
    """The table with the split of the run, if it was trained on it; otherwise all of it."""
    assert data.table is not None
    own = load_config(config=run.config).data if run else None
    if own is not None and own.table is not None and own.table == data.table.resolve():
        assert run is not None
        if own.splits_file is not None:  # the run kept what it said
            own = own.model_copy(update={"splits_file": run.splits, "fold": 0})
        return own, split or usual, run
    if split not in (None, "all"):
        raise ConfigError(
            f"{data.table} has no split '{split}': the model was not trained on this table, so all "
            "its molecules can be scored (--split all)"
        )
    return data, "all", None


def _fit_to_model(data: DataConfig, model: PropertyModel) -> DataConfig:
    """The data with the model's features and targets."""
    if datasets.featurizer_of(data) != model.featurizer:
        if data.dataset is not None:
            raise ConfigError(
                f"the model reads '{model.featurizer}' features and {data.dataset} has "
                f"'{datasets.featurizer_of(data)}' features: they do not fit each other"
            )
        data = data.model_copy(update={"featurizer": model.featurizer})
    if data.table is not None:
        names = data.targets or list(model.task.names)
        known = [target for target in model.task.targets if target.name in names]
        data = data.model_copy(
            update={
                "targets": names,
                "task_type": {target.name: target.kind for target in known},
                "classes": {t.name: list(t.classes) for t in known if t.kind == "multiclass"},
            }
        )
    return data
