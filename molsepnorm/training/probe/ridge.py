"""Ridge regressions with leave-one-out predictions in closed form, and their fit to each target.

Rows have weights, and rows of the same molecule are left out together. The offset is not penalised.
`principal_axes` decomposes features, whose solution chooses the penalty; `invert` decomposes a
kernel with a penalty. A target is fitted to the molecules that have a label, as a number or as
logits of classes, with the weights of the molecules and of its classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from molsepnorm.model.parts import infer
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task
from molsepnorm.training.objectives.objective import Examples

_PENALTIES = np.logspace(-4, 5, 28)
_TINY = 1e-12
"""The smallest difference of a leverage from 1. With more features than rows, the smallest penalty
has differences of about the penalty divided by the number of features."""
_BLOCK = 512  # rows that are copied at a time
SMALL = 1e-9
"""Eigenvalues below this fraction of the largest are zero up to rounding."""


class LinearModel(NamedTuple):
    """A linear model of p features for the outputs of one target."""

    slopes: np.ndarray
    """(outputs, p)."""
    offsets: np.ndarray
    """(outputs,)."""
    error: float = 1.0
    """Leave-one-out error, relative to the variance of the labels."""
    penalty: float = 1.0
    left_out: np.ndarray = np.empty((0, 0))
    """(n, outputs): outputs for the rows by fits without the row and its group; empty for several
    classes, and without two different labels."""


Solve = Callable[[np.ndarray, np.ndarray], LinearModel]
"""Returns a linear model of labels (n, k) with its leave-one-out predictions; rows with the same
number in the second array (n,) are left out together."""


def principal_axes(features: np.ndarray, weights: np.ndarray) -> Solve:
    """Decompose features (n, p) of rows with weights (n,), and return what solves for labels.

    The penalty is the one with the smallest leave-one-out error of fits in which the offset, too,
    leaves the group out; otherwise the penalty would vanish where there are as many features as
    rows. The predictions use the mean label of all rows, since a mean without the group reveals its
    labels.
    """
    weights = weights / weights.sum()
    means, root = weights @ features, np.sqrt(weights * len(weights))[:, None]
    centred = (features - means) * root
    values, vectors = _decompose(centred)
    rotated = centred @ vectors  # (n, r)
    squares = rotated**2

    def solve(labels: np.ndarray, groups: np.ndarray) -> LinearModel:
        mean = weights @ labels
        response = (labels - mean) * root
        projected, together = rotated.T @ response, _rows_of_groups(groups)
        offset, none = np.sqrt(weights), np.zeros(len(weights))

        def residuals(penalty: float, offset: np.ndarray) -> np.ndarray:
            shrinkage = 1 / (values + penalty)
            residual = response - rotated @ (projected * shrinkage[:, None])
            leverage = squares @ shrinkage + offset**2
            return _left_out(residual, rotated, shrinkage, offset, leverage, together)

        errors = [float((residuals(penalty, offset) ** 2).sum()) for penalty in _PENALTIES]
        penalty = _PENALTIES[int(np.argmin(errors))]
        slopes = (vectors @ (projected / (values + penalty)[:, None])).T
        left_out = labels - residuals(penalty, none) / root
        variance = max(float((response**2).sum()), SMALL)
        offsets = mean - slopes @ means
        return LinearModel(slopes, offsets, min(errors) / variance, penalty, left_out)

    return solve


def invert(
    kernel: np.ndarray, rows: np.ndarray, weights: np.ndarray, penalty: float, once: bool = False
) -> Solve:
    """Invert the weighted and centred kernel (N, N) between some rows (n,) with weights (n,), and
    return what `principal_axes` returns, with this penalty, for the features that the kernel
    implies. Slopes (k, N) of other rows are 0.

    With `once`, the kernel of all rows is overwritten, which saves memory.
    """
    count = len(kernel)
    kernel = kernel if once and len(rows) == count else kernel[np.ix_(rows, rows)]
    weights = weights / weights.sum()
    means = weights @ kernel
    root = np.sqrt(weights * len(weights))[:, None]
    kernel -= means
    kernel += (weights @ means - means)[:, None]
    kernel *= root.T
    kernel *= root
    kernel.flat[:: len(kernel) + 1] += penalty
    inverted = _inverted(kernel)

    def solve(labels: np.ndarray, groups: np.ndarray) -> LinearModel:
        mean = weights @ labels
        dual = inverted @ ((labels - mean) * root)  # (n, k)
        residual = dual / inverted.diagonal()[:, None]
        for same in _rows_of_groups(groups):
            residual[same] = np.linalg.solve(inverted[same[:, :, None], same[:, None]], dual[same])
        coefficients = (root * dual).T  # (k, n); they sum to 0, since the labels are centred
        slopes = np.zeros((len(coefficients), count))
        slopes[:, rows] = coefficients
        left_out = labels - residual / root
        return LinearModel(slopes, mean - coefficients @ means, left_out=left_out)

    return solve


def _inverted(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix (n, n) in its memory; torch needs twice the
    memory and the time.

    Raises:
        LinAlgError: it is not positive definite.
    """
    from scipy.linalg.lapack import dpotrf, dpotri

    # LAPACK's order is by columns, so its lower triangle is our upper one
    result, failed = dpotrf(matrix.T, lower=True, overwrite_a=True, clean=False)
    if not failed:
        result, failed = dpotri(result, lower=True, overwrite_c=True)
    if failed:
        raise np.linalg.LinAlgError("the kernel is not positive definite")
    inverse = result.T
    for start in range(0, len(inverse), _BLOCK):
        end = start + _BLOCK
        inverse[end:, start:end] = inverse[start:end, end:].T
        block = np.triu(inverse[start:end, start:end])
        inverse[start:end, start:end] = block + np.triu(block, 1).T
    return inverse


def _decompose(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues (r,) and eigenvectors (p, r) of XᵀX for X (n, p), from the smaller of
    XᵀX and XXᵀ."""
    if len(centred) >= centred.shape[1]:
        return np.linalg.eigh(centred.T @ centred)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    large = values > SMALL * values[-1]
    values = values[large]
    return values, centred.T @ vectors[:, large] / np.sqrt(values)


def _rows_of_groups(groups: np.ndarray) -> list[np.ndarray]:
    """Return the rows (k, m) of the k groups that have m rows, for each m above 1."""
    _, counts = np.unique(groups, return_counts=True)
    order, first = np.argsort(groups, kind="stable"), np.cumsum(counts) - counts
    several = np.unique(counts[counts > 1])
    return [order[first[counts == m, None] + np.arange(m)] for m in several]


def _left_out(
    residual: np.ndarray,
    rotated: np.ndarray,
    shrinkage: np.ndarray,
    offset: np.ndarray,
    leverage: np.ndarray,
    together: list[np.ndarray],
) -> np.ndarray:
    """Return the residuals (n, k) of fits that leave the row or its group out.

    With the hat matrix H = R diag(s) Rᵀ + o oᵀ, whose diagonal is the leverage, they are
    r / (1 - H_ii), or (1 - H_gg)⁻¹ r_g for the rows g of one group.
    """
    result = residual / (1 - leverage.clip(max=1 - _TINY))[:, None]
    for rows in together:
        part, shift = rotated[rows], offset[rows]  # (k, m, r), (k, m)
        hat = (part * shrinkage) @ part.swapaxes(1, 2) + shift[:, :, None] * shift[:, None]
        result[rows] = np.linalg.solve((1 + _TINY) * np.eye(rows.shape[1]) - hat, residual[rows])
    return result


MAX_MOLECULES = 10_000
"""Maximum number of training molecules that a head is fitted to; see `_sample`."""


@dataclass(frozen=True)
class Embedded:
    """Standardised embeddings of training molecules, and their labels."""

    inputs: np.ndarray
    """float64 [n, R]."""
    mean: np.ndarray
    """float64 [R], of the embeddings."""
    scale: np.ndarray
    """float64 [R]: their standard deviation, 1 for a constant channel."""
    labels: np.ndarray
    """float32 [n, T], NaN where missing."""
    weights: np.ndarray
    """float64 [n, T]: weights of the labels. In a sample, each also counts for those that were not
    drawn."""
    molecules: np.ndarray
    """int64 [n]: indices of the molecules."""
    molecule_ids: np.ndarray
    """[n]: rows of the same molecule, or of a group, have the same number."""

    @staticmethod
    def of(
        network: Graphormer,
        call: Callable[[GraphBatch], Tensor],
        examples: Examples,
        train: np.ndarray,
        task: Task,
        groups: np.ndarray | None = None,
    ) -> Embedded:
        """Embed the training molecules (n,) in evaluation mode: of more than `MAX_MOLECULES`,
        always the same sample.

        Args:
            call: what embeds a batch by the network.
            groups: (G,); rows with the same number are left out together. By default those that
                a drawn split keeps together.
        """
        device = examples.labels.device
        known = examples.labels[torch.from_numpy(train).to(device)].cpu().numpy()
        drawn, weights = _sample(known, task)
        train, labels = train[drawn], known[drawn]
        inputs = infer(network, examples.graphs, train, call=call).double().numpy()
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale[scale <= 1e-6 * np.abs(inputs).max(axis=0, initial=1e-6)] = 1.0
        weights = np.repeat(weights[:, None], labels.shape[1], axis=1)
        if examples.weights is not None:
            configured = examples.weights[torch.from_numpy(train).to(device)]
            weights = weights * configured.cpu().double().numpy()
        ids = (examples.dataset.together if groups is None else groups)[train]
        return Embedded((inputs - mean) / scale, mean, scale, labels, weights, train, ids)

    @cached_property
    def weights_of_labels(self) -> np.ndarray:
        """float64 [T, n]: the weights, 0 where the label is missing."""
        return np.ascontiguousarray(np.where(np.isnan(self.labels), 0.0, self.weights).T)

    def some(self, rows: np.ndarray) -> Embedded:
        """Return some of the molecules, given by their places (n,)."""
        names = "inputs", "labels", "weights", "molecules", "molecule_ids"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def _sample(labels: np.ndarray, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Return the molecules that a head is fitted to, and the number that each stands for.

    Of more than `MAX_MOLECULES`, those of rare classes are kept, since few actives decide a screen:
    the molecules outside of the most frequent class of a target, drawn at random if they are more
    than half of the sample. The others are drawn at random.

    Args:
        labels: (n, T), NaN where missing.
    """
    if len(labels) <= MAX_MOLECULES:
        return np.arange(len(labels)), np.ones(len(labels))
    is_rare = np.zeros(len(labels), bool)
    for target, column in zip(task.targets, labels.T, strict=True):
        if target.kind != "regression" and np.isfinite(column).any():
            classes, counts = np.unique(column[np.isfinite(column)], return_counts=True)
            is_rare |= np.isfinite(column) & (column != classes[counts.argmax()])
    rare, frequent = np.flatnonzero(is_rare), np.flatnonzero(~is_rare)
    kept = min(len(rare), max(MAX_MOLECULES // 2, MAX_MOLECULES - len(frequent)))
    random = np.random.default_rng(0)
    parts = [(rare, kept), (frequent, MAX_MOLECULES - kept)]
    drawn = [random.choice(part, size, replace=False) for part, size in parts]
    weights = [np.full(size, len(part) / max(size, 1)) for part, size in parts]
    return np.concatenate(drawn), np.concatenate(weights)


def solve_targets(
    task: Task,
    embedded: Embedded,
    width: int,
    decompose: Callable[[np.ndarray, np.ndarray, float], Solve],
    penalties: Sequence[float] | None = None,
) -> list[LinearModel]:
    """Return a ridge regression of each target. The last decomposition is kept, since many targets
    have labels for the same molecules; targets with the same molecules and penalty follow each
    other.

    Args:
        width: number of slopes of a model.
        decompose: called with rows (n,), weights (n,) and the penalty of the target.
        penalties: the penalty of each target; None if the solutions choose them.
    """
    models: dict[int, LinearModel] = {}
    last: tuple[Any, Solve] | None = None

    def solve(
        rows: np.ndarray, penalty: float, outputs: np.ndarray, weights: np.ndarray
    ) -> LinearModel:
        nonlocal last
        key = rows.tobytes(), weights.tobytes(), penalty
        if last is None or last[0] != key:
            last = None  # before the next one fills the memory
            last = key, decompose(rows, weights, penalty)
        return last[1](outputs, embedded.molecule_ids[rows])

    penalties = penalties or [0.0] * len(task.targets)
    weighted = [row.tobytes() for row in embedded.weights_of_labels]
    for number in sorted(range(len(weighted)), key=lambda n: (weighted[n], penalties[n])):
        target, labels = task.targets[number], embedded.labels[:, number]
        weights = embedded.weights_of_labels[number]
        if target.class_weights:
            weights = weights * np.take(target.class_weights, np.nan_to_num(labels).astype(int))
        rows = np.flatnonzero(weights > 0)
        known = labels[rows].astype(np.float64)
        of_target = partial(solve, rows, penalties[number])
        model = _fit(target, of_target, width, known, weights[rows])
        left_out = np.full((len(labels), target.width), np.nan)
        if len(model.left_out):
            left_out[rows] = model.left_out
        models[number] = model._replace(left_out=left_out)
    return [models[number] for number in range(len(models))]


def ridge_of_targets(features: np.ndarray, task: Task, embedded: Embedded) -> list[LinearModel]:
    """Return the ridge regression of each target on features (n, p), each with its penalty."""

    def decompose(rows: np.ndarray, weights: np.ndarray, penalty: float) -> Solve:
        return principal_axes(features[rows], weights)

    return solve_targets(task, embedded, features.shape[1], decompose)


def _fit(
    target: Target,
    solve: Callable[[np.ndarray, np.ndarray], LinearModel],
    width: int,
    labels: np.ndarray,
    weights: np.ndarray,
) -> LinearModel:
    """Return a model of one target from the molecules that have a label; `solve` takes labels and
    weights of the molecules.

    Without two different labels its outputs are 0: the mean label, or equal probabilities.
    """
    slopes, offsets = np.zeros((target.width, width)), np.zeros(target.width)
    values, index = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        return LinearModel(slopes, offsets)
    if target.kind == "regression":
        standardised = (labels - target.mean) / target.scale
        return solve(standardised[:, None], weights)
    model = _logits(solve, index, weights)
    if target.width == 1:
        return model
    if len(values) == 2:  # one logit is the difference of two
        halves = [np.concatenate([-part, part]) / 2 for part in model[:2]]
        model = model._replace(slopes=halves[0], offsets=halves[1])
    offsets -= np.log(len(labels))  # of classes that no molecule has
    slopes[values.astype(int)], offsets[values.astype(int)] = model[:2]
    return LinearModel(slopes, offsets, model.error, model.penalty)


def _logits(solve: Solve, classes: np.ndarray, weights: np.ndarray) -> LinearModel:
    """Return a model whose outputs are the logits of classes 0 … k - 1, or of class 1 if k is 2.

    The indicators of the classes are regressed, with weights of 1 / √frequency for each class.
    Their leave-one-out predictions are the inputs of a logistic regression without these weights,
    which gives the scale and the offset of the logits.
    """
    from sklearn.linear_model import LogisticRegression

    indicators = np.eye(classes.max() + 1)[classes]
    balance = (weights @ indicators)[classes] ** -0.5
    if indicators.shape[1] == 2:
        indicators = indicators[:, 1:]
    model = solve(indicators, weights * balance)
    scale = model.left_out.std() or 1.0
    relative = weights * (len(weights) / weights.sum())  # the penalty has a fixed weight
    logistic = LogisticRegression(max_iter=1000).fit(model.left_out / scale, classes, relative)
    factors = logistic.coef_ / scale
    offsets = factors @ model.offsets + logistic.intercept_
    logits = model.left_out @ factors.T + logistic.intercept_
    return model._replace(slopes=factors @ model.slopes, offsets=offsets, left_out=logits)
