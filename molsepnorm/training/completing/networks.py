"""Networks that are trained from the start again, at the end of a run.

The second fit repeats the training of fine-tuned networks on the training and validation molecules.
In a table with several targets, single targets also get networks of their own: a target that learns
something else than the others may be predicted worse by a common network. The model averages both,
and the validation molecules choose the share. Kernel regressions and random forests treat targets
separately anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart, NetworkPart, Part
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.parts import in_head
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing.baseline import (
    OF_OWN_NETWORK,
    best_shares,
    with_network_share,
)
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.loop import Trainer
from molsepnorm.training.objectives import Examples
from molsepnorm.training.preparing import Prepared
from molsepnorm.training.results.metrics import OwnNetwork
from molsepnorm.training.run_folder.folder import LoadedWeights
from molsepnorm.training.scoring import refit_rows

_LABELS = 200  # training labels from which on a target has its own network
_MOST = 8  # such targets of a table that has own networks by default


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
    for part, fit in zip(networks, fits, strict=False):  # equal networks of an ensemble are one
        dataset = _of_target(examples.dataset, fit.target)
        dataset = replace(dataset, splits={**dataset.splits, "train": refit_rows(dataset.splits)})
        every = replace(examples, dataset=dataset)
        with _from_start(config, model, part, kernel, every, fit, callback) as trainer:
            network = trainer.train_for(fit.epochs)
        if network is None:
            return None
        again[part] = NetworkPart(network, part.reads)
    return model.with_parts([again.get(part, part) for part in model.parts], model.weights)


@contextmanager
def _from_start(
    config: TrainConfig,
    model: PropertyModel,
    part: NetworkPart,
    kernel: KernelPart,
    examples: Examples,
    fit: Fit,
    callback: Callback,
) -> Iterator[Trainer]:
    """Yield a trainer of a network like `part` before its first fit, with the seed of the fit."""
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
        yield Trainer(config.model_copy(update=changes), prepared, None, callback)


def _of_target(dataset: Dataset, name: str | None) -> Dataset:
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


def with_own_networks(
    config: TrainConfig,
    model: PropertyModel,
    kernel: KernelPart | None,
    examples: Examples,
    callback: Callback,
) -> tuple[PropertyModel, dict[str, OwnNetwork]] | None:
    """Train a network on each target alone, and split the weight of the common network with it.

    `kernel` is that of the start, see `kernel_of_start`. An own network has the start, the seed and
    the number of epochs of the common one, and trains on the molecules with a label of its target.
    Its share (`best_shares`) is 1/2 before. Return the model and the own networks by target, or
    None if a callback stopped a fit.
    """
    common = model.network_part
    names = _targets(config, examples.dataset)
    if kernel is None or common is None or not names:
        if config.run.own_networks:
            callback.on_warning(
                "No target has a network of its own, since that needs a table with several targets "
                f"and {_LABELS} training labels, a pre-trained network, at least one epoch, and no "
                "--budget."
            )
        return model, {}
    place = model.parts.index(common)
    added, about, weights = list[Part](), dict[str, OwnNetwork](), model.weights
    for name in names:
        dataset, number = _of_target(examples.dataset, name), model.task.names.index(name)
        val = dataset.splits["val"]
        task = model.task.choosing_by(dataset.exact_labels[val])
        fit = Fit(config.run.seed, config.run.length, name)
        own, alone = replace(model, task=task), replace(examples, dataset=dataset)
        with _from_start(config, own, common, kernel, alone, fit, _Steps(callback)) as trainer:
            if not trainer.fit():
                return None
        assert trainer.kept is not None
        network = trainer.kept.to(trainer.device).network_part
        assert network is not None
        models = (own.with_parts([each], [1.0]) for each in (network, common))
        ours, others = (each.predict(examples.inputs, val).values for each in models)
        share = float(best_shares(task, others, ours, dataset, OF_OWN_NETWORK)[number])
        about[name] = OwnNetwork(share=share, kept_epoch=trainer.progress.kept_epoch or 0)
        if share:
            row = np.zeros(len(model.task.names))
            row[number] = share * weights[place, number]
            weights = np.vstack([weights, row])
            weights[place, number] *= 1 - share
            added.append(network)
    return model.with_parts([*model.parts, *added], weights), about


def fits_of(
    model: PropertyModel, seed: int, kept_epoch: int | None, own: Mapping[str, OwnNetwork]
) -> list[Fit]:
    """Return the fits of the networks of a run, in their order in its model."""
    if model.network_part is None:
        return []
    fits = [Fit(seed, each.kept_epoch, name) for name, each in own.items() if each.share]
    return [Fit(seed, kept_epoch or 0), *fits]


def without_own(
    chosen: PropertyModel, final: PropertyModel, fits: Sequence[Fit], examples: Examples
) -> dict[str, np.ndarray]:
    """Return the predictions without own networks, float32 [n, O], for the validation molecules
    from the first and for the test molecules from the second fit; empty if there are none. The
    share of the common networks is chosen again."""
    own = iter(fit.target is not None for fit in fits)
    is_own = [isinstance(part, NetworkPart) and next(own) for part in chosen.parts]
    if not any(is_own):
        return {}
    weights = np.where(is_own, 0.0, 1.0) / (len(is_own) - sum(is_own))
    plain = with_network_share(chosen.with_parts(chosen.parts, weights), examples)
    models = {"val": plain, "test": final.with_parts(final.parts, plain.weights)}
    splits = examples.dataset.splits
    return {name: m.predict(examples.inputs, splits[name]).values for name, m in models.items()}


def _targets(config: TrainConfig, dataset: Dataset) -> list[str]:
    """Return the targets that get a network of their own."""
    counts = np.isfinite(dataset.labels[dataset.splits["train"]]).sum(axis=0)
    validated = np.isfinite(dataset.labels[dataset.splits["val"]]).any(axis=0)
    names = np.array(dataset.target_names)[(counts >= _LABELS) & validated].tolist()
    wanted, several = config.run.own_networks, len(dataset.target_names) > 1
    wanted = 2 <= len(names) <= _MOST if wanted is None else wanted and several
    return names if wanted else []


class _Steps(Callback):
    """Passes steps on, but no epochs, which are those of the common network."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> bool | None:
        return self.callback.on_step(epoch, done, of, loss, rate)
