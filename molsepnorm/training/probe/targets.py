"""Ridge regressions of a task's targets: numbers, or logits of classes.

A target is fitted to the molecules that have a label, with the weights of the molecules and of its
classes. Rare classes have larger weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from molsepnorm.tasks import Target, Task
from molsepnorm.training.probe.embedded import Embedded
from molsepnorm.training.probe.ridge import Axes, LinearModel, principal_axes, ridge

Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[LinearModel, np.ndarray]]
"""Returns a linear model, and leave-one-out predictions, for labels (n, k), weights and molecules;
see `ridge`."""


def fit_targets(
    solver: Callable[[int, np.ndarray], Solve],
    width: int,
    task: Task,
    embedded: Embedded,
    penalties: Sequence[float],
) -> list[LinearModel]:
    """Return a model of each target.

    Targets with labels for the same molecules, and the same penalty, are fitted one after the
    other, so that a solver can use its last decomposition again.

    Args:
        solver: returns the function that solves for a target, by its number and the rows that have
            a label.
        width: number of slopes.
        task, embedded: the targets, and the molecules with their labels.
        penalties: the penalty of each target; all the same if the solver chooses them.
    """
    models: dict[int, LinearModel] = {}
    labelled = np.isfinite(embedded.labels.T)
    alike = [(row.tobytes(), each) for row, each in zip(labelled, penalties, strict=True)]
    for number in sorted(range(len(alike)), key=alike.__getitem__):
        target, labels = task.targets[number], embedded.labels[:, number]
        weights = np.where(np.isnan(labels), 0.0, embedded.weights)
        if target.class_weights:
            weights = weights * np.take(target.class_weights, np.nan_to_num(labels).astype(int))
        rows = np.flatnonzero(weights > 0)
        own = labels[rows].astype(np.float64), weights[rows], embedded.molecule_ids[rows]
        models[number] = _fit(target, solver(number, rows), width, *own)
    return [models[number] for number in range(len(models))]


def ridge_of_targets(features: np.ndarray, task: Task, embedded: Embedded) -> list[LinearModel]:
    """Return the ridge regression of each target on features (n, p), with a penalty of its own."""
    last: dict[bytes, Axes] = {}  # many targets have labels for the same molecules

    def solver(_: int, rows: np.ndarray) -> Solve:
        def solve(
            labels: np.ndarray, weights: np.ndarray, molecules: np.ndarray
        ) -> tuple[LinearModel, np.ndarray]:
            key = rows.tobytes() + weights.tobytes()
            if key not in last:
                last.clear()
                last[key] = principal_axes(features[rows], weights)
            return ridge(last[key], labels, weights, molecules)

        return solve

    none_chosen = [0.0] * len(task.targets)
    return fit_targets(solver, features.shape[1], task, embedded, none_chosen)


def _fit(
    target: Target,
    solve: Solve,
    width: int,
    labels: np.ndarray,
    weights: np.ndarray,
    molecules: np.ndarray,
) -> LinearModel:
    """Return a model of one target from the molecules that have a label.

    Without two different labels its outputs are 0: the mean label, or equal probabilities.
    """
    slopes, offsets = np.zeros((target.width, width)), np.zeros(target.width)
    values, index = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        return LinearModel(slopes, offsets)
    if target.kind == "regression":
        standardised = (labels - target.mean) / target.scale
        return solve(standardised[:, None], weights, molecules)[0]
    found = _logits(solve, index, weights, molecules)
    if target.width == 1:
        return found
    if len(values) == 2:  # one logit is the difference of two
        halves = [np.concatenate([-part, part]) / 2 for part in found[:2]]
        found = found._replace(slopes=halves[0], offsets=halves[1])
    offsets -= np.log(len(labels))  # of classes that no molecule has
    slopes[values.astype(int)], offsets[values.astype(int)] = found[:2]
    return found._replace(slopes=slopes, offsets=offsets)


def _logits(
    solve: Solve, classes: np.ndarray, weights: np.ndarray, molecules: np.ndarray
) -> LinearModel:
    """Return a model whose outputs are the logits of classes 0 … k - 1, or of class 1 if k is 2.

    The indicators of the classes are regressed, with weights of 1 / √frequency for each class, as
    in the random forest. Their leave-one-out predictions are the inputs of a logistic regression
    without these weights, which gives the scale and the offset of the logits.
    """
    from sklearn.linear_model import LogisticRegression

    indicators = np.eye(classes.max() + 1)[classes]
    balance = (weights @ indicators)[classes] ** -0.5
    if indicators.shape[1] == 2:
        indicators = indicators[:, 1:]
    model, left_out = solve(indicators, weights * balance, molecules)
    scale = left_out.std() or 1.0
    relative = weights * (len(weights) / weights.sum())  # the penalty has a fixed weight
    logistic = LogisticRegression(max_iter=1000).fit(left_out / scale, classes, relative)
    factors = logistic.coef_ / scale
    offsets = factors @ model.offsets + logistic.intercept_
    return model._replace(slopes=factors @ model.slopes, offsets=offsets)
