"""`train`: the whole job, from a configuration to a folder of results."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.leaks import shared_molecules
from molsepnorm.data.tables import is_held, is_stream
from molsepnorm.devices.threads import restored_threads
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.writing import write_json
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict.inference import on_device, predict
from molsepnorm.tasks import Task, json_scores
from molsepnorm.training.budget import epochs_within, seconds_of
from molsepnorm.training.callback import Callback, TrainingResult
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.evaluation import score_on
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.lock import locked
from molsepnorm.training.loop import Trainer

__all__ = ["architecture", "train"]


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    callback: Callback | None = None,
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
        callback: is told what happens.
        stop: asked after every step; once it answers true the state is saved and `train` returns.

    Raises:
        ConfigError: the folder is not empty, another process is training into it, or a setting
            does not fit the data.
        DataError: the data cannot be had or used, or changed since the run began.
        ModelError: there is nothing to resume.
        StorageError: a file cannot be written.
    """
    begun, callback = time.perf_counter(), callback or Callback()
    if config is None and not resume:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    if resume:
        run = RunFolder(folder if folder is not None else RunFolder.numbered("run"))
        run.require_started()
        config = load_config(config=run.config)
        _require_readable(config, run)
    assert config is not None
    if config.data.dataset is None and config.data.split is None:
        raise ConfigError("data.split: null is for evaluation; training needs a split")
    with DistributedContext.join(config.run.device) as world, ExitStack() as held:
        held.enter_context(restored_threads())
        _require_no_stream(config, world)
        if not resume:
            run = RunFolder(world.on_main_process(lambda: folder or RunFolder.numbered("run")))
        world.on_main_process(lambda: held.enter_context(locked(run.path)))
        if not resume:
            world.on_main_process(run.require_new)
        return _train(config, run, resume, callback, stop, world, begun)


def _train(
    config: TrainConfig,
    run: RunFolder,
    resume: bool,
    callback: Callback,
    stop: Callable[[], bool],
    world: DistributedContext,
    begun: float,
) -> TrainingResult:
    device = device_of_rank(config.run.device, world)  # before any work, if there is no such device
    world.require_batch(config.run.batch_size)
    network_config = architecture(config)
    dataset = world.main_process_first(
        lambda: datasets.load(config.data, encoding_of(network_config))
    )
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(gpus), on_device(device):  # the caller's random numbers stay
        torch.manual_seed(config.run.seed)
        task, dataset = _fit_task(config, dataset)
        leaked = shared_molecules(dataset)
        if leaked:
            dataset = _with_remark(dataset, _leak_remark(leaked))
        network = Graphormer(replace(network_config, outputs=task.outputs))
        model = PropertyModel(network, dataset.store.featurizer, task)
        world.spread_random(config.run.seed)
        trainer = Trainer(config, dataset, model, run, callback, world)
        if resume:
            run.require_same_data(dataset)
            trainer.resume()
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - begun)
                trainer.plan_epochs(epochs_within(trainer, left))
            adaptive = len(trainer.threads.choices) > 1
            world.on_main_process(lambda: run.begin(config, dataset, adaptive_threads=adaptive))
            trainer.save()
        planned = config.run.model_copy(update={"epochs": trainer.epochs})
        callback.on_start(config.model_copy(update={"run": planned}), dataset, model, run.path)
        finished = trainer.fit(stop)
    best = PropertyModel.from_pretrained(run.model) if trainer.progress.best_epoch else None
    metrics: dict[str, Any] = {}
    if finished and best is not None:
        found = best
        with trainer.threads.paused():
            metrics = world.on_main_process(
                lambda: (
                    run.finished_metrics() or _finish(config, dataset, found, trainer, run, leaked)
                )
            )
    result = TrainingResult(run.path, finished, best, metrics)
    callback.on_end(result)
    return result


def _require_readable(config: TrainConfig, run: RunFolder) -> None:
    """Check that what the run read from a pipe can be read again, as within a series."""
    for name in ("table", "splits_file"):
        path: Path | None = getattr(config.data, name)
        if path is not None and path.parts[1:2] in (("dev",), ("proc",)) and not is_held(path):
            raise ConfigError(
                f"{run.path} began with data from a pipe, {path}, which cannot be read again: "
                f"write the same data to a file, set data.{name} to its path in {run.config}, and "
                "resume once more; or start a new run"
            )


def _require_no_stream(config: TrainConfig, world: DistributedContext) -> None:
    for path in (config.data.table, config.data.splits_file):
        if world.size > 1 and path is not None and is_stream(path):
            raise ConfigError(
                f"{path} is a pipe, and each of the {world.size} processes would read a part of "
                "it: write the data to a file and name that"
            )


def architecture(config: TrainConfig) -> GraphormerConfig:
    """The configured network, with the feature sizes of the configured data."""
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    return replace(config.model, atom_sizes=sizes.atoms, bond_sizes=sizes.bonds)


def _fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
    """The task, and the data set with a remark where its metric is undefined on validation."""
    labels, weights = dataset.store.labels, dataset.weights
    for split, what in (("train", "training"), ("val", "validation")):
        if weights is not None and not weights[dataset.splits[split]].any():
            raise DataError(
                f"all {len(dataset.splits[split])} {what} molecules have the weight 0, so there is "
                "nothing to learn from: give some another weight, or choose another split"
            )
    metric = config.run.metric or dataset.metric
    task = Task.fit(
        dataset.targets,
        dataset.kinds,
        labels[dataset.splits["train"]],
        metric,
        classes=dataset.classes,
        class_weight=config.optim.class_weight,
        regression_loss=config.optim.regression_loss,
        strict=config.data.table is not None,
    )
    val = labels[dataset.splits["val"]]
    anything = np.random.default_rng(0).random((len(val), task.outputs))
    only = [task.metric]
    if task.metric == "loss" or not np.isnan(task.scores(anything, val, only)[task.metric]):
        return task, dataset
    remark = (
        f"{task.chosen_by.label} is undefined on the validation molecules (too few labels, or all "
        "of one class), so the best epoch is chosen by the loss."
    )
    return replace(task, metric="loss"), _with_remark(dataset, remark)


def _with_remark(dataset: Dataset, remark: str) -> Dataset:
    return replace(dataset, remarks=(*dataset.remarks, remark))


def _leak_remark(molecules: int) -> str:
    return (
        f"{molecules:,} molecule{'s are' if molecules > 1 else ' is'} in more than one split, so "
        "the scores are too optimistic. `molsepnorm data check` lists the rows."
    )


def _finish(
    config: TrainConfig,
    dataset: Dataset,
    model: PropertyModel,
    trainer: Trainer,
    run: RunFolder,
    leaked: int | None,
) -> dict[str, Any]:
    """Score the best model, the test split for the first and only time, and write the results."""
    task, splits = model.task, dataset.splits
    labels = {split: dataset.store.labels[splits[split]] for split in splits}
    model.network.to(trainer.device)
    predictions = {
        split: predict(model, trainer.graphs, splits[split]) for split in ("val", "test")
    }
    model.network.cpu()
    run.write_predictions(dataset, task, predictions["test"])
    scores = {
        split: score_on(dataset, task, values, labels[split])
        for split, values in predictions.items()
    }
    constant = np.tile(task.constant(labels["train"]), (len(splits["test"]), 1))
    scores["test_constant"] = task.scores(constant, labels["test"])
    progress = trainer.progress
    metrics = {
        "data": dataset.name,
        "chosen_by": task.metric,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "steps": progress.step,
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "seconds": round(progress.seconds, 1),
        "seed": config.run.seed,
        "molecules_in_several_splits": leaked,
        **{split: json_scores(values) for split, values in scores.items()},
        "test_interval_95": {
            name: list(both)
            for name, both in task.intervals(predictions["test"], labels["test"]).items()
        },
    }
    write_json(run.metrics, metrics)
    return metrics
