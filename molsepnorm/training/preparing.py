"""`prepare`: the data and the model of a run, before its first step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.leaks import shared_molecules
from molsepnorm.errors import MolsepnormError, counted
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import blending
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.continuing import trained_on_before
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.finetuning import open_start, require_fit
from molsepnorm.training.inputs import fit_inputs, probe_inputs, with_inputs
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.recipes import architecture
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.start import LoadedWeights, load_weights, network_alone, unfit_targets


class Prepared(NamedTuple):
    """The data and the model of a run."""

    dataset: Dataset
    """With the inputs that the model reads, the fitted targets, and the warnings of the run."""
    model: PropertyModel
    loaded: LoadedWeights | None
    """Its weights from the model that the run starts from."""
    new_targets: tuple[str, ...]
    """Targets whose outputs are fitted before training."""
    inputs: ExtraInputs
    """The inputs of the molecules: those of the model, or more that the probe may read."""
    probe: PropertyModel | None
    """The kernel regression of a resumed run, which is not fitted again."""
    leaked: int | None
    """Number of molecules in more than one split; None if they cannot be compared."""
    trained_on: int
    """Number of validation and test molecules that the start was trained on."""


def starting_model(config: TrainConfig, model: PropertyModel | None) -> PropertyModel | None:
    """Return the model to start from, after checking that it fits the configuration: `model`, or
    the one that `finetune.start` names.

    Raises:
        ConfigError, ModelError: it does not fit, or cannot be read.
    """
    network, featurizer = architecture(config), datasets.featurizer_of(config.data)
    start = open_start(config.finetune) if model is None else model
    if start is not None:
        start.leak(config.data.dataset, config.finetune.allow_leak)
        name = str(config.finetune.start) if model is None else "the start"
        require_fit(start, network, featurizer, name)
        start = network_alone(start)
    return start


def prepare(
    config: TrainConfig,
    dataset: Dataset,
    start: PropertyModel | None,
    resumed: RunFolder | None,
    world: DistributedContext,
    callback: Callback,
    may_blend: bool = False,
) -> Prepared:
    """Return the data set with the inputs of the model, and the model.

    Args:
        config: the configuration of the run.
        dataset: its data.
        start: the model to start from, see `starting_model`.
        resumed: the folder of the run if it is resumed.
        world: the processes of the run.
        callback: receives progress.
        may_blend: set for members of an ensemble, whose own configurations have no forest, if one
            may be blended with the ensemble.

    Raises:
        ConfigError, DataError, ModelError: the data do not fit the configuration, or a file of the
            resumed run is damaged.
    """
    objective = OBJECTIVES[config.objective.name]
    dataset = world.main_process_first(
        lambda: objective.prepare(config, dataset, callback.on_progress)
    )
    probe = None if resumed is None else resumed.probe()
    inputs = fit_inputs(config, dataset)
    blending.require_blendable(config, dataset, inputs)
    read = inputs if probe is None else probe.inputs
    if start is not None and _is_probed(config):
        with_forest = may_blend or blending.may_blend(config, dataset, inputs)
        read = probe_inputs(config, dataset, inputs, with_forest)
    dataset = world.main_process_first(lambda: with_inputs(dataset, read, callback.on_progress))
    task, dataset = objective.fit_task(config, dataset)
    excludes = {} if start is None else start.excludes
    trained_on = 0
    if resumed is not None and (before := resumed.loaded_weights()) is not None:
        excludes, trained_on = dict(before.excludes), before.trained_on
    model = _new_model(config, dataset, task, inputs, excludes)
    warnings, loaded = list(dataset.warnings), None
    if start is not None:
        unfit = unfit_targets(model, start, dataset)
        loaded = load_weights(model, start, unfit)
        warnings += _about_start(start, model, config.finetune.label, loaded)
        warnings += _about_unfit_targets(start, task, config.finetune.label, unfit)
        if config.finetune.start is not None and task.targets:
            trained_on, warning = world.main_process_first(lambda: _trained_on(dataset, config))
            loaded = replace(loaded, trained_on=trained_on)
            warnings += [warning] * bool(warning)
    elif resumed is None and config.data.dataset is None and task.targets:
        warnings.append(
            "Training starts from random weights: --from none or an option of the architecture, "
            "such as --norm or --featurizer, leaves the pre-trained model out."
        )
    if leak := model.leak(config.data.dataset, config.finetune.allow_leak):
        warnings.append(f"The scores are too optimistic (finetune.allow_leak): {leak}.")
    if leaked := shared_molecules(dataset):
        warnings.append(
            f"{leaked:,} molecule{'s are' if leaked > 1 else ' is'} in more than one split, so "
            "the scores are too optimistic. `molsepnorm data check` lists the rows."
        )
    dataset = replace(dataset, warnings=tuple(warnings))
    new_targets = loaded.new_targets if loaded and _is_probed(config) else ()
    return Prepared(dataset, model, loaded, new_targets, read, probe, leaked, trained_on)


def _new_model(
    config: TrainConfig,
    dataset: Dataset,
    task: Task,
    inputs: ExtraInputs,
    excludes: dict[str, str],
) -> PropertyModel:
    """Return a model with random weights, whose features are scaled to the training molecules."""
    plain = architecture(config)
    network = Graphormer(
        replace(
            plain,
            outputs=task.outputs,
            molecule_features=plain.molecule_features + inputs.width,
            columns=inputs.column_widths,
            counts=inputs.morgan,
            descriptors=len(inputs.descriptors),
        )
    )
    values = dataset.store.features
    if values is not None and isinstance(network.molecule_features, MoleculeFeatures):
        network.molecule_features.fit(torch.from_numpy(values[dataset.splits["train"]]))
    return PropertyModel(
        network,
        dataset.store.featurizer,
        task,
        objective=config.objective.name,
        excludes=excludes,
        inputs=inputs,
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


def _about_unfit_targets(
    start: PropertyModel, task: Task, source: str, unfit: tuple[str, ...]
) -> Iterator[str]:
    """Yield a sentence about each target whose labels do not fit the output weights of a start."""
    new, old = ({each.name: each for each in one.targets} for one in (task, start.task))
    for name in unfit:
        yield (
            f"The labels of {name} (mean {new[name].mean:.4g}, standard deviation "
            f"{new[name].scale:.4g}) do not fit the output weights of {source} (mean "
            f"{old[name].mean:.4g}, standard deviation {old[name].scale:.4g}), so new ones are "
            "trained. If the unit differs, convert the labels to keep the old ones."
        )


def _keeping(inputs: ExtraInputs) -> str:
    """Return a sentence with the options for the inputs of a start."""
    features = [name for name in ("morgan", "descriptors") if getattr(inputs, name)]
    features = [name.replace("descriptors", "rdkit") for name in features]
    options = [f"--feature-columns {','.join(inputs.names)}"] * bool(inputs.names)
    options += [f"--molecule-features {','.join(features)}"] * bool(features)
    return f"To use them, add {' '.join(options)}."


def _trained_on(dataset: Dataset, config: TrainConfig) -> tuple[int, str]:
    """Return the number of validation and test molecules that the start was trained on, and a
    warning; 0 and an empty text if there is none."""
    start = config.finetune.start
    assert start is not None
    try:
        found = trained_on_before(dataset, start, config.data.standardize)
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
