"""`train`: one model, or an ensemble of several that become one.

The folder of an ensemble is a run folder, with the run of each member under `members/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.config import MAX_SEED
from molsepnorm.data.tables import hold
from molsepnorm.devices import threads_of
from molsepnorm.errors import ConfigError, MolsepnormError, counted
from molsepnorm.model import SUPERVISED, PropertyModel, join
from molsepnorm.predict.inference import predict
from molsepnorm.training.callback import Callback, Callbacks, TrainingResult
from molsepnorm.training.completing import blending
from molsepnorm.training.completing.complete import complete
from molsepnorm.training.completing.refit import refit
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.continuing import trained_on_before
from molsepnorm.training.distributed import DistributedContext, device_of_rank
from molsepnorm.training.inputs import fit_inputs, training_dataset, with_inputs
from molsepnorm.training.objectives import Examples
from molsepnorm.training.objectives.supervised import predicted_splits, score
from molsepnorm.training.recipes import load_config
from molsepnorm.training.report import try_report
from molsepnorm.training.results.card import model_card
from molsepnorm.training.results.entries import about_split
from molsepnorm.training.run import train_one, with_epochs, with_length
from molsepnorm.training.run_folder.checkpoint import read_progress
from molsepnorm.training.run_folder.folder import RunFolder


def train(
    config: TrainConfig | None = None,
    folder: Path | str | None = None,
    *,
    resume: bool = False,
    epochs: int | None = None,
    callback: Callback | Iterable[Callback] | None = None,
) -> TrainingResult:
    """Load the configured data, train a model and score the best one once on the test split.

    If `run.ensemble` is above 1, that number of models is trained and joined. Finished members of a
    stopped ensemble are not repeated.

    >>> config = load_config("data/demo.csv", overrides={"run.epochs": 20})
    >>> result = train(config, "runs/demo")                               # doctest: +SKIP
    >>> result.metrics["test"]["mae"]                                     # doctest: +SKIP

    Args:
        config: the configuration, as `load_config` returns it. A resumed run uses its own.
        folder: the run folder, see `RunFolder`; it must be empty unless the run is resumed.
        resume: continue the run in `folder` exactly where its checkpoint was written.
        epochs: train a resumed run, finished or not, up to this number of epochs. The learning rate
            follows the schedule of this length from here on. The result equals that of an
            uninterrupted run if both schedules agree so far, as with `optim.warmup: 0` and
            `optim.decay: constant`; otherwise `callback.on_warning` is called. A finished run is
            scored again, and `metrics.json` keeps the earlier scores under `earlier`.
        callback: receives the events of training and may stop it; one or several.

    Raises:
        ConfigError: the folder is not empty, another process is training into it, a setting does
            not fit the data, or a resumed run has trained for more than `epochs`.
        DataError: the data cannot be loaded or used, or changed since the run began.
        ModelError: there is no run to resume.
        StorageError: a file cannot be written.
    """
    run = RunFolder(folder or RunFolder.numbered("run"))
    callback = Callbacks(callback)
    if epochs is not None and not resume:
        raise ConfigError("epochs is for a run that is resumed: set run.epochs of a new one")
    if resume and (found := run.finished_metrics()) and epochs in (None, found["epochs"]):
        callback.on_warning(
            f"{run.path} is finished after {counted(found['epochs'], 'epoch')}. A higher --epochs "
            "trains it for longer."
        )
    if resume and run.members.exists():
        config = load_config(config=run.config)
    if config is None or config.run.ensemble == 1:
        return train_one(config, run.path, resume=resume, epochs=epochs, callback=callback)
    with hold(config.data.table, config.data.splits_file):
        return _train_members(config, run, resume, epochs, callback)


def _train_members(
    config: TrainConfig, run: RunFolder, resume: bool, epochs: int | None, callback: Callback
) -> TrainingResult:
    """Train the members that are not finished, join all, and score the joined model."""
    if config.objective.name != SUPERVISED:
        raise ConfigError(
            "run.ensemble needs predictions to average, and pre-training makes none: set it to 1"
        )
    began, config = config, with_epochs(config, epochs)
    if config.run.epochs == 0 and not config.run.budget:
        callback.on_warning(
            f"Without epochs, all {config.run.ensemble} members of the ensemble are the same "
            "model, since only training draws random numbers. Use --epochs 1 or more."
        )
    with DistributedContext.join(config.run.device) as world:
        dataset = world.main_process_first(lambda: training_dataset(config))
        dataset.require_test("An ensemble (run.ensemble)")
        config = with_length(config, dataset)
        configs = _members(config)
        folders = [RunFolder(run.members / str(number)) for number in range(1, len(configs) + 1)]
        inputs = fit_inputs(config, dataset)
        blending.require_blendable(config, dataset, inputs)
        may_blend = blending.may_blend(config, dataset, inputs)
        if resume:
            run.require_same_data(dataset)
            _require_longer(folders, config)
            if config != began:
                world.on_main_process(lambda: run.lengthen(config))
        else:
            world.on_main_process(run.require_new)
            world.on_main_process(lambda: run.begin(config, dataset))
    results = []
    for member, each in zip(folders, configs, strict=True):
        own = load_config(config=member.config).run if member.config.exists() else each.run
        longer = (own.epochs, own.budget) != (each.run.epochs, each.run.budget)
        if not longer and (metrics := member.complete_metrics()):
            model = PropertyModel.from_pretrained(member.model)
            results.append(TrainingResult(member.path, True, model, metrics))
            continue
        begun = member.checkpoint.exists()
        result = train_one(
            None if begun else each,
            member.path,
            resume=begun,
            epochs=each.run.epochs if begun and longer else None,
            may_blend=may_blend,
            callback=callback,
        )
        if not result.finished:
            return replace(result, folder=run.path, metrics={})
        results.append(result)
    with DistributedContext.join(config.run.device) as world:
        metrics = world.on_main_process(
            lambda: run.finished_metrics() or _finish(config, run, dataset, results, callback)
        )
        model = PropertyModel.from_pretrained(run.model)
        card = model_card(model, config, dataset, metrics)
        world.on_main_process(lambda: run.write_card(card))
        world.on_main_process(lambda: try_report(run.path, callback))
    result = TrainingResult(run.path, True, model, metrics)
    callback.on_end(result)
    return result


def _require_longer(members: Iterable[RunFolder], config: TrainConfig) -> None:
    """Refuse a number of epochs that a member has trained for already, unless it stopped early."""
    for member in members:
        if config.run.budget is not None or not member.checkpoint.exists():
            continue
        progress = read_progress(member.checkpoint)
        if progress.epoch == progress.epochs or not member.complete_metrics():
            progress.require_longer(config.run.length, member.path)


def _members(config: TrainConfig) -> list[TrainConfig]:
    """Return the configuration of each member."""
    count = config.run.ensemble
    members = []
    for number in range(count):
        seed = (config.run.seed * count + number) % (MAX_SEED + 1)  # no seed in two ensembles
        members.append(config.model_copy(update={"run": config.run.network_alone(seed=seed)}))
    return members


def _network_share(members: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean share of the networks in the members; nothing if they are networks alone."""
    shares = [each.get("network_share", 0.0) for each in members]
    return {"network_share": sum(shares) / len(shares)} if any(shares) else {}


def _trained_on(
    config: TrainConfig, dataset: Dataset, members: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the number of validation molecules of all members and test molecules that the start
    was trained on; nothing if there are none.

    If the table of the start no longer exists, it is the largest number of any member.
    """
    name = "molecules_trained_on_before"
    found = max(each.get(name, 0) for each in members)
    start = config.finetune.start
    if found and start is not None:
        with suppress(MolsepnormError):
            found = len(trained_on_before(dataset, start, config.data.standardize))
    return {name: found} if found else {}


def _finish(
    config: TrainConfig,
    run: RunFolder,
    dataset: Dataset,
    results: Sequence[TrainingResult],
    callback: Callback,
) -> dict[str, Any]:
    """Join the members, score the joined model on the test split, and write model and results."""
    models = [result.model for result in results if result.model is not None]
    joined = join(models)
    dataset = with_inputs(dataset, joined.inputs, callback.on_progress)
    device = device_of_rank(config.run.device, DistributedContext())
    graphs = GraphTensors.of(dataset.store, device)
    chosen = joined.to(device)
    examples = Examples.of(dataset, device, identify=True)
    joined = refit(config, chosen, examples, dataset.splits)
    predicted = predicted_splits(dataset)
    predicted |= {split: dataset.splits[split] for split in ("val", "test")}
    predictions = {
        split: predict(chosen if split == "val" else joined, graphs, each)
        for split, each in predicted.items()
    }
    found = score(dataset, joined.task, predicted, predictions)
    members = [result.metrics for result in results]
    seconds = sum(each["seconds"] for each in members)
    threads = threads_of(config.run.threads)
    joined, found, entries = complete(
        config=config,
        dataset=dataset,
        tensors=graphs,
        model=joined,
        results=found,
        chosen=chosen,
        callback=callback,
        seconds=seconds,
        threads=threads,
    )
    metrics = {
        **members[0],
        "best_epoch": None,
        "steps": sum(each["steps"] for each in members),
        "parameters": joined.parameters,
        "seconds": round(seconds, 1),
        "seed": config.run.seed,
        **_trained_on(config, dataset, members),
        **_network_share(members),
        "members": [
            {name: each[name] for name in ("seed", "best_epoch", "val", "test")} for each in members
        ],
        **found.scores,
        **about_split(config.data, dataset),
        **entries,
    }
    metrics = {name: each for name, each in metrics.items() if name != "earlier"}
    metrics |= run.earlier(metrics["epochs"])
    joined.save_pretrained(run.model)
    run.finish(dataset, joined.task, found, metrics)
    return metrics
