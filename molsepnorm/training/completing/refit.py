"""The second fit of fine-tuned networks, to the training and validation molecules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
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

Result = TypeVar("Result")


class Fit(NamedTuple):
    """The training of a network."""

    seed: int
    epochs: int  # up to the kept one
    target: str | None = None  # the target whose own network it is; None for the common network


def kernel_of_start(
    config: TrainConfig, start: PropertyModel | None, loaded: LoadedWeights | None
) -> KernelPart | None:
    """Return the kernel regression of the start, which reads the networks as they were before their
    first fit; None if they cannot be trained again from it: the data set has a name (its split is a
    protocol), the run has a budget of time, or outputs of the start were loaded (it knows more
    molecules)."""
    is_new = loaded is not None and not loaded.same_targets
    if start is None or not is_new or config.run.budget or config.data.dataset:
        return None
    return next((part for part in start.parts if isinstance(part, KernelPart)), None)


def refit_networks(
    config: TrainConfig,
    model: PropertyModel,
    kernel: KernelPart | None,
    examples: Examples,
    fits: Sequence[Fit],
    callback: Callback,
) -> PropertyModel | None:
    """Return the model with its networks trained again, on the training and validation molecules.

    A network starts from the weights that it had before its first fit, those of `kernel` (see
    `kernel_of_start`), and trains with its seed up to its kept epoch, which `fits` has for each
    network. The result is None if a callback stopped a fit, and the model itself if `run.refit` is
    off, or there is no network or no such kernel regression.
    """
    if kernel is None or not fits or not config.run.refit:
        return model
    networks = [part for part in model.parts if isinstance(part, NetworkPart)]
    again = dict[Part, Part]()
    for part, fit in zip(networks, fits, strict=True):
        dataset = of_target(examples.dataset, fit.target)
        dataset = replace(dataset, splits={**dataset.splits, "train": refit_rows(dataset.splits)})
        network = from_start(
            *(config, model, part, kernel, replace(examples, dataset=dataset), fit, callback),
            partial(Trainer.train_for, epochs=fit.epochs),
        )
        if network is None:
            return None
        again[part] = NetworkPart(network, part.reads)
    return model.with_parts([again.get(part, part) for part in model.parts], model.weights)


def from_start(
    config: TrainConfig,
    model: PropertyModel,
    part: NetworkPart,
    kernel: KernelPart,
    examples: Examples,
    fit: Fit,
    callback: Callback,
    train: Callable[[Trainer], Result],
) -> Result:
    """Return what `train` makes of a trainer of a network like `part` before its first fit."""
    changes: dict[str, Any] = {"run": config.run.model_copy(update={"seed": fit.seed})}
    if fit.target is not None:
        changes["optim"] = config.optim.model_copy(update={"task_weights": {}})
    start = NetworkPart(_start(part.network, kernel.network), part.reads)
    untrained, probe = model.with_parts([start], [1.0]), model.with_parts([kernel], [1.0])
    new_targets, extra = model.task.names, examples.inputs.extra
    about = new_targets, part.reads, extra, probe
    prepared = Prepared(examples.dataset, untrained, None, *about)
    device = examples.labels.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(fit.seed)
        return train(Trainer(config.model_copy(update=changes), prepared, None, callback))


def of_target(dataset: Dataset, name: str | None) -> Dataset:
    """Return the data set with the labels of one target, in splits of the molecules that have one;
    of all targets without a name."""
    if name is None:
        return dataset
    own = np.array([name == other for other in dataset.target_names])
    labels = np.where(own, dataset.labels, np.float32(np.nan))
    known = np.flatnonzero(np.isfinite(labels).any(axis=1))
    splits = {split: rows[np.isin(rows, known)] for split, rows in dataset.splits.items()}
    errors = {key: error for key, error in dataset.unexplained.items() if key == name}
    return replace(dataset, labels=labels, splits=splits, unexplained=errors)


def _start(trained: Graphormer, start: Graphormer) -> Graphormer:
    """Return a network like the trained one, with the body of the start and a new head."""
    network, body = empty_network(trained.config), start.state_dict()
    state = network.state_dict()
    for name, tensor in trained.state_dict().items():
        if name.startswith("molecule_features."):  # their scale
            state[name] = tensor
        elif not in_head(name):
            state[name] = body[name]
    network.load_state_dict(state)
    return network
