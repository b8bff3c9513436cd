"""The second fit of fine-tuned networks, to the training and validation molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart, NetworkPart, Part
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.parts import in_head
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.loop import Trainer
from molsepnorm.training.objectives import Examples
from molsepnorm.training.preparing import Prepared
from molsepnorm.training.scoring import refit_rows
from molsepnorm.training.start import LoadedWeights


def refit_networks(
    config: TrainConfig,
    model: PropertyModel,
    loaded: LoadedWeights | None,
    examples: Examples,
    fits: Sequence[tuple[int, int]],
    callback: Callback,
) -> PropertyModel | None:
    """Return the model with its networks trained again, on the training and validation molecules.

    A network starts from the weights that it had before its first fit, which the encoder of the
    kernel regression still has, and trains with its seed up to its best epoch, which `fits` has for
    each network. The result is None if a callback stopped a fit.

    Networks are not trained again if `run.refit` is off, the data set has a name (its split is a
    protocol), the run has a budget of time, outputs of the start were loaded (it knows more
    molecules), or they have no weight in the mean.
    """
    dataset, device, run = examples.dataset, examples.labels.device, config.run
    assert dataset is not None
    kernel = next((part for part in model.parts if isinstance(part, KernelPart)), None)
    is_new = loaded is not None and not loaded.same_targets
    if kernel is None or not (run.refit and is_new) or run.budget or config.data.dataset:
        return model
    splits = {**dataset.splits, "train": refit_rows(dataset.splits)}
    dataset = replace(dataset, splits=splits)
    weights = dict[Part, float](zip(model.parts, model.weights, strict=True))
    networks = [part for part in model.parts if isinstance(part, NetworkPart)]
    again = dict[Part, Part]()
    for part, (seed, best_epoch) in zip(networks, fits, strict=True):
        if not weights[part]:
            continue
        seeded = config.model_copy(update={"run": run.model_copy(update={"seed": seed})})
        start = NetworkPart(_start(part.network, kernel.encoder), part.reads)
        untrained = model.with_parts([start], [1.0])
        probe = model.with_parts([kernel], [1.0])
        new_targets, extra = model.task.names, examples.inputs.extra
        prepared = Prepared(dataset, untrained, None, new_targets, part.reads, extra, probe)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            network = Trainer(seeded, prepared, None, callback).train_for(best_epoch)
        if network is None:
            return None
        again[part] = NetworkPart(network, part.reads)
    if not again:
        return model
    return model.with_parts([again.get(part, part) for part in model.parts], model.weights)


def _start(trained: Graphormer, encoder: Graphormer) -> Graphormer:
    """Return a network like the trained one, with the body of the encoder and a new head."""
    network, body = empty_network(trained.config), encoder.state_dict()
    state = network.state_dict()
    for name, tensor in trained.state_dict().items():
        if name.startswith("molecule_features."):  # their scale
            state[name] = tensor
        elif not in_head(name):
            state[name] = body[name]
    network.load_state_dict(state)
    return network
