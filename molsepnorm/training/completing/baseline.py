"""The random forest of a run on a table, and the weights of the parts of a model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.devices import threads_of
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.model.parts import NetworkPart
from molsepnorm.model.parts.forest import TREES, Forest
from molsepnorm.molecules.featurize.descriptors import COUNTS, FAST_DESCRIPTORS
from molsepnorm.tasks import ExtraInputs, Loss, Task
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import with_inputs
from molsepnorm.training.objectives import Examples
from molsepnorm.training.scoring import predicted_splits, refit_rows, scored_together

_TREE_LABELS = 10_000_000  # trees times training labels, above which a forest has fewer trees
_MIN_BLENDED, _MIN_COMPARED = 200, 10  # trees of a forest that is blended, or only compared
_MAX_LABELS = 100_000  # training labels of all targets with which a forest is blended by default


class Baseline(NamedTuple):
    """A random forest, and its predictions, float32 [n, O], by split.

    With `refit`, the forest is fitted to the training and validation molecules, and the predictions
    for the latter are those of another forest, which has not seen them.
    """

    forest: Forest
    predictions: Mapping[str, np.ndarray]
    seconds: float
    shares: np.ndarray  # (T,), weights of the forest in the model; 0 if it is only compared
    refit: bool


def fit_baseline(
    config: TrainConfig,
    dataset: Dataset,
    model: PropertyModel,
    val: np.ndarray,
    is_refit: bool,
    callback: Callback,
) -> Baseline | None:
    """Fit a random forest to the training molecules, and predict the other splits.

    Bounds, such as >10, are fitted as their number. Data sets with a name, molecules that are not
    SMILES, and `run.baseline: false` have no forest.

    With `run.refit` a forest that is blended, or compared with a model that is fitted to the
    validation molecules (`is_refit`), is fitted to them as well. Another forest of at most 200
    trees, fitted to the training molecules, is then compared with the predictions `val`, float32
    [n, O], of the model to choose its weight.
    """
    if not config.run.baseline or config.data.dataset is not None:
        return None
    if dataset.smiles is None:
        callback.on_warning("The run has no baseline, because its molecules are not SMILES.")
        return None
    can_blend = may_blend(config, dataset)
    if not can_blend and config.run.blend != "none":
        problem = _blend_problem(config, dataset)
        callback.on_warning(f"The random forest is not blended in, because {problem}.")
    if not (can_blend or dataset.has_test):
        return None
    started = time.perf_counter()
    seed, threads = config.run.seed, threads_of(config.run.threads)
    try:
        reads = forest_inputs(model.inputs)
        progress, molecules = callback.on_progress, model.molecules
        _, extra = with_inputs(dataset, reads, progress, threads, molecules)
    except InvalidMolecule as error:
        callback.on_warning(f"The run has no baseline, because RDKit refuses a molecule: {error}")
        return None
    twice = config.run.refit and (can_blend or is_refit)
    smallest = _MIN_BLENDED if can_blend else _MIN_COMPARED
    trees = min(TREES, max(smallest, _TREE_LABELS // max(_num_labels(dataset), 1)))

    def fit(rows: np.ndarray, trees: int) -> Forest:
        features, labels = extra.of(rows).read_by(reads).stacked(), dataset.labels[rows]
        weights = None if dataset.label_weights is None else dataset.label_weights[rows]
        number = {"seed": seed, "trees": trees, "threads": threads}
        return Forest.fit(reads, features, labels, model.task, weights, **number)

    graphs = predicted_splits(dataset)
    forest = fit(dataset.splits["train"], min(trees, _MIN_BLENDED) if twice else trees)
    predictions = {"val": forest.values(extra.of(graphs.pop("val")))}
    shares = np.zeros(len(model.task.targets))
    if can_blend:
        shares = forest_shares(model.task, val, predictions["val"], dataset, callback)
    refit = twice and bool(shares.any() or is_refit)
    if refit:
        forest = fit(refit_rows(dataset.splits), trees)
    for split, rows in graphs.items():
        if shares.any() or split != "train":
            predictions[split] = forest.values(extra.of(rows))
    return Baseline(forest, predictions, time.perf_counter() - started, shares, refit)


def forest_inputs(inputs: ExtraInputs) -> ExtraInputs:
    described = inputs.descriptors or FAST_DESCRIPTORS
    return replace(inputs, morgan=COUNTS, descriptors=described, pairs=0)


def _blend_problem(config: TrainConfig, dataset: Dataset) -> str | None:
    """Return the reason why no forest can be blended with the network, if there is one."""
    if not config.run.baseline:
        return "run.baseline is off (--no-baseline)"
    if config.objective.name != SUPERVISED:
        return f"the objective {config.objective.name} has no predictions"
    if config.data.dataset is not None or dataset.smiles is None:
        return f"{dataset.name} is not a table with SMILES"
    if config.run.blend == "auto" and _num_labels(dataset) > _MAX_LABELS:
        return f"there are more than {_MAX_LABELS:,} training labels (--blend forest includes it)"
    return None


def may_blend(config: TrainConfig, dataset: Dataset) -> bool:
    """Return whether a forest becomes a part of the model if it helps on the validation split."""
    problem = _blend_problem(config, dataset)
    if config.run.blend == "forest" and problem is not None:
        raise ConfigError(f"run.blend: forest cannot be used, because {problem}")
    return config.run.blend != "none" and problem is None


def _num_labels(dataset: Dataset) -> int:
    return int(np.isfinite(dataset.labels[dataset.splits["train"]]).sum())


_STEPS = 20  # between a share of 0 and of 1
_OF_FOREST, _OF_NETWORK, OF_OWN_NETWORK = (20, 1 / 2), (200, 1 / 4), (200, 1 / 2)
"""Number of validation molecules that a share before the choice is worth, and this share. Those of
networks are worth more, because validation molecules have chosen the epoch. The network's is 1/4,
because the kernel regression reads it, too."""


def with_network_share(model: PropertyModel, examples: Examples) -> PropertyModel:
    """Choose the shares (`best_shares`) of the networks in their mean with kernel regressions."""
    is_network = np.array([isinstance(part, NetworkPart) for part in model.parts])
    if is_network.all() or not is_network.any():
        return model
    dataset = examples.dataset
    val, halves = dataset.splits["val"], []
    for used in (~is_network, is_network):
        weights = np.where(used[:, None], model.weights, 0.0)
        halves.append(model.with_parts(model.parts, weights / weights.sum(axis=0)))
    kernel, network = (half.predict(examples.inputs, val).values for half in halves)
    share = best_shares(model.task, kernel, network, dataset, _OF_NETWORK)
    weights = (1 - share) * halves[0].weights + share * halves[1].weights
    return model.with_parts(model.parts, weights)


def forest_shares(
    task: Task, networks: np.ndarray, forest: np.ndarray, dataset: Dataset, callback: Callback
) -> np.ndarray:  # (T,)
    """Return the shares (`best_shares`) of the forest in the model, and warn if all are 0."""
    shares, why = np.zeros(len(task.targets)), "no validation molecule has a label"
    if np.isfinite(dataset.labels[dataset.splits["val"]]).any():
        shares = best_shares(task, networks, forest, dataset, _OF_FOREST)
        why = "it does not help on the validation split"
    if not shares.any():
        callback.on_warning(f"The random forest is not blended in, because {why}.")
    return shares


def best_shares(
    task: Task, one: np.ndarray, other: np.ndarray, dataset: Dataset, prior: tuple[int, float]
) -> np.ndarray:  # (T,)
    """Return the share of `other` in its mean with `one`, both predictions [n, O], for each target.

    It is a weighted mean of the share with the smallest validation loss, which counts as many
    molecules as have a label, and that of all other targets together, which counts the molecules of
    the prior; without other targets, this is its share. If only one of the two has a larger error
    (`_errors`) than the trivial baseline, the other one has all.
    """
    molecules, usual = prior
    graphs = dataset.splits["val"]
    trivial = task.baseline_prediction(dataset.labels[dataset.splits["train"]])
    compared = one, other, np.tile(trivial, (len(graphs), 1))
    of_one, of_other, limits = (_errors(task, each, dataset, graphs) for each in compared)
    is_worse = of_one > limits, of_other > limits
    labels, weights, bounds = (
        None if each is None else torch.from_numpy(each[graphs])
        for each in (dataset.labels, dataset.label_weights, dataset.bounds)
    )
    assert labels is not None
    loss, losses = Loss(task), []
    for share in (step / _STEPS for step in range(_STEPS + 1)):
        mixed = torch.from_numpy((1 - share) * one + share * other)
        of_labels, _ = loss.of_labels(task.outputs_of(mixed), labels, weights, bounds)
        losses.append([float(column.sum()) for column in of_labels.T.contiguous()])
    known, of_targets = np.isfinite(dataset.labels[graphs]), np.array(losses)  # (n, T), (S, T)
    together = scored_together(dataset)

    def share_of(some: np.ndarray, before: float) -> float:  # bool (T,)
        best = of_targets[:, some].sum(axis=1).argmin() / _STEPS
        count = len(np.unique(together[graphs[known[:, some].any(axis=1)]]))
        return (count * best + molecules * before) / max(count + molecules, 1)

    own = np.eye(len(task.targets), dtype=bool)
    shares = np.array([share_of(each, share_of(~each, usual)) for each in own])
    shares = np.where(is_worse[0] == is_worse[1], shares, is_worse[0])
    return np.round(shares * _STEPS) / _STEPS


def _errors(
    task: Task, predictions: np.ndarray, dataset: Dataset, graphs: np.ndarray
) -> np.ndarray:  # (T,)
    """Return the summed error of predictions [n, O] for each target: the loss of numbers, and the
    squared error of probabilities, since a single confident mistake would dominate their loss."""
    totals = []
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
        weights = 1.0 if dataset.label_weights is None else dataset.label_weights[graphs, number]
        totals.append(float((errors * weights)[known].sum()))
    return np.array(totals)
