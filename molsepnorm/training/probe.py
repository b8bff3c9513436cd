"""Heads that are solved for, from the embeddings of a network whose weights do not change.

All models here are ridge regressions. The penalty is the one with the smallest leave-one-out error
on the training molecules, which has a closed form. All rows of a molecule, such as measurements at
several temperatures, are left out together. No validation molecules are used.

A label that is a bound, such as ">10", is used as if it were the number, since a one-sided loss has
no closed form. The epochs after the probe use the one-sided loss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead, matern, tanimoto
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Target, Task
from molsepnorm.training.objectives.objective import Examples

__all__ = ["fit_kernel", "fit_linear"]

_MAX_MOLECULES = 20_000
"""Maximum number of training molecules that a head is fitted to; they are drawn at random."""
_MAX_CENTERS = 1500
"""Number of training molecules that an approximate kernel regression compares. With at most as many
molecules it is exact."""
_MAX_EXACT = 7000
"""Maximum number of training molecules of an exact kernel regression."""
_MAX_OPERATIONS = 5e12
"""Maximum of the cubed numbers of labelled molecules of all targets in an exact kernel regression:
some minutes of a core."""
_MAX_DECOMPOSED = 2e11
"""Maximum of the cubed numbers of compared molecules, over the targets with labels for different
molecules, in an approximate kernel regression: with 59 or more of them it compares fewer than
`_MAX_CENTERS` molecules."""
_PENALTIES = np.logspace(-4, 5, 28)
_TINY = 1e-6  # the smallest difference of a leverage from 1
_SMALL = 1e-9  # eigenvalues below this fraction of the largest are zero up to rounding


@dataclass(frozen=True)
class _Embedded:
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
    """float64 [n]: weights of the molecules."""
    molecules: np.ndarray
    """int64 [n]: indices of the molecules."""
    molecule_ids: np.ndarray
    """[n]: rows of the same molecule have the same number."""

    @staticmethod
    def of(network: Graphormer, examples: Examples, train: np.ndarray) -> _Embedded:
        """Embed the training molecules (n,) in evaluation mode."""
        if len(train) > _MAX_MOLECULES:
            train = np.random.default_rng(0).choice(train, _MAX_MOLECULES, replace=False)
        inputs = infer(network, examples.graphs, train, call=network.embed).double().numpy()
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale[scale <= 1e-6 * np.abs(inputs).max(axis=0, initial=1e-6)] = 1.0
        index = torch.from_numpy(train).to(examples.labels.device)
        labels = examples.labels[index].cpu().numpy()
        weights = np.ones(len(train))
        if examples.weights is not None:
            weights = examples.weights[index].cpu().double().numpy()
        ids = train if examples.molecule_ids is None else examples.molecule_ids[train]
        return _Embedded((inputs - mean) / scale, mean, scale, labels, weights, train, ids)


def fit_linear(
    model: PropertyModel, examples: Examples, train: np.ndarray, names: Collection[str]
) -> None:
    """Replace the output weights of some targets by those of a linear model of the embeddings.

    Source: Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution", ICLR 2022, arXiv 2202.10054: fine-tuning should start from such a head.

    Args:
        model: a model with a linear head, on the device of the examples.
        examples: all molecules and labels.
        train: int64 [n], indices of the training molecules.
        names: targets whose weights are replaced.
    """
    head, task = model.network.head, model.task
    embedded = _Embedded.of(model.network, examples, train)
    assert isinstance(head, nn.Linear)
    fits = _linear_fits(embedded.inputs, task, embedded)
    for name, rows, fit in zip(task.names, task.columns(), fits, strict=True):
        if name in names:
            slopes = fit.slopes / embedded.scale
            offsets = fit.offsets - slopes @ embedded.mean
            with torch.no_grad():
                head.weight[rows] = torch.from_numpy(slopes).to(head.weight)
                head.bias[rows] = torch.from_numpy(offsets).to(head.bias)


def fit_kernel(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return a model with the same body, read out after every layer, and a fitted `KernelHead`.

    If the molecules have fingerprint counts, which the model's network does not read, the head
    compares them too, unless the leave-one-out error is smaller without.

    With more than `_MAX_CENTERS` training molecules, the choice of the kernel and of the penalty
    uses an approximation: the best regression among combinations of the kernels of `_MAX_CENTERS`
    molecules, which are drawn at random. Up to `_MAX_EXACT` molecules the head is then the exact
    solution with this kernel and penalty; above, it is the approximation.

    Source of the approximation: Rudi et al., "Less is More: Nyström Computational Regularization",
    NeurIPS 2015, arXiv 1507.04717.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
    """
    body, task = _read_by_layer(model.network), model.task
    embedded, features = _Embedded.of(body, examples, train), examples.graphs.features
    found = _approximate(embedded, task)
    if features is not None and not body.config.molecule_features:
        index = torch.from_numpy(embedded.molecules).to(features.device)
        features = features[index].cpu()
        found = min(found, _approximate(embedded, task, features), key=_error)
        if found.counts is not None:
            body = _read_by_layer(model.network, found.counts.shape[1])
    if len(found.centers) < len(embedded.inputs) <= _MAX_EXACT:
        found = _exact(found, embedded, task, features)
    width = len(embedded.mean) + body.config.counts
    head = KernelHead(width, len(found.centers), task.outputs, body.config.counts)
    content: dict[str, np.ndarray | Tensor] = {
        "mean": embedded.mean,
        "scale": embedded.scale,
        "centers": embedded.inputs[found.centers],
        "weight": found.weight,
        "bias": found.bias,
    }
    if found.counts is not None:
        content["counts"] = found.counts
    head.load_state_dict({name: torch.as_tensor(each) for name, each in content.items()})
    body.config = replace(body.config, head="kernel", centers=len(found.centers))
    body.head = head.to(body.embedding.graph_token.device)
    inputs = replace(model.inputs, morgan=body.config.counts or model.inputs.morgan)
    return replace(model, network=body, inputs=inputs)


def _read_by_layer(network: Graphormer, counts: int = 0) -> Graphormer:
    """Return a copy of a network that reads out every layer, and fingerprint counts; its head is
    still to be replaced."""
    device = network.embedding.graph_token.device
    config = replace(network.config, readout="layers")
    if counts:
        config = replace(config, molecule_features=counts, counts=counts)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        copied = Graphormer(config)
    state = copied.state_dict()
    state |= {name: each for name, each in network.state_dict().items() if name[:5] != "head."}
    copied.load_state_dict(state)
    return copied.to(device).eval()


class _Regression(NamedTuple):
    """A kernel regression of all targets."""

    centers: np.ndarray
    """int64 (m,): which of the embedded molecules are compared."""
    counts: Tensor | None
    """uint8 (m, F): their fingerprint counts, if they are compared too."""
    weight: np.ndarray
    """float64 (O, m)."""
    bias: np.ndarray
    """float64 (O,)."""
    penalties: list[float]
    """Penalty of each target."""
    error: float
    """Mean over the targets of the leave-one-out error, relative to the labels' variance."""


def _error(found: _Regression) -> float:
    return found.error


def _approximate(embedded: _Embedded, task: Task, counts: Tensor | None = None) -> _Regression:
    """Return the regression by the kernel of the embeddings, and of fingerprint counts (n, F), on
    at most `_centers` molecules. The penalties are chosen."""
    every = np.arange(len(embedded.inputs))
    chosen, most = every, _centers(embedded, task)
    if len(every) > most:
        chosen = np.random.default_rng(0).choice(every, most, replace=False)
    kernel = _kernel(embedded, counts, chosen)
    values, vectors = np.linalg.eigh(kernel[chosen])
    large = values > _SMALL * values[-1]
    basis = vectors[:, large] / np.sqrt(values[large])  # (centres, p)
    fits = list(_linear_fits(kernel @ basis, task, embedded))
    return _Regression(
        chosen,
        None if counts is None else counts[chosen].to(torch.uint8),
        np.concatenate([fit.slopes for fit in fits]) @ basis.T,
        np.concatenate([fit.offsets for fit in fits]),
        [fit.penalty for fit in fits],
        float(np.mean([fit.error for fit in fits])),
    )


def _centers(embedded: _Embedded, task: Task) -> int:
    """Return the maximum number of molecules that an approximate kernel regression compares.

    Targets with labels for the same molecules share one decomposition of the kernel.
    """
    labelled = {row.tobytes() for row in np.isfinite(embedded.labels.T)}
    weighted = sum(bool(target.class_weights) for target in task.targets)  # by the label
    return min(_MAX_CENTERS, int(np.cbrt(_MAX_DECOMPOSED / (len(labelled) + weighted))))


def _exact(
    found: _Regression, embedded: _Embedded, task: Task, features: Tensor | None
) -> _Regression:
    """Return the regression on all molecules, with the kernel and the penalties of `found`.

    It is `found` itself where the targets are so many that this would take many minutes.
    """
    labelled = (~np.isnan(embedded.labels)).sum(axis=0).astype(float)
    if (labelled**3).sum() > _MAX_OPERATIONS:
        return found
    counts = features if found.counts is not None else None
    every = np.arange(len(embedded.inputs))
    kernel = _kernel(embedded, counts, every)

    def solver(number: int, rows: np.ndarray) -> _Solve:
        return partial(_kernel_ridge, kernel, rows, found.penalties[number])

    fits = list(_fits(solver, len(every), task, embedded))
    return found._replace(
        centers=every,
        counts=None if counts is None else counts.to(torch.uint8),
        weight=np.concatenate([fit.slopes for fit in fits]),
        bias=np.concatenate([fit.offsets for fit in fits]),
    )


def _kernel(embedded: _Embedded, counts: Tensor | None, centers: np.ndarray) -> np.ndarray:
    """Return the kernel between all molecules and the centres, float64 (n, m)."""
    inputs = torch.from_numpy(embedded.inputs)
    kernel = matern(inputs, inputs[centers])
    if counts is not None:
        kernel += tanimoto(counts.double(), counts[centers].double()) / 2
    return kernel.numpy()


class _Fit(NamedTuple):
    """A linear model of p features for the outputs of one target."""

    slopes: np.ndarray
    """(outputs, p)."""
    offsets: np.ndarray
    """(outputs,)."""
    error: float = 1.0
    """Leave-one-out error, relative to the variance of the labels."""
    penalty: float = 1.0


_Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[_Fit, np.ndarray]]
"""Returns a linear model, and leave-one-out predictions, for labels (n, k), weights and molecules;
see `_ridge`."""


def _fits(
    solver: Callable[[int, np.ndarray], _Solve], width: int, task: Task, embedded: _Embedded
) -> Iterator[_Fit]:
    """Yield a model of each target.

    Args:
        solver: returns the function that solves for a target, by its number and the rows that have
            a label.
        width: number of slopes.
        task, embedded: the targets, and the molecules with their labels.
    """
    for number, (target, labels) in enumerate(zip(task.targets, embedded.labels.T, strict=True)):
        weights = np.where(np.isnan(labels), 0.0, embedded.weights)
        if target.class_weights:
            weights = weights * np.take(target.class_weights, np.nan_to_num(labels).astype(int))
        rows = np.flatnonzero(weights > 0)
        own = labels[rows].astype(np.float64), weights[rows], embedded.molecule_ids[rows]
        yield _fit(target, solver(number, rows), width, *own)


def _linear_fits(features: np.ndarray, task: Task, embedded: _Embedded) -> Iterator[_Fit]:
    """Yield the ridge regression of each target on features (n, p), with a penalty of its own."""
    last: dict[bytes, _Axes] = {}  # many targets have labels for the same molecules

    def solver(_: int, rows: np.ndarray) -> _Solve:
        def solve(
            labels: np.ndarray, weights: np.ndarray, molecules: np.ndarray
        ) -> tuple[_Fit, np.ndarray]:
            key = rows.tobytes() + weights.tobytes()
            if key not in last:
                last.clear()
                last[key] = _axes(features[rows], weights)
            return _ridge(last[key], labels, weights, molecules)

        return solve

    return _fits(solver, features.shape[1], task, embedded)


def _fit(
    target: Target,
    solve: _Solve,
    width: int,
    labels: np.ndarray,
    weights: np.ndarray,
    molecules: np.ndarray,
) -> _Fit:
    """Return a model of one target from the molecules that have a label.

    Without two different labels its outputs are 0: the mean label, or equal probabilities.
    """
    slopes, offsets = np.zeros((target.width, width)), np.zeros(target.width)
    values, index = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        return _Fit(slopes, offsets)
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
    solve: _Solve,
    classes: np.ndarray,
    weights: np.ndarray,
    molecules: np.ndarray,
) -> _Fit:
    """Return a model whose outputs are the logits of classes 0 … k - 1, or of class 1 if k is 2.

    The indicators of the classes are regressed. Their leave-one-out predictions are the inputs of a
    logistic regression, which gives the scale and the offset of the logits.
    """
    from sklearn.linear_model import LogisticRegression

    indicators = np.eye(classes.max() + 1)[classes]
    if indicators.shape[1] == 2:
        indicators = indicators[:, 1:]
    fit, left_out = solve(indicators, weights, molecules)
    scale = left_out.std() or 1.0
    logistic = LogisticRegression(max_iter=1000).fit(left_out / scale, classes, weights)
    factors = logistic.coef_ / scale
    offsets = factors @ fit.offsets + logistic.intercept_
    return fit._replace(slopes=factors @ fit.slopes, offsets=offsets)


class _Axes(NamedTuple):
    """Weighted and centred features of n molecules in their r principal axes."""

    means: np.ndarray
    """(p,): weighted means of the features."""
    values: np.ndarray
    """(r,): eigenvalues of XᵀX for the weighted and centred features X (n, p)."""
    vectors: np.ndarray
    """(p, r): its eigenvectors."""
    rotated: np.ndarray
    """(n, r): X in these axes."""
    squares: np.ndarray
    """(n, r): the squares of `rotated`."""


def _axes(features: np.ndarray, weights: np.ndarray) -> _Axes:
    """Return the principal axes of features (n, p) of molecules with weights (n,)."""
    weights = weights / weights.sum()
    means = weights @ features
    centred = (features - means) * np.sqrt(weights * len(weights))[:, None]
    values, vectors = _principal_axes(centred)
    rotated = centred @ vectors
    return _Axes(means, values, vectors, rotated, rotated**2)


def _ridge(
    axes: _Axes, labels: np.ndarray, weights: np.ndarray, molecules: np.ndarray
) -> tuple[_Fit, np.ndarray]:
    """Return a linear model of labels (n, k), and leave-one-out predictions (n, k).

    The penalty is the one with the smallest leave-one-out error. The offset is not penalised. The
    error is that of fits in which the offset, too, leaves the molecule out; otherwise the penalty
    would vanish where there are as many features as molecules. The predictions use the mean label
    of all molecules, since a mean without the molecule reveals its label.

    Rows with the same number in `molecules` (n,) are left out together.
    """
    means, values, vectors, rotated, squares = axes
    weights = weights / weights.sum()
    mean, root = weights @ labels, np.sqrt(weights * len(weights))[:, None]
    response = (labels - mean) * root
    projected, groups = rotated.T @ response, _rows_of_molecules(molecules)
    offset, none = np.sqrt(weights), np.zeros(len(weights))

    def residuals(penalty: float, offset: np.ndarray) -> np.ndarray:
        shrinkage = 1 / (values + penalty)
        residual = response - rotated @ (projected * shrinkage[:, None])
        leverage = squares @ shrinkage + offset**2
        return _left_out(residual, rotated, shrinkage, offset, leverage, groups)

    errors = [float((residuals(penalty, offset) ** 2).sum()) for penalty in _PENALTIES]
    penalty = _PENALTIES[int(np.argmin(errors))]
    slopes = (vectors @ (projected / (values + penalty)[:, None])).T
    left_out = labels - residuals(penalty, none) / root
    variance = max(float((response**2).sum()), _SMALL)
    offsets = mean - slopes @ means
    return _Fit(slopes, offsets, min(errors) / variance, penalty), left_out


def _kernel_ridge(
    kernel: np.ndarray,
    rows: np.ndarray,
    penalty: float,
    labels: np.ndarray,
    weights: np.ndarray,
    molecules: np.ndarray,
) -> tuple[_Fit, np.ndarray]:
    """Return the model of `_ridge` with a given penalty, for the features that a kernel implies.

    Args:
        kernel: between all N molecules, (N, N). The slopes belong to its columns.
        rows: (n,), which of them have a label; the others have slopes of 0.
        penalty: the penalty.
        labels, weights, molecules: of the n molecules, as in `_ridge`.
    """
    own, weights = kernel[np.ix_(rows, rows)], weights / weights.sum()
    means, mean = weights @ own, weights @ labels
    root = np.sqrt(weights * len(weights))
    centred = (own - means - means[:, None] + weights @ means) * root * root[:, None]
    centred.flat[:: len(rows) + 1] += penalty
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(torch.from_numpy(centred))).numpy()
    dual = inverse @ ((labels - mean) * root[:, None])  # (n, k)
    residual = dual / inverse.diagonal()[:, None]
    for same in _rows_of_molecules(molecules):
        residual[same] = np.linalg.solve(inverse[same[:, :, None], same[:, None]], dual[same])
    coefficients = (root[:, None] * dual).T  # (k, n); they sum to 0, since the labels are centred
    slopes = np.zeros((labels.shape[1], len(kernel)))
    slopes[:, rows] = coefficients
    fit = _Fit(slopes, mean - coefficients @ means)
    return fit, labels - residual / root[:, None]


def _principal_axes(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues (r,) and eigenvectors (p, r) of XᵀX for X (n, p), from the smaller of
    XᵀX and XXᵀ."""
    if len(centred) >= centred.shape[1]:
        return np.linalg.eigh(centred.T @ centred)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    large = values > _SMALL * values[-1]
    values = values[large]
    return values, centred.T @ vectors[:, large] / np.sqrt(values)


def _rows_of_molecules(molecules: np.ndarray) -> list[np.ndarray]:
    """Return the rows (k, m) of the k molecules that have m rows, for each m above 1."""
    _, counts = np.unique(molecules, return_counts=True)
    order, first = np.argsort(molecules, kind="stable"), np.cumsum(counts) - counts
    several = np.unique(counts[counts > 1])
    return [order[first[counts == m, None] + np.arange(m)] for m in several]


def _left_out(
    residual: np.ndarray,
    rotated: np.ndarray,
    shrinkage: np.ndarray,
    offset: np.ndarray,
    leverage: np.ndarray,
    groups: list[np.ndarray],
) -> np.ndarray:
    """Return the residuals (n, k) of fits that leave the molecule out.

    With the hat matrix H = R diag(s) Rᵀ + o oᵀ, whose diagonal is the leverage, they are
    r / (1 - H_ii), or (1 - H_gg)⁻¹ r_g for the rows g of one molecule.
    """
    result = residual / (1 - leverage.clip(max=1 - _TINY))[:, None]
    for rows in groups:
        part, own = rotated[rows], offset[rows]  # (k, m, r), (k, m)
        hat = (part * shrinkage) @ part.swapaxes(1, 2) + own[:, :, None] * own[:, None]
        result[rows] = np.linalg.solve((1 + _TINY) * np.eye(rows.shape[1]) - hat, residual[rows])
    return result
