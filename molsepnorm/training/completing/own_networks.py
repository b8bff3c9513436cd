"""Networks of single targets, beside the common network of a table with several targets.

A target that learns something else than the others may be predicted worse by a common network than
by one of its own. The model of such a target averages both; the validation molecules choose the
share. Kernel regressions and random forests treat targets separately anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart, NetworkPart, Part
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing.baseline import (
    OF_OWN_NETWORK,
    best_shares,
    with_network_share,
)
from molsepnorm.training.completing.refit import Fit, from_start, of_target
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Examples
from molsepnorm.training.results.metrics import OwnNetwork

_LABELS = 200  # training labels from which on a target has its own network
_MOST = 8  # such targets of a table that has own networks by default


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
        dataset, number = of_target(examples.dataset, name), model.task.names.index(name)
        val = dataset.splits["val"]
        task = model.task.choosing_by(dataset.exact_labels[val])
        fit = Fit(config.run.seed, config.run.epochs, name)
        own, alone = replace(model, task=task), replace(examples, dataset=dataset)
        steps = _Steps(callback)
        known = config, own, common, kernel, alone, fit, steps
        trained = from_start(*known, lambda trainer: trainer if trainer.fit() else None)
        if trained is None:
            return None
        assert trained.kept is not None
        network = trained.kept.to(trained.device).network_part
        assert network is not None
        models = (own.with_parts([each], [1.0]) for each in (network, common))
        ours, others = (each.predict(examples.inputs, val).values for each in models)
        share = float(best_shares(task, others, ours, dataset, OF_OWN_NETWORK)[number])
        about[name] = OwnNetwork(share=share, kept_epoch=trained.progress.kept_epoch or 0)
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
