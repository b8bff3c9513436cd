"""The course of a run: load the data, prepare a model, fit, complete, score and write it.

The members of an ensemble are runs under `members/`. Their joined model is completed and written
like any other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.config import MAX_SEED
from molsepnorm.devices import on_device, restored_threads
from molsepnorm.errors import ConfigError
from molsepnorm.files.lock import locked
from molsepnorm.model import SUPERVISED, PropertyModel, join
from molsepnorm.model.parts import KernelPart, NetworkPart, networks_of
from molsepnorm.tasks import json_scores
from molsepnorm.training.auxiliary import Auxiliary
from molsepnorm.training.callback import Callback, Callbacks, TrainingResult
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.baseline import with_network_share
from molsepnorm.training.completing.complete import Completed, complete
from molsepnorm.training.completing.networks import fits_of, kernel_of_start, with_own_networks
from molsepnorm.training.config import TrainConfig, seconds_of
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.inputs import training_dataset, with_inputs
from molsepnorm.training.loop import Trainer, epochs_within
from molsepnorm.training.objectives import Examples, make_objective
from molsepnorm.training.preparing import prepare, with_unexplained
from molsepnorm.training.probe.kernel import refit_kernels
from molsepnorm.training.recipes import load_config, load_dataset
from molsepnorm.training.report import try_report
from molsepnorm.training.results.card import model_card
from molsepnorm.training.results.metrics import Metrics, OwnNetwork
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.scoring import Predictions, about_split
from molsepnorm.training.start import (
    require_same_meaning,
    starting_model,
    with_epochs,
    with_other_start,
    with_unseen_start,
)

_MAY_DIFFER = ("device", "threads")  # settings of `run` in a resumed run


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Load the configured data, train a model and score it once on the test split.

    If `run.ensemble` is above 1, that number of models is trained and joined.

    >>> config = load_config("data/demo.csv", overrides={"run.epochs": 20})
    >>> result = train(config, "runs/demo")                               # doctest: +SKIP
    >>> result.metrics["test"]["mae"]                                     # doctest: +SKIP

    Args:
        config: the configuration, as `load_config` returns it. A resumed run uses its own.
        folder: the run folder, which must be empty unless the run is resumed.
        resume: continue the run in `folder` exactly where its checkpoint was written.
        callback: receives the events of training and may stop it; one or several.

    Raises:
        ConfigError: the folder is not empty, another process is training into it, a setting does
            not fit the data.
        DataError: the data cannot be loaded or used, or changed since the run began.
        ModelError: there is no run to resume.
        StorageError: a file cannot be written.
    """
    run = RunFolder(folder or RunFolder.numbered("run"))
    callback = Callbacks(callback)
    if resume:
        if run.finished_metrics() is not None:
            callback.on_warning(
                f"{run.path} is finished. A new run can start from it (--from {run.path})."
            )
        if not run.members.exists():
            run.require_started()
        config = load_config(config=run.config)
    elif config is None:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    if config.run.ensemble == 1:
        return _train(config, None, run, callback, resume=resume)
    return _train_ensemble(config, run, callback, resume)


def train_on(
    config: TrainConfig,
    dataset: Dataset,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Train on a data set that is already loaded; without a folder, no file is written.

    Args:
        dataset: encoded molecules, labels and splits. If its test split is empty, the result has
            no metrics.

    Raises:
        ConfigError, DataError, ModelError, StorageError: as in `train`.
    """
    run = None if folder is None else RunFolder(folder)
    if resume:
        if run is None:
            raise ConfigError("resume=True needs the folder of the run")
        run.require_started()
        config = require_same_settings(config, run)
    if config.run.ensemble > 1:
        raise ConfigError(
            "run.ensemble is for molsepnorm.train, which reads a file: train the members with one "
            "seed each, and join their models with molsepnorm.model.join"
        )
    return _train(config, dataset, run, Callbacks(callback), resume=resume)


def _train(
    config: TrainConfig,
    dataset: Dataset | None,
    run: RunFolder | None,
    callback: Callback,
    *,
    resume: bool,
    may_blend: bool = False,
    auxiliary: Auxiliary | None = None,
) -> TrainingResult:
    """Train one model; without a data set, load the configured one.

    With `may_blend`, the ensemble may include a random forest, so the kernel regression of this
    member reads the same inputs as the forest. `auxiliary` are the auxiliary models of another
    member.
    """
    started = time.perf_counter()
    if dataset is None:
        config.data.require_split()
    with ExitStack() as stack:
        world = stack.enter_context(DistributedContext.join(config.run.device))
        if run is not None:
            if resume:
                run.require_started()
            world.on_main_process(lambda: stack.enter_context(locked(run.path)))
            if not resume:
                world.on_main_process(run.require_new)
        device = device_of_rank(config.run.device, world)
        start = None if resume else starting_model(config)
        if dataset is None:
            dataset = world.main_process_first(lambda: load_dataset(config))
        config = with_epochs(config, dataset)
        if start is not None:
            preferred = config
            config, dataset = with_unseen_start(config, dataset)
            start = start if config is preferred else starting_model(config)
        if config.objective.name != SUPERVISED:
            dataset.require_test("Pre-training")
        if start is not None:
            require_same_meaning(start, dataset.targets, config.data, str(config.finetune.start))
        # restored for the caller at the end
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        stack.enter_context(on_device(device))
        stack.enter_context(restored_threads())
        torch.manual_seed(config.run.seed)
        resumed = run if resume else None
        if resumed is not None:
            auxiliary = resumed.auxiliary(len(dataset.store))
        prepared = prepare(config, dataset, start, resumed, world, callback, may_blend, auxiliary)
        if not (config.run.epochs or prepared.new_targets or resume):
            raise ConfigError(
                "run.epochs: 0 fits the probe of fine-tuning alone (finetune.probe), which needs a "
                "start (--from) without outputs for these targets: set run.epochs to 1 or more"
            )
        world.spread_random(config.run.seed)
        trainer = Trainer(config, prepared, run, callback, world)
        if resumed is not None:
            resumed.require_same_data(prepared.dataset)
            trainer.resume(resumed)
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - started)
                trainer.set_epochs(epochs_within(trainer, left))
            trainer.write(lambda run: run.begin(config, prepared.dataset, prepared.loaded))
        epochs = config.run.model_copy(update={"epochs": trainer.progress.epochs})
        began = config.model_copy(update={"run": epochs})
        path = None if run is None else run.path
        callback.on_start(began, prepared.dataset, prepared.model, path)
        if not resume:
            trainer.start()
        result = _end(trainer, path, trainer.fit())
        callback.on_end(result)
        return result


def _end(trainer: Trainer, path: Path | None, finished: bool) -> TrainingResult:
    run, dataset, world = trainer.folder, trainer.dataset, trainer.world
    if trainer.kept is None:
        return TrainingResult(path, finished, None, {})
    metrics = world.on_main_process(lambda: _complete(trainer)) if finished else None
    if run is None:
        model = world.on_main_process(lambda: trainer.kept)
    else:
        model = _published(run, trainer.config, dataset, metrics, world, trainer.callback)
    scores = metrics.to_json() if metrics is not None and dataset.has_test else {}
    return TrainingResult(path, metrics is not None, model, scores)


def _complete(trainer: Trainer) -> Metrics | None:
    """Complete, score and write the kept model; return None if a callback stopped it."""
    config, progress, examples = trainer.config, trainer.progress, trainer.examples
    loaded, callback = trainer.prepared.loaded, trainer.callback
    assert trainer.kept is not None
    if trainer.folder is not None and (done := trainer.folder.finished_metrics()) is not None:
        return done
    chosen, own = trainer.kept.to(trainer.device), dict[str, OwnNetwork]()
    if config.objective.name == SUPERVISED:
        kernel = kernel_of_start(config, trainer.model, loaded)
        added = with_own_networks(config, chosen, kernel, examples, callback)
        if added is None:
            return None
        chosen, own = added
        if progress.kept_epoch:
            trained = dict.fromkeys(networks_of(chosen.parts), chosen.network)
            chosen = refit_kernels(chosen, examples, trainer.dataset.splits["train"], trained)
        chosen = with_network_share(chosen, examples)
        fits = fits_of(chosen, config.run.seed, progress.kept_epoch, own)
        completed = complete(config, chosen, kernel, examples, fits, callback)
        if completed is None:
            return None
    else:
        objective = make_objective(config, chosen, examples).eval()
        objective.load_state_dict(trainer.kept_state)
        scores = {}
        for split in ("val", "test"):
            loss, more = objective.validate(trainer.dataset.splits[split], DistributedContext())
            scores[split] = json_scores({"loss": loss, **more})
        completed = Completed(chosen.to("cpu"), Predictions(), scores)
    trainer.kept = completed.model
    return _write(
        trainer.folder,
        config,
        trainer.dataset,
        completed,
        kept_epoch=progress.kept_epoch,
        epochs=progress.epoch,
        steps=progress.step,
        seconds=round(progress.seconds, 1),
        molecules_in_several_splits=trainer.prepared.leaked,
        molecules_trained_on_before=0 if loaded is None else loaded.trained_on,
        network_share=float(chosen.share(NetworkPart).mean()) if len(chosen.parts) > 1 else None,
        own_networks=own,
    )


def _write(
    run: RunFolder | None, config: TrainConfig, dataset: Dataset, completed: Completed, **about: Any
) -> Metrics:
    """Write a completed model and its metrics; `about` has the entries about the training."""
    model = completed.model
    if dataset.has_test:
        about |= about_split(config.data, dataset)
    metrics = Metrics(
        data=dataset.name,
        chosen_by=model.task.metric,
        parameters=model.parameters,
        seed=config.run.seed,
        class_weight=config.optim.class_weight,
        leak=model.leak(config.data.dataset, allow=True),
        auxiliary=[*model.inputs.predicted],
        **completed.scores,
        **about,
    )
    if run is not None:
        run.finish(model, dataset, completed.predictions, metrics)
    return metrics


def _published(
    run: RunFolder,
    config: TrainConfig,
    dataset: Dataset,
    metrics: Metrics | None,
    world: DistributedContext,
    callback: Callback,
) -> PropertyModel:
    model = run.kept()
    card = model_card(model, config, dataset, metrics)
    world.on_main_process(lambda: run.write_card(card))
    if metrics is not None and metrics.test:
        world.on_main_process(lambda: try_report(run.path, callback))
    return model


def require_same_settings(config: TrainConfig, run: RunFolder) -> TrainConfig:
    """Return the settings, or raise a `ConfigError` if a run began with others. Its data determine
    which of two models it starts from, and the default number of epochs."""
    began = load_config(config=run.config)
    if config.run.epochs is None:
        config = config.changed({"run.epochs": began.run.epochs})
    if config.finetune.otherwise is not None and began.finetune.otherwise is None:
        config = with_other_start(config)
    before, now = began.resolved().content(), config.resolved().content()
    changed = [
        f"{section}.{name} ({before[section].get(name)}, now {value})"
        for section, values in now.items()
        for name, value in values.items()
        if before[section].get(name) != value and (section != "run" or name not in _MAY_DIFFER)
    ]
    if changed:
        raise ConfigError(
            f"{run.path} began with other settings, and a resumed run keeps its own: "
            f"{', '.join(changed[:3])}. Pass the settings of {run.config}, or choose another folder"
        )
    return config


def _train_ensemble(
    config: TrainConfig, run: RunFolder, callback: Callback, resume: bool
) -> TrainingResult:
    """Train the unfinished members, join all members, and score the joined model."""
    if config.objective.name != SUPERVISED:
        raise ConfigError(
            "run.ensemble needs predictions to average, and pre-training makes none: set it to 1"
        )
    if config.run.epochs == 0 and not config.run.budget:
        callback.on_warning(
            f"Without epochs, all {config.run.ensemble} members of the ensemble are the same "
            "model, since only training draws random numbers. Use --epochs 1 or more."
        )
    with DistributedContext.join(config.run.device) as world:
        dataset = world.main_process_first(lambda: training_dataset(config))
        dataset.require_test("An ensemble (run.ensemble)")
        config = preferred = with_epochs(config, dataset)
        config, dataset = with_unseen_start(config, dataset)
        if config is not preferred:
            callback.on_warning(dataset.warnings[-1])
        count = config.run.ensemble
        folders = [RunFolder(run.members / str(number)) for number in range(1, count + 1)]
        may_blend = baseline.may_blend(config, dataset)
        if resume:
            run.require_same_data(dataset)
        else:
            world.on_main_process(run.require_new)
            world.on_main_process(lambda: run.begin(config, dataset, None))
    members: list[tuple[PropertyModel, Metrics]] = []
    auxiliary: Auxiliary | None = None
    only_joined = all(folder.complete_metrics() is not None for folder in folders)
    for number, folder in enumerate(folders):
        # ensembles of the same size with different seeds share no seed
        seed = (config.run.seed * count + number) % (MAX_SEED + 1)
        member = config.model_copy(update={"run": config.run.network_alone(seed=seed)})
        if folder.complete_metrics() is None:
            result = _train(
                member,
                None,
                folder,
                callback,
                resume=folder.checkpoint.exists(),
                may_blend=may_blend,
                auxiliary=auxiliary,
            )
            if not result.finished:
                return replace(result, folder=run.path, metrics={})
        metrics = folder.finished_metrics()
        assert metrics is not None
        members.append((folder.kept(), metrics))
        auxiliary = folder.auxiliary(len(dataset.store))
    dataset = replace(dataset, predicted=folders[0].auxiliary(len(dataset.store)).predicted)
    if only_joined:
        callback.on_start(config, dataset, members[0][0], run.path)
    kernel = kernel_of_start(config, folders[0].start(), folders[0].recorded().loaded_weights)
    with DistributedContext.join(config.run.device) as world:
        metrics = world.on_main_process(
            lambda: _join(config, run, dataset, members, kernel, callback)
        )
        if metrics is None:
            return TrainingResult(run.path, False, None, {})
        model = _published(run, config, dataset, metrics, world, callback)
    result = TrainingResult(run.path, True, model, metrics.to_json())
    callback.on_end(result)
    return result


def _join(
    config: TrainConfig,
    run: RunFolder,
    dataset: Dataset,
    members: Sequence[tuple[PropertyModel, Metrics]],
    kernel: KernelPart | None,
    callback: Callback,
) -> Metrics | None:
    """Complete and write the mean of the members; return None if a callback stopped it."""
    if (done := run.finished_metrics()) is not None:
        return done
    joined = join([model for model, _ in members])
    progress, molecules = callback.on_progress, joined.molecules
    dataset = with_unexplained(dataset, joined.inputs, progress, molecules)
    dataset, extra = with_inputs(dataset, joined.inputs, progress, molecules=molecules)
    device = device_of_rank(config.run.device, DistributedContext())
    examples = Examples.of(dataset, extra, joined, device)
    fits = [
        fit
        for model, about in members
        for fit in fits_of(model, about.seed, about.kept_epoch, about.own_networks)
    ]
    completed = complete(config, joined.to(device), kernel, examples, fits, callback)
    if completed is None:
        return None
    runs = [metrics for _, metrics in members]
    shares = [metrics.network_share or 0.0 for metrics in runs]
    own = defaultdict[str, list[float]](list)
    for metrics in runs:
        for name, each in metrics.own_networks.items():
            own[name].append(each.share)
    return _write(
        run,
        config,
        dataset,
        completed,
        kept_epoch=None,
        epochs=runs[0].epochs,
        steps=sum(metrics.steps for metrics in runs),
        seconds=round(sum(metrics.seconds for metrics in runs), 1),
        molecules_in_several_splits=runs[0].molecules_in_several_splits,
        molecules_trained_on_before=runs[0].molecules_trained_on_before,
        network_share=sum(shares) / len(shares) if any(shares) else None,
        own_networks={
            name: OwnNetwork(share=sum(of_members) / len(runs)) for name, of_members in own.items()
        },
        members=[
            metrics.model_dump(mode="json", include={"seed", "kept_epoch", "val", "test"})
            for metrics in runs
        ],
    )
