"""`train_one` and `train_on`: from a configuration to a trained model and its scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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
from molsepnorm.errors import ConfigError, MolsepnormError, counted
from molsepnorm.files.lock import locked
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.predict.inference import on_device, predict
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training import baseline
from molsepnorm.training.architecture import architecture, load_dataset
from molsepnorm.training.budget import epochs_within
from molsepnorm.training.callback import Callback, Callbacks, TrainingResult
from molsepnorm.training.card import model_card
from molsepnorm.training.comparisons import about_split
from molsepnorm.training.completing import Completed, complete
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.continuing import require_same_meaning, trained_on_before
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.finetuning import (
    LoadedWeights,
    load_weights,
    network_alone,
    open_start,
    require_fit,
)
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.inputs import fit_inputs, probe_inputs, with_inputs
from molsepnorm.training.loop import Trainer
from molsepnorm.training.memory import RunInMemory
from molsepnorm.training.objectives import OBJECTIVES, Results, make_objective
from molsepnorm.training.refit import refit
from molsepnorm.training.report import try_report
from molsepnorm.training.settings import seconds_of

__all__ = ["train_on", "train_one", "with_epochs"]


def train_one(
    config: TrainConfig | None,
    folder: Path | str,
    *,
    resume: bool = False,
    epochs: int | None = None,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Train one model; arguments and errors as of `training.train`."""
    run = RunFolder(folder)
    if resume:
        run.require_started()
        config = with_epochs(load_config(config=run.config), epochs)
    elif config is None:
        raise ConfigError("train needs a configuration: load_config('zinc') makes one")
    chosen = config
    if chosen.data.dataset is None and chosen.data.split is None:
        raise ConfigError("data.split: null is for evaluation; training needs a split")

    def load(world: DistributedContext) -> Dataset:
        _require_readable(chosen, run.path if resume else None, world)
        return world.main_process_first(lambda: load_dataset(chosen))

    return _train(chosen, load, run.path, resume, None, callback, lengthen=epochs is not None)


def with_epochs(config: TrainConfig, epochs: int | None) -> TrainConfig:
    """Return the configuration with another number of epochs, or as it is for None."""
    return config if epochs is None else config.changed({"run.epochs": epochs, "run.budget": None})


def train_on(
    config: TrainConfig,
    dataset: Dataset,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    model: PropertyModel | None = None,
    score: bool = True,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Train on a data set that is already loaded; without a folder, no file is written.

    Args:
        config: the configuration; its `data` section describes the data set and is not loaded.
        dataset: encoded molecules, labels and splits.
        folder: the run folder as in `train`; None keeps the best model in memory.
        resume: continue the run in `folder` with the same data set.
        model: trained model to start from, in place of the one that `finetune.start` names. Its
            weights are copied, and targets that it does not have get new output weights.
        score: score the best model at the end. Otherwise the test split is not used, and the
            result has no metrics; the model has its second fit, forest, intervals and domain all
            the same.
        callback: as in `train`.

    Raises:
        ConfigError: the model does not fit the data set, or as in `train`.
        DataError, ModelError, StorageError: as in `train`.
    """
    if resume and folder is None:
        raise ConfigError("resume=True needs the folder of the run")
    if config.run.ensemble > 1:
        raise ConfigError(
            "run.ensemble is for molsepnorm.train, which reads a file: train the members with one "
            "seed each, and join their models with molsepnorm.training.join"
        )
    return _train(config, lambda world: dataset, folder, resume, model, callback, score)


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
    score: bool = True,
    lengthen: bool = False,
) -> TrainingResult:
    started, callback = time.perf_counter(), Callbacks(callback)
    with ExitStack() as stack:
        world = stack.enter_context(DistributedContext.join(config.run.device))
        run = stack.enter_context(_opened(config, folder, resume, world))
        device = device_of_rank(config.run.device, world)
        start = None if resume else _start(config, start)
        dataset = load(world)
        source = config.finetune.start or "a model in memory"
        if start is not None:
            require_same_meaning(start, dataset.plain_targets, config.data, str(source))
        # the caller's random state and threads are restored
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        stack.enter_context(on_device(device))
        stack.enter_context(restored_threads())
        torch.manual_seed(config.run.seed)
        kind, read = OBJECTIVES[config.objective.name], dataset
        dataset = world.main_process_first(lambda: kind.prepare(config, read, callback.on_progress))
        excludes, probe, seen = {} if start is None else start.excludes, None, 0
        if resume:
            assert isinstance(run, RunFolder)
            excludes, probe, seen = run.excludes(), run.probe(), run.trained_on()
        inputs, encoded = fit_inputs(config, dataset), dataset
        baseline.require_blendable(config, dataset, inputs)
        given = inputs if probe is None else probe.inputs
        if start is not None and _is_probed(config):
            given = probe_inputs(config, dataset, inputs)
        dataset = world.main_process_first(
            lambda: with_inputs(encoded, given, callback.on_progress)
        )
        task, dataset = kind.fit_task(config, dataset)
        model = _new_model(config, dataset, task, inputs, excludes)
        warnings, loaded = list(dataset.warnings), None
        leaked = shared_molecules(dataset)
        if start is not None:
            loaded = load_weights(model, start)
            warnings += _about_start(start, model, str(source), loaded)
            if config.finetune.start is not None and task.targets:
                seen, warning = world.main_process_first(lambda: _seen(dataset, config))
                loaded = replace(loaded, trained_on=seen)
                warnings += [warning] * bool(warning)
        if leak := model.leak(config.data.dataset, config.finetune.allow_leak):
            warnings.append(f"The scores are too optimistic (finetune.allow_leak): {leak}.")
        if leaked:
            warnings.append(
                f"{leaked:,} molecule{'s are' if leaked > 1 else ' is'} in more than one split, so "
                "the scores are too optimistic. `molsepnorm data check` lists the rows."
            )
        dataset = replace(dataset, warnings=tuple(warnings))
        world.spread_random(config.run.seed)
        new_targets = loaded.new_targets if loaded and _is_probed(config) else ()
        if not (config.run.epochs or new_targets or resume):
            raise ConfigError(
                "run.epochs: 0 is for the probe of fine-tuning (finetune.probe), which fits the "
                "outputs of new targets, and there is none here: set it to 1 or more, or name a "
                "model by --from"
            )
        trainer = Trainer(config, dataset, model, run, callback, world, new_targets, probe)
        if resume:
            assert isinstance(run, RunFolder)
            run.require_same_data(dataset)
            trainer.resume(lengthen)
        else:
            if config.run.budget is not None:
                left = seconds_of(config.run.budget) - (time.perf_counter() - started)
                trainer.set_epochs(epochs_within(trainer, left))
            adaptive = len(trainer.threads.choices) > 1
            world.on_main_process(lambda: run.begin(config, dataset, loaded, adaptive))
        epochs = config.run.model_copy(update={"epochs": trainer.progress.epochs})
        callback.on_start(config.model_copy(update={"run": epochs}), dataset, model, run.path)
        stopped = not resume and trainer.start()
        finished = not stopped and trainer.fit()
        best = run.best() if trainer.progress.best_epoch is not None else None
        metrics: dict[str, Any] = {}
        if finished and best is not None:
            found = best
            with trainer.threads.paused():
                if score:
                    metrics = world.on_main_process(
                        lambda: run.finished_metrics() or _finish(trainer, *found, leaked, seen)
                    )
                else:
                    world.on_main_process(lambda: _finish_unscored(trainer, found[0]))
            best = run.best()  # which a forest may have been blended with
        if best is not None and isinstance(run, RunFolder):
            write, card = run.write_card, model_card(best[0], config, dataset, metrics)
            world.on_main_process(lambda: write(card))
            if metrics:
                world.on_main_process(lambda: try_report(run.path, callback))
        result = TrainingResult(run.path, finished, best and best[0], metrics)
        callback.on_end(result)
        return result


def _new_model(
    config: TrainConfig,
    dataset: Dataset,
    task: Task,
    inputs: ExtraInputs,
    excludes: dict[str, str],
) -> PropertyModel:
    """Return a model with random weights, whose features are scaled to the training molecules."""
    plain = architecture(config)
    features = plain.molecule_features + inputs.width
    network = Graphormer(replace(plain, outputs=task.outputs, molecule_features=features))
    values = dataset.store.features
    if values is not None and isinstance(network.molecule_features, MoleculeFeatures):
        network.molecule_features.fit(torch.from_numpy(values[dataset.splits["train"]]))
    return PropertyModel(
        *(network, dataset.store.featurizer, task, config.objective.name, excludes, inputs),
        standardize=config.data.standardize,
    )


def _about_start(
    start: PropertyModel, model: PropertyModel, source: str, loaded: LoadedWeights
) -> Iterator[str]:
    """Yield sentences about the weights that a model has from its start, and the differences."""
    yield f"Training starts from {source}: {loaded}."
    if start.inputs.width and start.inputs != model.inputs:
        yield (
            f"{source} reads other feature columns or molecule features; their output weights are "
            f"not used. {_keeping(start.inputs)}"
        )
    if start.standardize not in ("none", model.standardize):
        yield (
            f"{source} standardises structures by the level {start.standardize}, and this run by "
            f"{model.standardize}."
        )


def _keeping(inputs: ExtraInputs) -> str:
    """Return a sentence with the options for the inputs of a start."""
    features = [name for name in ("morgan", "descriptors") if getattr(inputs, name)]
    features = [name.replace("descriptors", "rdkit") for name in features]
    options = [f"--feature-columns {','.join(inputs.names)}"] * bool(inputs.names)
    options += [f"--molecule-features {','.join(features)}"] * bool(features)
    return f"To use them, add {' '.join(options)}."


def _seen(dataset: Dataset, config: TrainConfig) -> tuple[int, str]:
    """Return the number of validation and test molecules that the start was trained on, and a
    warning; 0 and an empty text if there is none."""
    start = config.finetune.start
    assert start is not None
    try:
        found = trained_on_before(dataset, start)
    except MolsepnormError as error:
        return 0, f"The molecules that {start} was trained on cannot be compared: {error}"
    if not found:
        return 0, ""
    return len(found), (
        f"{start} was trained on {counted(len(found), 'molecule')} of the validation and test "
        f"splits, such as {found[0]}, so the scores are too optimistic. Give such rows to the "
        "training split (--splits-column), or remove them."
    )


def _is_probed(config: TrainConfig) -> bool:
    """Return whether the head is fitted before training."""
    linear, supervised = config.model.head == "linear", config.objective.name == SUPERVISED
    return config.finetune.probe and linear and supervised


def _start(config: TrainConfig, model: PropertyModel | None) -> PropertyModel | None:
    """Return the model to start from, after checking that it fits the configuration."""
    network, featurizer = architecture(config), datasets.featurizer_of(config.data)
    start = open_start(config.finetune) if model is None else model
    if start is not None:
        start.leak(config.data.dataset, config.finetune.allow_leak)
        name = str(config.finetune.start) if model is None else "the start"
        require_fit(start, network, featurizer, name)
        start = network_alone(start)
    return start


def _finish(
    trainer: Trainer,
    best: PropertyModel,
    own: dict[str, torch.Tensor],
    leaked: int | None,
    seen: int,
) -> dict[str, Any]:
    """Score the best model, for the first and only time on the test split; write the results."""
    dataset, progress, config = trainer.dataset, trainer.progress, trainer.config
    chosen = _as_chosen(trainer, best).to(trainer.device)
    objective = make_objective(config, chosen, trainer.examples)
    objective.load_state(chosen.network.state_dict(), own)
    final = refit(config, chosen, trainer.examples, dataset.splits)
    results = objective.eval().results(dataset, final)
    best, results, entries = _complete(trainer, chosen, final, results)
    metrics = {
        "data": dataset.name,
        "chosen_by": best.task.metric,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "steps": progress.step,
        "parameters": best.parameters,
        "seconds": round(progress.seconds, 1),
        "seed": config.run.seed,
        "molecules_in_several_splits": leaked,
        **({"molecules_trained_on_before": seen} if seen else {}),
        **config.finetune.origin(),
        **results.scores,
        **about_split(config.data, [dataset]),
        **trainer.folder.earlier(progress.epoch),
        **entries,
    }
    if leak := best.leak(config.data.dataset, allow=True):
        metrics["leak"] = leak
    trainer.folder.finish(dataset, best.task, results, metrics)
    return metrics


def _finish_unscored(trainer: Trainer, best: PropertyModel) -> None:
    """Complete the best model of a run that does not use the test split."""
    config, dataset = trainer.config, trainer.dataset
    chosen = _as_chosen(trainer, best).to(trainer.device)
    if not chosen.task.targets:
        return
    final = refit(config, chosen, trainer.examples, dataset.splits)
    val = {"val": dataset.splits["val"]}
    predictions = {"val": predict(chosen, trainer.examples.graphs, val["val"])}
    _complete(trainer, chosen, final, Results({}, val, predictions))


def _complete(
    trainer: Trainer, chosen: PropertyModel, final: PropertyModel, results: Results
) -> Completed:
    """Complete and keep a model.

    Args:
        trainer: the run.
        chosen: the model as its epoch left it.
        final: the same after the second fit.
        results: predictions, for validation molecules those of `chosen`.
    """
    dataset = trainer.dataset
    found = complete(
        *(trainer.config, [dataset], trainer.graphs, final, results),
        *([(chosen, dataset.splits["val"])], final is not chosen, trainer.callback),
        *(trainer.progress.seconds, trainer.threads.threads),
    )
    if found.model is not chosen:
        trainer.folder.keep(found.model)
    return found


def _as_chosen(trainer: Trainer, best: PropertyModel) -> PropertyModel:
    """Return the best model as its epoch left it.

    A run that was scored before, after fewer epochs, or that was killed then, has kept it with
    forests and with kernel regressions that were fitted again.
    """
    if best.forests:
        best = replace(best, forests=(), forest_share=0.0, inputs=trainer.model.inputs)
    if (probe := trainer.probe) is None:
        return best
    if best.partners:
        return replace(best, partners=(probe.network,))
    return replace(best, network=probe.network)


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
