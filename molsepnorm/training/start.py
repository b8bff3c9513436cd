"""The weights that training starts from.

The head is the layer (or the two layers) that computes the outputs; the body is everything before
it. The body is loaded as it is, which needs the same featuriser and the same architecture. The head
is loaded target by target: one of the same name, kind, classes and transform keeps its outputs if
its labels fit them (`unfit_targets`), any other one starts with new weights. The head of a model
that was not trained by supervised learning is not loaded. The extra inputs (`tasks.ExtraInputs`) of
the two models may differ: the head then reads the new ones with weights of 0 at first, and a head
of two layers is not loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import first_of
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.parts import INTERACTIONS, output_layer
from molsepnorm.predict.inference import predict
from molsepnorm.tasks import NO_INPUTS, ExtraInputs
from molsepnorm.training.finetuning import in_head

_LIMIT = 2.0
"""Largest standard deviation of new labels in those of the start's labels, and largest RMSE of the
start in those of the new labels. An RMSE of √2 has even a start that was hardly trained."""
_MAX_MOLECULES = 1000  # whose labels are compared with the predictions of the start


@dataclass(frozen=True)
class LoadedWeights:
    """The weights that a network has from the model that it starts from."""

    loaded: int
    """Number of parameters that were loaded."""
    parameters: int
    """Number of parameters of the network."""
    same_targets: tuple[str, ...]
    """Targets whose outputs were loaded."""
    new_targets: tuple[str, ...]
    """Targets whose outputs start with new weights."""
    excludes: Mapping[str, str]
    """Data sets that the loaded weights must not be evaluated on, each with the reason."""
    trained_on: int = 0
    """Number of validation and test molecules that the start was trained on."""

    def __str__(self) -> str:
        text = f"{self.loaded:,} of {self.parameters:,} parameters were loaded"
        if self.same_targets:
            text += f"; its output weights were loaded for {first_of(self.same_targets, 5)}"
        if self.new_targets:
            text += f"; new output weights for {first_of(self.new_targets, 5)}"
        return text


def network_alone(start: PropertyModel) -> PropertyModel:
    """Return a model without the kernel regression and the forests that its network is averaged
    with, and without the inputs that only these read. A kernel head is not loaded, so neither are
    its inputs."""
    inputs, own = start.inputs, start.encoding.molecule_features
    kernel = start.network.config.head == "kernel"
    width = 0 if kernel else start.network.config.molecule_features - own
    columns = inputs.columns
    shorter = (NO_INPUTS, ExtraInputs(columns), ExtraInputs(columns, inputs.morgan))
    inputs = next((each for each in shorter if each.width == width), inputs)
    alone = replace(start, partners=(), weights=(1.0,), forests=(), forest_share=0.0)
    return replace(alone, inputs=inputs)


def unfit_targets(model: PropertyModel, start: PropertyModel, dataset: Dataset) -> tuple[str, ...]:
    """Return the regression targets whose training labels do not fit the output weights that
    `load_weights` would load, as with labels in another unit.

    Their standard deviation is more than twice that of the labels of the start, or the start
    predicts them with an RMSE of more than twice their standard deviation. A smaller deviation
    alone fits, since it may be that of a series of similar molecules.

    Args:
        model, start: as for `load_weights`; they are not changed.
        dataset: the data set, with the inputs of the model.
    """
    loaded = deepcopy(model)
    same = load_weights(loaded, start).same_targets
    olds = {each.name: each for each in start.task.targets if each.name in same}
    numbers = [n for n, each in enumerate(model.task.targets) if each.name in olds]
    numbers = [n for n in numbers if model.task.targets[n].kind == "regression"]
    if not numbers:
        return ()
    train = dataset.splits["train"]
    rows = train[:: -(-len(train) // _MAX_MOLECULES)]
    values = predict(loaded, GraphTensors.of(dataset.store), rows)
    found = []
    for number in numbers:
        new, column = model.task.targets[number], model.task.columns()[number].start
        errors = values[:, column] - dataset.labels[rows, number]
        known = errors[np.isfinite(errors)]
        rmse = (known @ known / max(len(known), 1)) ** 0.5
        if new.scale > _LIMIT * olds[new.name].scale or rmse > _LIMIT * new.scale:
            found.append(new.name)
    return tuple(found)


def load_weights(
    model: PropertyModel, start: PropertyModel, unfit: Collection[str] = ()
) -> LoadedWeights:
    """Copy the weights of a trained model into a model of the same architecture.

    The outputs of regression targets are rescaled from the standardisation of the start's labels to
    that of the new ones, so that the network predicts the same values as the start.

    Args:
        model: model to change, on the CPU.
        start: trained model, on the CPU.
        unfit: targets that get new output weights, see `unfit_targets`.
    """
    network, task, same_inputs = model.network, model.task, model.inputs == start.inputs
    supervised = start.objective == SUPERVISED and start.network.config.head != "kernel"
    if supervised and (same_inputs or network.config.head == "linear"):
        targets = zip(start.task.targets, start.task.columns(), strict=True)
        known = {each.meaning: (each, rows) for each, rows in targets}
    else:
        known = {}
    ours, theirs = network.state_dict(), start.network.state_dict()
    if start.network.config.compared_features:  # the kernel head alone reads them
        theirs = {
            name: each for name, each in theirs.items() if not name.startswith("molecule_features.")
        }
    weight, bias = output_layer(ours)
    common = ours[weight].shape[1] - (0 if same_inputs else model.inputs.width)  # channels
    interact = same_inputs and INTERACTIONS in ours and INTERACTIONS in theirs
    same, outputs = [], 0
    for target, rows in zip(task.targets, task.columns(), strict=True):
        if target.meaning not in known or target.name in unfit:
            continue
        source, source_rows = known[target.meaning]
        ratio, shift = source.rescaling_to(target)
        ours[weight][rows, :common] = theirs[weight][source_rows, :common] * ratio
        ours[bias][rows] = theirs[bias][source_rows] * ratio + shift
        if interact:
            ours[INTERACTIONS][rows] = theirs[INTERACTIONS][source_rows] * ratio
        same.append(target.name)
        outputs += target.width
    for name, value in theirs.items():
        if name.startswith("molecule_features.") and not same_inputs:
            own = start.encoding.molecule_features  # of the featuriser, which are the first
            if own:
                ours[name][:own] = value[:own]
        elif name not in (weight, bias, INTERACTIONS) and (same or not in_head(name)):
            ours[name].copy_(value)
    sizes = {name: parameter.numel() for name, parameter in network.named_parameters()}
    new = {name for name in sizes if in_head(name)}
    if same:
        new &= {weight, bias, INTERACTIONS}
    body = sum(size for name, size in sizes.items() if name not in new)
    of_output = common + 1 + (ours[INTERACTIONS][0].numel() if interact else 0)
    return LoadedWeights(
        loaded=body + outputs * of_output,
        parameters=sum(sizes.values()),
        same_targets=tuple(same),
        new_targets=tuple(name for name in task.names if name not in same),
        excludes=start.excludes,
    )


class Body:
    """The part of a network before its head. While it is frozen, it has no gradients."""

    def __init__(self, network: Graphormer) -> None:
        self._modules = [child for name, child in network.named_children() if not in_head(name)]
        parameters = (each for module in self._modules for each in module.parameters())
        self._trained = [each for each in parameters if each.requires_grad]
        self.frozen = False

    def freeze(self, frozen: bool) -> bool:
        """Freeze or unfreeze the body; return whether that changed anything."""
        changed, self.frozen = self.frozen != frozen, frozen
        for parameter in self._trained:
            parameter.requires_grad_(not frozen)
        return changed

    def eval(self) -> None:
        """Switch off dropout, and keep the statistics of batch norms."""
        for module in self._modules:
            module.eval()
