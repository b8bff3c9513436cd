"""`prepare`: the data and the model of a run, before its first step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.model import SUPERVISED, ExtraArrays, PropertyModel
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.label_errors import fit_unexplained
from molsepnorm.tasks.metrics import significant
from molsepnorm.training.auxiliary import Auxiliary, fit_auxiliary
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.inputs import (
    about_molecules,
    fit_inputs,
    fit_molecules,
    probe_inputs,
    with_inputs,
)
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.probe.kernel import left_out_by_structure
from molsepnorm.training.recipes import architecture
from molsepnorm.training.run_folder.folder import LoadedWeights, RunFolder
from molsepnorm.training.scoring import drawn
from molsepnorm.training.start import about_overlap, about_start, load_weights, unfit_targets

_MAX_RESIDUALS = 3000  # training molecules that `unexplained` is fitted to, a few seconds


@dataclass(frozen=True)
class Prepared:
    dataset: Dataset  # with the fitted targets, and the warnings of the run
    model: PropertyModel
    loaded: LoadedWeights | None
    new_targets: tuple[str, ...]  # targets whose outputs are fitted before training
    inputs: ExtraInputs  # of the model, or more that the probe may read
    extra: ExtraArrays  # values of the inputs
    probe: PropertyModel | None = None  # kernel regression of a resumed run
    leaked: int | None = None  # molecules in more than one split; None if they are not compared


def prepare(
    config: TrainConfig,
    dataset: Dataset,
    start: PropertyModel | None,
    resumed: RunFolder | None,
    world: DistributedContext,
    callback: Callback,
    may_blend: bool = False,
    auxiliary: Auxiliary | None = None,
) -> Prepared:
    """Return the data set with the inputs of the model, and the model. `auxiliary` are the
    auxiliary models, unless they are to be fitted."""
    objective = OBJECTIVES[config.objective.name]
    progress = callback.on_progress
    dataset = world.main_process_first(lambda: objective.prepare(config, dataset, progress))
    probe = None if resumed is None else resumed.start()
    if probe is not None and probe.network_part is not None:  # the run has no probe
        probe = None
    inputs = fit_inputs(config, dataset)
    if auxiliary is None:
        auxiliary = Auxiliary()
        if config.data.auxiliary:
            auxiliary = world.main_process_first(
                lambda: fit_auxiliary(config, dataset, start, inputs, progress)
            )
        fitted = fit_molecules(config, dataset, inputs, start)
        auxiliary = auxiliary._replace(molecules=fitted)
    molecules, lines = auxiliary.molecules, (*dataset.warnings, *auxiliary.lines)
    dataset = replace(dataset, predicted=auxiliary.predicted, warnings=lines)
    inputs = replace(inputs, predicted=tuple(auxiliary.predicted))
    dataset = world.main_process_first(
        lambda: with_unexplained(dataset, inputs, progress, molecules)
    )
    can_blend = baseline.may_blend(config, dataset)
    is_probed = config.finetune.probe and config.objective.name == SUPERVISED
    read = inputs if probe is None else probe.inputs
    if start is not None and is_probed:
        read = probe_inputs(config, dataset, inputs, may_blend or can_blend)
    dataset, extra = world.main_process_first(
        lambda: with_inputs(dataset, read, progress, molecules=molecules)
    )
    task, dataset = objective.fit_task(config, dataset)
    loaded = None if resumed is None else resumed.recorded().loaded_weights
    known = start or loaded
    excludes = {} if known is None else {**known.excludes}
    model = _new_model(config, dataset, task, inputs, extra, excludes, auxiliary)
    warnings = [*dataset.warnings, *about_molecules(dataset, molecules)]
    new_targets = tuple[str, ...]()
    if start is not None:
        unfit, label = unfit_targets(model, start, dataset, extra), str(config.finetune.start)
        loaded = load_weights(model, start, unfit)
        new_targets = loaded.new_targets if is_probed else ()
        warnings += about_start(start, model, label, loaded, unfit)
        if task.targets:
            count, warning = world.main_process_first(lambda: about_overlap(dataset, config))
            loaded = replace(loaded, trained_on=count)
            warnings += [warning] * bool(warning)
    elif resumed is None and config.data.dataset is None and task.targets:
        warnings.append(
            "Training starts from random weights: --from none or an option of the architecture, "
            "such as --norm or --featurizer, leaves the pre-trained model out."
        )
    if leak := model.leak(config.data.dataset, config.finetune.allow_leak):
        warnings.append(f"The scores are too optimistic (finetune.allow_leak): {leak}.")
    columns = config.data.leak_columns
    if leaked := shared_molecules(dataset, columns):
        what = "combination" if columns else "molecule"
        warnings.append(
            f"{leaked:,} {what}{'s are' if leaked > 1 else ' is'} in more than one split, so "
            "the scores are too optimistic. `molsepnorm data check` lists the rows."
        )
    dataset = replace(dataset, warnings=tuple(warnings))
    return Prepared(dataset, model, loaded, new_targets, read, extra, probe, leaked)


def shared_molecules(dataset: Dataset, columns: Sequence[str] = ()) -> int | None:
    """Count the molecules, with the cells of these feature columns, that are in more than one
    split; None if there are no SMILES."""
    if dataset.smiles is None:
        return None
    rows = [*zip(dataset.molecule_ids, *(dataset.columns[name] for name in columns), strict=True)]
    parts = ({rows[graph] for graph in part} for part in dataset.splits.values())
    return sum(count > 1 for count in Counter(chain.from_iterable(parts)).values())


def _new_model(
    config: TrainConfig,
    dataset: Dataset,
    task: Task,
    inputs: ExtraInputs,
    extra: ExtraArrays,
    excludes: dict[str, str],
    auxiliary: Auxiliary,
) -> PropertyModel:
    shape, columns = architecture(config), sum(inputs.column_widths)
    width = shape.molecule_features + inputs.width
    shape = replace(shape, outputs=task.outputs, molecule_features=width, columns=columns)
    network = Graphormer(shape)
    if isinstance(network.molecule_features, MoleculeFeatures):
        train, features = dataset.splits["train"], dataset.store.features
        values = extra.of(train).read_by(inputs).stacked()
        values = values if features is None else np.hstack([features[train], values])
        as_is = np.zeros(width, dtype=bool)
        as_is[width - columns :] = inputs.of_molecules
        network.molecule_features.fit(torch.from_numpy(values), torch.from_numpy(as_is))
    about: dict[str, Any] = {"excludes": excludes, "auxiliary": auxiliary.models}
    about["molecules"] = auxiliary.molecules
    about |= {"objective": config.objective.name, "standardize": config.data.standardize}
    return PropertyModel.of(network, dataset.store.featurizer, task, inputs=inputs, **about)


def with_unexplained(
    dataset: Dataset,
    inputs: ExtraInputs,
    progress: Callable[[int, int], None],
    molecules: MoleculeColumns | None = None,
) -> Dataset:
    """Return the data set with `unexplained` for the targets with errors, and a line about each.

    It is fitted to leave-one-out residuals of a kernel regression on descriptors and fingerprint
    counts. Those of the model itself would be a little smaller, but they are known only after it is
    fitted with the weights, and a resumed run or an ensemble would have to keep them.

    Args:
        inputs: inputs of the model, whose feature columns the regression compares, too.
        molecules: computes the vectors of columns of molecules.

    Raises:
        ConfigError: there are errors, and the molecules are no SMILES that RDKit reads.
    """
    if dataset.errors is None:
        return dataset
    has_errors = np.flatnonzero(np.isfinite(dataset.errors).any(axis=0))
    rows = drawn(dataset.splits["train"], _MAX_RESIDUALS)
    labels, errors = (each[rows][:, has_errors] for each in (dataset.exact_labels, dataset.errors))
    task = Task.fit([dataset.targets[i] for i in has_errors], labels, "loss", strict=False)
    reads = baseline.forest_inputs(inputs)
    try:
        if dataset.smiles is None:
            raise InvalidMolecule("there are no SMILES")
        extra = with_inputs(dataset, reads, progress, molecules=molecules)[1]
        extra = extra.of(rows).read_by(reads)
    except InvalidMolecule as error:
        raise ConfigError(f"data.error_column needs SMILES that RDKit reads: {error}") from None
    outputs = left_out_by_structure(task, labels, extra, reads, dataset.molecule_ids[rows])
    values = task.predictions(torch.from_numpy(outputs)).numpy()
    unexplained, lines = dict[str, float](), list[str]()
    for i, target in enumerate(task.targets):
        known = np.isfinite(labels[:, i] - values[:, i])
        residuals, own = (labels - values)[known, i], errors[known, i]
        found = fit_unexplained(residuals, own, target.scale) if known.any() else target.scale
        unexplained[target.name] = found
        lines.append(
            f"{target.name}: labels have the weights 1 / (σ² + τ²) with their errors σ and "
            f"τ = {significant(found, 2)}, what a model cannot explain."
        )
    return replace(dataset, unexplained=unexplained, warnings=(*dataset.warnings, *lines))
