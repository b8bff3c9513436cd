"""`train`: the whole job, from a configuration to a folder of results."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.leaks import shared_molecules
from molsepnorm.data.tables import is_held, is_stream
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
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
from molsepnorm.training.memory import RunInMemory

__all__ = ["architecture", "fit_task", "train", "train_on"]


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    callback: Callback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Load the configured data, train a model and score the best one once on the test split.

    >>> config = load_config("data/demo.csv", overrides={"run.epochs": 20})
    >>> result = train(config, "runs/demo")                               # doctest: +SKIP
    >>> result.metrics["test"]["mae"]                                     # doctest: +SKIP

    Args:
        config: the configuration, as `load_config` returns it. A resumed run uses its own.
        folder: the run folder, see `RunFolder`; it must be empty unless the run is resumed.
        resume: continue the run in `folder` exactly where its checkpoint was written.
        callback: receives the events of training.
        stop: called after every step; when it returns true, the state is saved and `train` returns.

    Raises:
        ConfigError: the folder is not empty, another process is training into it, or a setting
            does not fit the data.
        DataError: the data cannot be loaded or used, or changed since the run began.
        ModelError: there is no run to resume.
        StorageError: a file cannot be written.
    """
    begun = time.perf_counter()
    if config is None and not resume:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    if resume:
        run = RunFolder(folder if folder is not None else RunFolder.numbered("run"))
        run.require_started()
        config = load_config(config=run.config)
        _require_readable(config, run)
        folder = run.path
    assert config is not None
    if config.data.dataset is None and config.data.split is None:
        raise ConfigError("data.split: null is for evaluation; training needs a split")
    with DistributedContext.join(config.run.device) as world:
        _require_no_stream(config, world)
        chosen = world.on_main_process(lambda: folder or RunFolder.numbered("run"))
        with _opened(chosen, resume, world) as storage:
            _require_device(config, world)
            encoding = encoding_of(architecture(config))
            dataset = world.main_process_first(lambda: datasets.load(config.data, encoding))
            return _train(
                config, dataset, storage, None, resume, callback or Callback(), stop, world, begun
            )


def train_on(
    config: TrainConfig,
    dataset: Dataset,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    model: PropertyModel | None = None,
    callback: Callback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Train on a data set that is already loaded; without a folder, no file is written.

    Args:
        config: the configuration; its `data` section describes the data set but is not loaded.
        dataset: encoded molecules, labels and splits.
        folder: the run folder as in `train`. None keeps the best model in memory: there is no
            checkpoint, and `TrainingResult.folder` is None.
        resume: continue the run in `folder` with the same data set.
        model: where training starts. Its network is copied, and its task is used as it is. By
            default the weights are drawn and the task is fitted to the training labels.
        callback: as in `train`.
        stop: as in `train`.

    Raises:
        ConfigError: the model does not fit the data set, or as in `train`.
        DataError, ModelError, StorageError: as in `train`.
    """
    begun = time.perf_counter()
    if resume and folder is None:
        raise ConfigError("resume=True needs the folder of the run")
    with (
        DistributedContext.join(config.run.device) as world,
        _opened(folder, resume, world) as storage,
    ):
        _require_device(config, world)
        return _train(
            config, dataset, storage, model, resume, callback or Callback(), stop, world, begun
        )


@contextmanager
def _opened(
    folder: Path | str | None, resume: bool, world: DistributedContext
) -> Iterator[RunFolder | RunInMemory]:
    """The storage of a run: its folder, locked, or memory."""
    if folder is None:
        yield RunInMemory()
        return
    run = RunFolder(folder)
    if resume:
        run.require_started()
    with ExitStack() as held:
        world.on_main_process(lambda: held.enter_context(locked(run.path)))
        if not resume:
            world.on_main_process(run.require_new)
        yield run


def _require_device(config: TrainConfig, world: DistributedContext) -> None:
    """Check, before any work, that the device exists and every process has molecules."""
    device_of_rank(config.run.device, world)
    world.require_batch(config.run.batch_size)


def _train(
    config: TrainConfig,
    dataset: Dataset,
    run: RunFolder | RunInMemory,
    start: PropertyModel | None,
    resume: bool,
    callback: Callback,
    stop: Callable[[], bool],
    world: DistributedContext,
    begun: float,
) -> TrainingResult:
    device = device_of_rank(config.run.device, world)
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(gpus), on_device(device):  # the caller's random numbers stay
        torch.manual_seed(config.run.seed)
        leaked = shared_molecules(dataset)
        if start is None:
            task, dataset = fit_task(config, dataset)
            network = Graphormer(replace(architecture(config), outputs=task.outputs))
            features = dataset.store.features
            if features is not None and isinstance(network.molecule_features, MoleculeFeatures):
                network.molecule_features.fit(torch.from_numpy(features[dataset.splits["train"]]))
            model = PropertyModel(network, dataset.store.featurizer, task)
        else:
            _require_fit(start, dataset)
            model = replace(start, network=copy.deepcopy(start.network))
        if leaked:
            dataset = _with_remark(dataset, _leak_remark(leaked))
        world.spread_random(config.run.seed)
        trainer = Trainer(config, dataset, model, run, callback, world)
        if resume:
            assert isinstance(run, RunFolder)
            run.require_same_data(dataset)
            trainer.resume()
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - begun)
                trainer.plan_epochs(epochs_within(trainer, left))
            world.on_main_process(lambda: run.begin(config, dataset))
            trainer.save()
        planned = config.run.model_copy(update={"epochs": trainer.epochs})
        callback.on_start(config.model_copy(update={"run": planned}), dataset, model, run.path)
        finished = trainer.fit(stop)
    best = run.best_model() if trainer.progress.best_epoch else None
    metrics: dict[str, Any] = {}
    if finished and best is not None:
        found = best
        metrics = world.on_main_process(
            lambda: run.finished_metrics() or _finish(config, dataset, found, trainer, run, leaked)
        )
    result = TrainingResult(run.path, finished, best, metrics)
    callback.on_end(result)
    return result


def _require_fit(model: PropertyModel, dataset: Dataset) -> None:
    """Check that a model to start from reads the data set's molecules and predicts its targets."""
    for what, mine, theirs in (
        ("features", model.featurizer, dataset.store.featurizer),
        ("encoding", model.encoding, dataset.store.encoding),
        ("targets", model.task.names, dataset.targets),
    ):
        if mine != theirs:
            raise ConfigError(f"the model has the {what} {mine} and the data have {theirs}")


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
    return replace(
        config.model,
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        molecule_features=len(sizes.molecule),
    )


def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
    """Return the task fitted to the training labels, and the data set.

    If the metric is undefined on the validation split, the task chooses by the loss and the data
    set has a warning that says so.
    """
    labels, weights = dataset.labels, dataset.weights
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
        strict=config.data.dataset is None,
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
    return replace(dataset, warnings=(*dataset.warnings, remark))


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
    run: RunFolder | RunInMemory,
    leaked: int | None,
) -> dict[str, Any]:
    """Score the best model, the test split for the first and only time, and write the results."""
    task, splits = model.task, dataset.splits
    labels = {split: dataset.labels[splits[split]] for split in splits}
    model.network.to(trainer.device)
    predictions = {
        split: predict(model, trainer.graphs, splits[split]) for split in ("val", "test")
    }
    model.network.cpu()
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
    run.finish(dataset, task, predictions["test"], metrics)
    return metrics
