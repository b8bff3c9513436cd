"""Heads in closed form, from the embeddings of a network whose weights are not changed.

The strength of the penalty is chosen by the leave-one-out error on the training molecules, which
ridge regression has in closed form, so neither validation molecules nor several fits are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead, matern
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Target, Task
from molsepnorm.training.objectives.objective import Examples

__all__ = ["fit_kernel", "fit_linear"]

_MAX_MOLECULES = 20_000
"""A head is fitted to so many training molecules, drawn at random if there are more."""
_MAX_CENTERS = 1500
"""A molecule is compared with so many of them. With fewer molecules the regression is exact."""
_PENALTIES = np.logspace(-4, 5, 28)
_SMALL = 1e-9  # eigenvalues below this fraction of the largest are zero up to rounding


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
    """float64 [n]: weights of the molecules."""

    @staticmethod
    def by(network: Graphormer, examples: Examples, train: np.ndarray) -> Embedded:
        """Embed training molecules in evaluation mode.

        Args:
            network: network on the device of the examples.
            examples: all molecules and labels.
            train: int64 [n], the training molecules.
        """
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
        return Embedded((inputs - mean) / scale, mean, scale, labels, weights)


def fit_linear(
    model: PropertyModel, examples: Examples, train: np.ndarray, names: Collection[str]
) -> None:
    """Set the output weights of some targets to those of a linear model of the embeddings.

    Source: Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution", ICLR 2022, arXiv 2202.10054: fine-tuning should start from such a head.

    Args:
        model: a model whose network has a linear head.
        examples, train: as in `Embedded.by`.
        names: targets whose weights are set.
    """
    head, task = model.network.head, model.task
    embedded = Embedded.by(model.network, examples, train)
    assert isinstance(head, nn.Linear)
    fits = _fits(embedded.inputs, task, embedded)
    for name, rows, fit in zip(task.names, task.columns(), fits, strict=True):
        if name in names:
            slopes = fit.slopes / embedded.scale
            offsets = fit.offsets - slopes @ embedded.mean
            with torch.no_grad():
                head.weight[rows] = torch.from_numpy(slopes).to(head.weight)
                head.bias[rows] = torch.from_numpy(offsets).to(head.bias)


def fit_kernel(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return a model with the body of another one, which is read after every layer, and a
    `KernelHead`.

    With more than `_MAX_CENTERS` training molecules the solution is restricted to the span of the
    kernels of some of them.

    Source of the restriction: Rudi et al., "Less is More: Nyström Computational Regularization",
    NeurIPS 2015, arXiv 1507.04717.

    Args:
        model: the model; it is not changed.
        examples, train: as in `Embedded.by`.
    """
    body, task = _read_by_layer(model.network), model.task
    embedded = Embedded.by(body, examples, train)
    inputs = centers = torch.from_numpy(embedded.inputs)
    if len(inputs) > _MAX_CENTERS:
        chosen = np.random.default_rng(0).choice(len(inputs), _MAX_CENTERS, replace=False)
        centers = inputs[chosen]
    values, vectors = np.linalg.eigh(matern(centers, centers).numpy())
    large = values > _SMALL * values[-1]
    basis = vectors[:, large] / np.sqrt(values[large])  # (centres, p)
    fits = list(_fits(matern(inputs, centers).numpy() @ basis, task, embedded))
    head = KernelHead(inputs.shape[1], len(centers), task.outputs)
    content = {
        "mean": embedded.mean,
        "scale": embedded.scale,
        "centers": centers.numpy(),
        "weight": np.concatenate([fit.slopes for fit in fits]) @ basis.T,
        "bias": np.concatenate([fit.offsets for fit in fits]),
    }
    head.load_state_dict({name: torch.from_numpy(each).float() for name, each in content.items()})
    body.config = replace(body.config, head="kernel", centers=len(centers))
    body.head = head.to(body.embedding.graph_token.device)
    return replace(model, network=body)


def _read_by_layer(network: Graphormer) -> Graphormer:
    """Return a copy of a network that reads out every layer; its head is not used."""
    device = network.embedding.graph_token.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        copied = Graphormer(replace(network.config, readout="layers"))
    body = {name: each for name, each in network.state_dict().items() if name[:5] != "head."}
    copied.load_state_dict({**copied.state_dict(), **body})
    return copied.to(device).eval()


@dataclass(frozen=True)
class _Fit:
    """A linear model of p features for the outputs of one target."""

    slopes: np.ndarray
    """(outputs, p)."""
    offsets: np.ndarray
    """(outputs,)."""
    error: float
    """The leave-one-out error as a share of the labels' variance."""


def _fits(features: np.ndarray, task: Task, embedded: Embedded) -> Iterator[_Fit]:
    """Yield a model of each target from features (n, p) of the molecules."""
    for target, labels in zip(task.targets, embedded.labels.T, strict=True):
        used = ~np.isnan(labels) & (embedded.weights > 0)
        yield _fit(target, features[used], labels[used].astype(np.float64), embedded.weights[used])


def _fit(target: Target, features: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> _Fit:
    width, none = target.width, np.zeros((target.width, features.shape[1]))
    if target.kind == "regression":
        if len(labels) < 2:
            return _Fit(none, np.zeros(width), 1.0)
        slopes, offsets, left_out = _ridge(
            features, ((labels - target.mean) / target.scale)[:, None], weights
        )
        error = np.average(
            (left_out[:, 0] - (labels - target.mean) / target.scale) ** 2, weights=weights
        )
        return _Fit(slopes, offsets, float(error))
    classes = labels.astype(int)
    if target.class_weights:
        weights = weights * np.array(target.class_weights)[classes]
    present = np.unique(classes)
    if len(present) < max(width, 2):
        return _Fit(none, np.zeros(width), 1.0)
    shown = (classes[:, None] == (present if width > 1 else present[1:])).astype(np.float64)
    slopes, offsets, left_out = _ridge(features, shown, weights)
    error = np.average((left_out - shown) ** 2, axis=0, weights=weights) / shown.var(axis=0)
    return _as_logits(_Fit(slopes, offsets, float(error.mean())), left_out, classes, weights)


def _as_logits(fit: _Fit, left_out: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> _Fit:
    """Return the model whose outputs are logits, by a logistic regression on the predictions (n, k)
    for molecules that were left out."""
    from sklearn.linear_model import LogisticRegression

    scale = left_out.std() or 1.0
    logistic = LogisticRegression(max_iter=1000).fit(left_out / scale, classes, weights)
    turn = logistic.coef_ / scale
    return _Fit(turn @ fit.slopes, turn @ fit.offsets + logistic.intercept_, fit.error)


def _ridge(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slopes (k, p), offsets (k,) and leave-one-out predictions (n, k) of labels (n, k).

    The penalty is the one with the smallest leave-one-out error. The offset is not penalised.
    """
    weights = weights / weights.sum()
    means = weights @ features, weights @ labels
    root = np.sqrt(weights * len(weights))[:, None]
    centred, response = (features - means[0]) * root, (labels - means[1]) * root
    values, vectors = np.linalg.eigh(centred.T @ centred)
    rotated = centred @ vectors
    projected, squares = rotated.T @ response, rotated**2
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for penalty in _PENALTIES:
        shrunk = projected / (values + penalty)[:, None]
        leverage = squares @ (1 / (values + penalty)) + weights
        residual = (response - rotated @ shrunk) / (1 - leverage.clip(max=1 - 1e-6))[:, None]
        error = float((residual**2).sum())
        if best is None or error < best[0]:
            best = error, vectors @ shrunk, labels - residual / root
    assert best is not None
    slopes = best[1].T
    return slopes, means[1] - slopes @ means[0], best[2]
