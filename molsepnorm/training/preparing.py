"""`prepare`: the data and the model of a run, before its first step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.leaks import shared_molecules
from molsepnorm.errors import MolsepnormError, counted
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.continuing import trained_on_before
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.inputs import fit_inputs, probe_inputs, with_inputs
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.recipes import architecture
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.start import (
    LoadedWeights,
    about_start,
    about_unfit_targets,
    load_weights,
    unfit_targets,
)


@dataclass(frozen=True)
class Prepared:
    """The data and the model of a run."""

    dataset: Dataset
    """With the inputs that the model reads, the fitted targets, and the warnings of the run."""
    model: PropertyModel
    loaded: LoadedWeights | None = None
    """Its weights from the model that the run started from."""
    new_targets: tuple[str, ...] = ()
    """Targets whose outputs are fitted before training."""
    inputs: ExtraInputs | None = None
    """The inputs of the molecules: those of the model, or more that the probe may read."""
    probe: PropertyModel | None = None
    """The kernel regression of a resumed run, which is not fitted again."""
    leaked: int | None = None
    """Number of molecules in more than one split; None if they cannot be compared."""


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
    baseline.require_blendable(config, dataset, inputs)
    read = inputs if probe is None else probe.inputs
    if start is not None and _is_probed(config):
        with_forest = may_blend or baseline.may_blend(config, dataset, inputs)
        read = probe_inputs(config, dataset, inputs, with_forest)
    dataset = world.main_process_first(lambda: with_inputs(dataset, read, callback.on_progress))
    task, dataset = objective.fit_task(config, dataset)
    loaded = None if resumed is None else resumed.loaded_weights()
    known = start or loaded
    model = _new_model(config, dataset, task, inputs, {} if known is None else {**known.excludes})
    warnings, new_targets = [*dataset.warnings], tuple[str, ...]()
    if start is not None:
        unfit, label = unfit_targets(model, start, dataset), config.finetune.label
        loaded = load_weights(model, start, unfit)
        new_targets = loaded.new_targets if _is_probed(config) else ()
        warnings += about_start(start, model, label, loaded)
        warnings += about_unfit_targets(start, task, label, unfit)
        if config.finetune.start is not None and task.targets:
            count, warning = world.main_process_first(lambda: _trained_on(dataset, config))
            loaded = replace(loaded, trained_on=count)
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
    return Prepared(dataset, model, loaded, new_targets, read, probe, leaked)


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
