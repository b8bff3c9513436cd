"""The shares of the parts of a model in its predictions, chosen by the validation split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.predict.inference import predict
from molsepnorm.tasks import Loss, Task
from molsepnorm.training.callback import Callback
from molsepnorm.training.objectives import Examples

_STEPS = 20
"""Number of steps between a share of 0 and of 1."""
_MOLECULES = 20
"""Number of validation molecules that a forest's share of 1/2 is worth."""
_MOLECULES_OF_NETWORK = 200
"""Number of validation molecules that the network's share of 1/2 beside the kernel regression is
worth. It is higher, because the same molecules have chosen the epoch of the network."""


def with_network_share(model: PropertyModel, examples: Examples) -> PropertyModel:
    """Return a mean of a trained network and a kernel regression with another share of the network.

    It is 1/2 during training. Afterwards it is that of `_share`, which changes little for tables of
    a few hundred rows. Large tables often have targets that the network predicts much better.

    Args:
        model: a network and its partner, which are averaged; other models stay as they are.
        examples: the data of the run.
    """
    if len(model.networks) != 2:
        return model
    dataset = examples.dataset
    assert dataset is not None
    network, kernel = (
        predict(
            replace(model, network=each, partners=(), weights=(1.0,)),
            examples.graphs,
            dataset.splits["val"],
        )
        for each in model.networks
    )
    share = _share(model.task, kernel, network, dataset, _MOLECULES_OF_NETWORK)
    return replace(model, weights=(share, 1 - share))


def forest_share(
    task: Task,
    networks: np.ndarray,
    forest: np.ndarray,
    dataset: Dataset,
    callback: Callback,
) -> float:
    """Return the share of the forest in the mean of networks and forest, see `_share`.

    A few dozen molecules alone often leave out a part that helps on other molecules.

    Args:
        task: the targets.
        networks, forest: float32 [n, O], their predictions for the validation molecules.
        dataset: the data of the run.
        callback: receives a warning if the share is 0.
    """
    if not _labelled(dataset):
        callback.on_warning(
            "The random forest is not blended in, because no validation molecule has a label."
        )
        return 0.0
    share = _share(task, networks, forest, dataset, _MOLECULES)
    if not share:
        callback.on_warning(
            "The random forest is not blended in, because it does not help on the validation split."
        )
    return share


def _labelled(dataset: Dataset) -> int:
    """Return how many different validation molecules have a label."""
    graphs = dataset.splits["val"]
    counts = np.isfinite(dataset.labels[graphs]).any(axis=1)
    return len(np.unique(dataset.molecule_ids[graphs[counts]]))


def _share(task: Task, one: np.ndarray, other: np.ndarray, dataset: Dataset, prior: int) -> float:
    """Return the share of the other predictions [n, O] of the validation molecules in their mean
    with one's, a multiple of 1 / `_STEPS`.

    It is a weighted mean of the share with the smallest validation loss, which counts as many
    molecules as have a label, and 1/2, which counts `prior` molecules. If one of them has a larger
    `_error` than the trivial baseline, and the other has not, the other one has all.
    """
    graphs = dataset.splits["val"]
    trivial = task.baseline_prediction(dataset.labels[dataset.splits["train"]])
    limit = _error(task, np.tile(trivial, (len(graphs), 1)), dataset, graphs)
    is_worse = [_error(task, each, dataset, graphs) > limit for each in (one, other)]
    if is_worse[0] != is_worse[1]:
        return float(is_worse[0])
    labels, weights, bounds = (
        None if each is None else torch.from_numpy(each[graphs])
        for each in (dataset.labels, dataset.weights, dataset.bounds)
    )
    assert labels is not None

    def loss(share: float) -> float:
        mixed = (1 - share) * one + share * other
        outputs = task.outputs_of(torch.from_numpy(mixed))
        return float(Loss(task)(outputs, labels, weights, bounds)[0])

    best = min((step / _STEPS for step in range(_STEPS + 1)), key=loss)
    count = _labelled(dataset)
    share = (count * best + prior / 2) / (count + prior)
    return round(share * _STEPS) / _STEPS


def _error(task: Task, predictions: np.ndarray, dataset: Dataset, graphs: np.ndarray) -> float:
    """Return the summed error of predictions [n, O]: the loss of numbers, and the squared error of
    probabilities, whose loss a single confident mistake would dominate."""
    total = 0.0
    for number, (target, columns) in enumerate(zip(task.targets, task.columns(), strict=True)):
        labels, values = dataset.labels[graphs, number], predictions[:, columns]
        known = np.isfinite(labels)
        if target.kind == "regression":
            errors = (values[:, 0] - labels) / target.scale
            if dataset.bounds is not None:
                errors = np.where(dataset.bounds[graphs, number] * errors > 0, 0.0, errors)
            errors = errors**2 if task.regression_loss == "mse" else np.abs(errors)
        else:
            classes = np.eye(max(target.width, 2))[np.nan_to_num(labels).astype(int)]
            errors = ((values - classes[:, -target.width :]) ** 2).sum(axis=1)
        weights = 1.0 if dataset.weights is None else dataset.weights[graphs]
        total += float((errors * weights)[known].sum())
    return total
