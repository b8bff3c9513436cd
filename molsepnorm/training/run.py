"""`train` and `evaluate`: whole jobs, from a configuration to a folder of results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm import datasets, featurize
from molsepnorm.batch import GraphTensors
from molsepnorm.datasets import DataConfig, Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.files import write_json
from molsepnorm.inference import infer
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.nn.graphormer import Graphormer, GraphormerConfig
from molsepnorm.tasks import Task
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.listener import Listener, TrainingResult
from molsepnorm.training.loop import Trainer

__all__ = ["evaluate", "train"]


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Train a model, keep the best one by validation, and score it once on the test split.

    >>> config = load_config("data/demo.csv", overrides={"run.epochs": 20})
    >>> result = train(config, "runs/demo")                               # doctest: +SKIP
    >>> result.metrics["test"]["mae"]                                     # doctest: +SKIP

    Args:
        config: what to do; `load_config` makes one. Not given where a run is resumed.
        folder: the run's, see `RunFolder`; it must not hold anything yet.
        resume: go on with the run in `folder`, exactly where its checkpoint was written.
        listener: is told what happens.
        stop: asked after every step; once it answers true the state is saved and `train` returns.

    Raises:
        ConfigError: the folder is not empty, or a setting does not fit the data.
        DataError: the data cannot be had or used, or changed since the run began.
        ModelError: there is nothing to resume.
        StorageError: a file cannot be written.
    """
    listener = listener or Listener()
    run = RunFolder(folder if folder is not None else RunFolder.numbered("run"))
    if resume:
        run.require_started()
        config = load_config(config=run.config)
    elif config is None:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    else:
        run.require_new()

    network_config = architecture(config)
    dataset = datasets.load(config.data, encoding_of(network_config))
    with torch.random.fork_rng():  # the caller's random numbers stay as they are
        torch.manual_seed(config.run.seed)
        task = Task.fit(
            dataset.targets, dataset.kinds, dataset.store.labels[dataset.splits["train"]]
        )
        network = Graphormer(replace(network_config, outputs=len(task.targets)))
        model = PropertyModel(network, dataset.store.featurizer, task)
        trainer = Trainer(config, dataset, model, run, listener)
        if resume:
            run.require_same_data(dataset)
            trainer.resume()
        else:
            run.begin(config, dataset)
        listener.started(config, dataset, model, run.path)
        finished = trainer.fit(stop)
    best = PropertyModel.from_pretrained(run.model) if trainer.progress.best_epoch else None
    metrics: dict[str, Any] = {}
    if finished and best is not None:
        metrics = run.finished_metrics() or _finish(config, dataset, best, trainer, run)
    result = TrainingResult(run.path, finished, best, metrics)
    listener.finished(result)
    return result


def evaluate(
    model: PropertyModel, data: DataConfig, split: str = "test"
) -> tuple[Dataset, dict[str, float]]:
    """Score a model on one split of a data set, or on all its molecules ("all").

    Raises:
        ConfigError: no such split, or the data set lacks one of the model's targets.
        DataError: the data cannot be had or used.
    """
    names = (*datasets.SPLITS, "all")
    if split not in names:
        raise ConfigError(f"unknown split '{split}': choose one of {', '.join(names)}")
    if datasets.featurizer_of(data) != model.featurizer:
        if data.dataset is not None:
            raise ConfigError(
                f"the model reads '{model.featurizer}' features and {data.dataset} has "
                f"'{datasets.featurizer_of(data)}' features: they do not fit each other"
            )
        data = data.model_copy(update={"featurizer": model.featurizer})
    if data.table is not None and data.targets is None:
        data = data.model_copy(update={"targets": list(model.task.names)})
    dataset = datasets.load(data, model.encoding)
    if dataset.targets != model.task.names:
        raise ConfigError(
            f"the model predicts {', '.join(model.task.names)}, and the data have "
            f"{', '.join(dataset.targets)}"
        )
    graphs = np.arange(len(dataset.store)) if split == "all" else dataset.splits[split]
    return dataset, model.task.scores(
        _predict(model, dataset, graphs), dataset.store.labels[graphs]
    )


def architecture(config: TrainConfig) -> GraphormerConfig:
    """The configured network, with the feature sizes of the configured data."""
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    return replace(config.model, atom_sizes=sizes.atoms, bond_sizes=sizes.bonds)


def _finish(
    config: TrainConfig, dataset: Dataset, model: PropertyModel, trainer: Trainer, run: RunFolder
) -> dict[str, Any]:
    """Score the best model, the test split for the first and only time, and write the results."""
    predictions = {
        split: _predict(model, dataset, dataset.splits[split]) for split in ("val", "test")
    }
    scores = {
        split: model.task.scores(values, dataset.store.labels[dataset.splits[split]])
        for split, values in predictions.items()
    }
    run.write_predictions(dataset, predictions["test"])
    progress = trainer.progress
    metrics = {
        "data": dataset.name,
        "chosen_by": model.task.metric,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "steps": progress.step,
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "seconds": round(progress.seconds, 1),
        "seed": config.run.seed,
        **{
            split: {k: None if np.isnan(v) else v for k, v in values.items()}
            for split, values in scores.items()
        },
    }
    write_json(run.metrics, metrics)
    return metrics


def _predict(model: PropertyModel, dataset: Dataset, graphs: np.ndarray) -> np.ndarray:
    outputs = infer(model.network, GraphTensors.of(dataset.store), graphs)
    return model.task.predictions(outputs).numpy()
