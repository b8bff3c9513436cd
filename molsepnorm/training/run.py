"""`train` and `train_on`: from a configuration to a trained model and its scores."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.leaks import shared_molecules
from molsepnorm.data.tables import is_held, is_stream
from molsepnorm.devices.threads import restored_threads
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.predict.inference import on_device
from molsepnorm.training.budget import epochs_within
from molsepnorm.training.callback import Callback, Callbacks, TrainingResult
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.finetuning import load_weights, open_start, require_fit
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.lock import locked
from molsepnorm.training.loop import Trainer
from molsepnorm.training.memory import RunInMemory
from molsepnorm.training.objectives import OBJECTIVES, make_objective
from molsepnorm.training.settings import seconds_of

__all__ = ["architecture", "train", "train_on"]


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Load the configured data, train a model and score the best one once on the test split.

    >>> config = load_config("data/demo.csv", overrides={"run.epochs": 20})
    >>> result = train(config, "runs/demo")                               # doctest: +SKIP
    >>> result.metrics["test"]["mae"]                                     # doctest: +SKIP

    Args:
        config: the configuration, as `load_config` returns it. A resumed run uses its own.
        folder: the run folder, see `RunFolder`; it must be empty unless the run is resumed.
        resume: continue the run in `folder` exactly where its checkpoint was written.
        callback: receives the events of training and may stop it; one or several.

    Raises:
        ConfigError: the folder is not empty, another process is training into it, or a setting
            does not fit the data.
        DataError: the data cannot be loaded or used, or changed since the run began.
        ModelError: there is no run to resume.
        StorageError: a file cannot be written.
    """
    started = time.perf_counter()
    if config is None and not resume:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    if resume:
        run = RunFolder(folder if folder is not None else RunFolder.numbered("run"))
        run.require_started()
        config, folder = load_config(config=run.config), run.path
        _require_readable(config, run)
    assert config is not None
    if config.data.dataset is None and config.data.split is None:
        raise ConfigError("data.split: null is for evaluation; training needs a split")
    with DistributedContext.join(config.run.device) as world:
        _require_no_stream(config, world)
        chosen = world.on_main_process(lambda: folder or RunFolder.numbered("run"))
        with _opened(chosen, resume, world) as storage:
            _require_device(config, world)
            start = None if resume else _start(config)
            encoding = encoding_of(architecture(config))
            dataset = world.main_process_first(lambda: datasets.load(config.data, encoding))
            return _train(config, dataset, storage, start, resume, callback, world, started)


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
        dataset: encoded molecules, labels and splits.
        folder: the run folder as in `train`. None keeps the best model in memory: there is no
            checkpoint, and `TrainingResult.folder` is None.
        resume: continue the run in `folder` with the same data set.
        model: trained model to start from, in place of the one that `finetune.start` names. Its
            weights are copied, and targets that it does not have get new output weights.
        callback: as in `train`.

    Raises:
        ConfigError: the model does not fit the data set, or as in `train`.
        DataError, ModelError, StorageError: as in `train`.
    """
    started = time.perf_counter()
    if resume and folder is None:
        raise ConfigError("resume=True needs the folder of the run")
    with (
        DistributedContext.join(config.run.device) as world,
        _opened(folder, resume, world) as storage,
    ):
        _require_device(config, world)
        start = None if resume else _start(config, model)
        return _train(config, dataset, storage, start, resume, callback, world, started)


def architecture(config: TrainConfig) -> GraphormerConfig:
    """Return the configured network, with the feature sizes of the configured data."""
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    return replace(
        config.model,
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        molecule_features=len(sizes.molecule),
    )


@contextmanager
def _opened(
    folder: Path | str | None, resume: bool, world: DistributedContext
) -> Iterator[RunFolder | RunInMemory]:
    """Open the storage of a run: its folder, locked, or memory."""
    if folder is None:
        yield RunInMemory()
        return
    run = RunFolder(folder)
    with ExitStack() as held:
        if resume:
            run.require_started()
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
    callback: Callback | Iterable[Callback] | None,
    world: DistributedContext,
    started: float,
) -> TrainingResult:
    callback, device = Callbacks(callback), device_of_rank(config.run.device, world)
    gpus = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(gpus),
        on_device(device),
        restored_threads(),
    ):  # the caller's random state is restored
        torch.manual_seed(config.run.seed)
        task, dataset = OBJECTIVES[config.objective.name].fit_task(config, dataset)
        network = Graphormer(replace(architecture(config), outputs=task.outputs))
        features = dataset.store.features
        if features is not None and isinstance(network.molecule_features, MoleculeFeatures):
            network.molecule_features.fit(torch.from_numpy(features[dataset.splits["train"]]))
        model = PropertyModel(network, dataset.store.featurizer, task, config.objective.name)
        loaded = None if start is None else load_weights(network, task, start)
        if loaded is not None:
            source = config.finetune.start or "a model in memory"
            warning = f"Training starts from {source}: {loaded}."
            dataset = replace(dataset, warnings=(*dataset.warnings, warning))
        leaked = shared_molecules(dataset)
        if leaked:
            dataset = replace(dataset, warnings=(*dataset.warnings, _leak_warning(leaked)))
        world.spread_random(config.run.seed)
        trainer = Trainer(config, dataset, model, run, callback, world)
        if resume:
            assert isinstance(run, RunFolder)
            run.require_same_data(dataset)
            trainer.resume()
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - started)
                trainer.set_epochs(epochs_within(trainer, left))
            adaptive = len(trainer.threads.choices) > 1
            world.on_main_process(
                lambda: run.begin(config, dataset, loaded, adaptive_threads=adaptive)
            )
            trainer.save()
        epochs = config.run.model_copy(update={"epochs": trainer.progress.epochs})
        callback.on_start(config.model_copy(update={"run": epochs}), dataset, model, run.path)
        finished = trainer.fit()
        best = run.best() if trainer.progress.best_epoch else None
        metrics: dict[str, Any] = {}
        if finished and best is not None:
            found = best
            with trainer.threads.paused():
                metrics = world.on_main_process(
                    lambda: run.finished_metrics() or _finish(trainer, *found, leaked)
                )
    result = TrainingResult(run.path, finished, best and best[0], metrics)
    callback.on_end(result)
    return result


def _start(config: TrainConfig, model: PropertyModel | None = None) -> PropertyModel | None:
    """Return the model to start from, after checking that it fits the configuration."""
    network, featurizer = architecture(config), datasets.featurizer_of(config.data)
    if model is None:
        return open_start(config.finetune, network, featurizer)
    require_fit(model, network, featurizer)
    return model


def _finish(
    trainer: Trainer, best: PropertyModel, own: dict[str, torch.Tensor], leaked: int | None
) -> dict[str, Any]:
    """Score the best model, for the first and only time on the test split; write the results."""
    dataset, progress, config = trainer.dataset, trainer.progress, trainer.config
    best.network.to(trainer.device)
    objective = make_objective(config, best, trainer.examples)
    objective.load_state(best.network.state_dict(), own)
    results = objective.eval().results(dataset)
    best.network.cpu()
    metrics = {
        "data": dataset.name,
        "chosen_by": best.task.metric,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "steps": progress.step,
        "parameters": sum(p.numel() for p in best.network.parameters()),
        "seconds": round(progress.seconds, 1),
        "seed": config.run.seed,
        "molecules_in_several_splits": leaked,
        **config.finetune.origin(),
        **results.scores,
    }
    trainer.folder.finish(dataset, best.task, results, metrics)
    return metrics


def _require_readable(config: TrainConfig, run: RunFolder) -> None:
    """Check that the run's data can be read again; data from a pipe cannot, unless they are held
    for a set of replicates."""
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
                "it: write the data to a file and use its path"
            )


def _leak_warning(molecules: int) -> str:
    return (
        f"{molecules:,} molecule{'s are' if molecules > 1 else ' is'} in more than one split, so "
        "the scores are too optimistic. `molsepnorm data check` lists the rows."
    )
