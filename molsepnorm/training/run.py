"""`train_one` and `train_on`: from a configuration to a trained model and its scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.tables import is_held, is_stream
from molsepnorm.devices import on_device, restored_threads
from molsepnorm.errors import ConfigError
from molsepnorm.files.lock import locked
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.training.callback import Callback, Callbacks, TrainingResult
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.continuing import require_same_meaning
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.finishing import finish, finish_unscored
from molsepnorm.training.loop import Trainer
from molsepnorm.training.parsing import seconds_of
from molsepnorm.training.preparing import Prepared, prepare, starting_model
from molsepnorm.training.recipes import load_config, load_dataset
from molsepnorm.training.report import try_report
from molsepnorm.training.results.card import model_card
from molsepnorm.training.run_folder.folder import RunFolder, RunInMemory
from molsepnorm.training.steps.budget import epochs_within

_EPOCHS, _EPOCHS_OF_MANY = 15, 30
_MANY = 2000  # training molecules from which on a regression gains from more epochs
_MAY_DIFFER = ("epochs", "budget", "device", "threads")
"""Settings of `run` with which a run may be resumed that began with others."""


def train_one(
    config: TrainConfig | None,
    folder: Path | str,
    *,
    resume: bool = False,
    epochs: int | None = None,
    may_blend: bool = False,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Train one model; arguments and errors as for `training.train`.

    With `may_blend` a random forest may be blended with a mean of this model and others, so its
    kernel regression reads what that forest reads.
    """
    run = RunFolder(folder)
    if resume:
        run.require_started()
        config = with_epochs(load_config(config=run.config), epochs)
    elif config is None:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    chosen = config
    chosen.data.require_split()

    def load(world: DistributedContext) -> Dataset:
        _require_readable(chosen, run.path if resume else None, world)
        return world.main_process_first(lambda: load_dataset(chosen))

    return _train(
        chosen,
        load,
        run.path,
        resume,
        start=None,
        callback=callback,
        lengthen=epochs is not None,
        may_blend=may_blend,
    )


def with_epochs(config: TrainConfig, epochs: int | None) -> TrainConfig:
    """Return the configuration with another number of epochs, or as it is for None."""
    return config if epochs is None else config.changed({"run.epochs": epochs, "run.budget": None})


def with_length(config: TrainConfig, dataset: Dataset) -> TrainConfig:
    """Return the configuration with a number of epochs; see `RunConfig.epochs`."""
    if config.run.epochs is not None:
        return config
    quantities = all(target.kind == "regression" for target in dataset.targets)
    many = len(dataset.splits["train"]) >= _MANY and quantities
    return config.changed({"run.epochs": _EPOCHS_OF_MANY if many else _EPOCHS})


def train_on(
    config: TrainConfig,
    dataset: Dataset,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    model: PropertyModel | None = None,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Train on a data set that is already loaded; without a folder, no file is written.

    Args:
        config: the configuration; its `data` section describes the data set and is not loaded.
        dataset: encoded molecules, labels and splits. If its test split is empty, the result has
            no metrics; the model has its second fit, forest, intervals and domain all the same.
        folder: the run folder as in `train`; None keeps the best model in memory.
        resume: continue the run in `folder` with the same data set.
        model: trained model to start from, in place of the one that `finetune.start` names. Its
            weights are copied, and targets that it does not have get new output weights.
        callback: as in `train`.

    Raises:
        ConfigError: the model does not fit the data set, or as in `train`.
        DataError, ModelError, StorageError: as in `train`.
    """
    if resume:
        if folder is None:
            raise ConfigError("resume=True needs the folder of the run")
        _require_same_settings(config, RunFolder(folder))
    if config.run.ensemble > 1:
        raise ConfigError(
            "run.ensemble is for molsepnorm.train, which reads a file: train the members with one "
            "seed each, and join their models with molsepnorm.model.join"
        )
    return _train(config, lambda world: dataset, folder, resume, model, callback)


def _require_same_settings(config: TrainConfig, run: RunFolder) -> None:
    """Refuse to resume a run with other settings than those that it began with.

    The number of epochs is checked with the checkpoint.
    """
    run.require_started()
    own = load_config(config=run.config).resolved().content()
    given = config.resolved().content()
    for name in _MAY_DIFFER:
        own["run"][name] = given["run"][name]
    changed = [
        f"{section}.{name} ({own[section].get(name)}, now {value})"
        for section, values in given.items()
        for name, value in values.items()
        if own[section].get(name) != value
    ]
    if changed:
        raise ConfigError(
            f"{run.path} began with other settings, and a resumed run keeps its own: "
            f"{', '.join(changed[:3])}. Pass the settings of {run.config}, or start a new run"
        )


@contextmanager
def _opened(
    config: TrainConfig, folder: Path | str | None, resume: bool, world: DistributedContext
) -> Iterator[RunFolder | RunInMemory]:
    """Open the storage of a run, its folder, locked, or memory; check device and batch size."""
    with ExitStack() as held:
        storage: RunFolder | RunInMemory = RunInMemory()
        if folder is not None:
            storage = run = RunFolder(folder)
            if resume:
                run.require_started()
            world.on_main_process(lambda: held.enter_context(locked(run.path)))
            if not resume:
                world.on_main_process(run.require_new)
        device_of_rank(config.run.device, world)
        world.require_batch(config.run.batch_size)
        yield storage


def _train(
    config: TrainConfig,
    load: Callable[[DistributedContext], Dataset],
    folder: Path | str | None,
    resume: bool,
    start: PropertyModel | None,
    callback: Callback | Iterable[Callback] | None,
    lengthen: bool = False,
    may_blend: bool = False,
) -> TrainingResult:
    started, callback = time.perf_counter(), Callbacks(callback)
    with ExitStack() as stack:
        world = stack.enter_context(DistributedContext.join(config.run.device))
        run = stack.enter_context(_opened(config, folder, resume, world))
        device = device_of_rank(config.run.device, world)
        start = None if resume else starting_model(config, start)
        dataset = load(world)
        if config.objective.name != SUPERVISED:
            dataset.require_test("Pre-training")
        config = with_length(config, dataset)
        if start is not None:
            label = config.finetune.label
            require_same_meaning(start, dataset.targets, config.data, label)
        # the caller's random state and threads are restored
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        stack.enter_context(on_device(device))
        stack.enter_context(restored_threads())
        torch.manual_seed(config.run.seed)
        resumed = run if resume and isinstance(run, RunFolder) else None
        prepared = prepare(config, dataset, start, resumed, world, callback, may_blend)
        world.spread_random(config.run.seed)
        trainer = _trainer(config, prepared, run, world, callback, resume)
        if resumed is not None:
            resumed.require_same_data(prepared.dataset)
            trainer.resume(lengthen)
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - started)
                trainer.set_epochs(epochs_within(trainer, left))
            begun = (config, prepared.dataset, prepared.loaded)
            world.on_main_process(lambda: run.begin(*begun))
        epochs = config.run.model_copy(update={"epochs": trainer.progress.epochs})
        began = config.model_copy(update={"run": epochs})
        try:
            callback.on_start(began, prepared.dataset, prepared.model, run.path)
            stopped = not resume and trainer.start()
            finished = not stopped and trainer.fit()
            result = _result(trainer, prepared, finished)
            callback.on_end(result)
        except BaseException as error:
            callback.on_failure(error)
            raise
        return result


def _trainer(
    config: TrainConfig,
    prepared: Prepared,
    run: RunFolder | RunInMemory,
    world: DistributedContext,
    callback: Callback,
    resume: bool,
) -> Trainer:
    """Return the trainer of a run, with the probe of fine-tuning."""
    if not (config.run.epochs or prepared.new_targets or resume):
        raise ConfigError(
            "run.epochs: 0 fits the probe of fine-tuning alone (finetune.probe), and this run has "
            "no probe: set run.epochs to 1 or more, or start from a model (--from)"
        )
    return Trainer(
        config,
        prepared.dataset,
        prepared.model,
        folder=run,
        callback=callback,
        world=world,
        new_targets=prepared.new_targets,
        inputs=prepared.inputs,
        probe=prepared.probe,
    )


def _result(trainer: Trainer, prepared: Prepared, finished: bool) -> TrainingResult:
    """Finish a run that has trained to its end, write card and report, and return the result."""
    run, world = trainer.folder, trainer.world
    if trainer.progress.best_epoch is None:
        return TrainingResult(run.path, finished, None, {})
    found: dict[str, Any] = {}
    score = prepared.dataset.has_test
    if finished and score:
        found = world.on_main_process(lambda: run.finished_metrics() or finish(trainer, prepared))
    elif finished:
        found = world.on_main_process(lambda: finish_unscored(trainer, prepared))
    metrics = found if score else {}
    best, _ = run.best()
    if isinstance(run, RunFolder):
        card = model_card(best, trainer.config, prepared.dataset, found)
        world.on_main_process(lambda: run.write_card(card))
        if metrics:
            world.on_main_process(lambda: try_report(run.path, trainer.callback))
    return TrainingResult(run.path, finished, best, metrics)


def _require_readable(config: TrainConfig, run: Path | None, world: DistributedContext) -> None:
    """Check that data from a pipe are read once, unless they are held for a set of replicates."""
    data = config.data
    named = [("table", data.table), ("splits_file", data.splits_file)]
    for name, path in [*named, *(("structures", each) for each in data.structures)]:
        if path is None:
            continue
        if world.size > 1 and is_stream(path):
            raise ConfigError(
                f"{path} is a pipe, and each of the {world.size} processes would read a part of "
                "it: write the data to a file and use its path"
            )
        # the pipe of an earlier process is gone, so only its path can be checked
        if run is not None and path.parts[1:2] in (("dev",), ("proc",)) and not is_held(path):
            raise ConfigError(
                f"{run} began with data from a pipe, {path}, which cannot be read again: write "
                f"the same data to a file, set data.{name} to its path in {run / 'config.yaml'}, "
                "and resume once more; or start a new run"
            )
