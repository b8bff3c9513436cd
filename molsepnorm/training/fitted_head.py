"""`fit_head`: output weights fitted to the embeddings of a network that is not changed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from torch import nn

from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Target, Task
from molsepnorm.training.objectives.objective import Examples

__all__ = ["fit_head"]

_MAX_MOLECULES = 20_000  # to which the head is fitted, since its 100 to 200 weights need no more
_RIDGE = np.logspace(-1, 5, 13)  # strengths of the penalty that are tried
_LOGISTIC = np.logspace(-5, 1, 7)  # their inverses
_FOLDS = 5


def fit_head(
    network: Graphormer, task: Task, examples: Examples, train: np.ndarray, names: Collection[str]
) -> None:
    """Set the output weights of some targets to those of a linear model of the embeddings.

    It is ridge regression for numbers and logistic regression for classes, on standardised
    embeddings, with the strength of the penalty chosen by cross-validation on the training
    molecules. Targets with too few labels keep their weights.

    Source: Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform
    Out-of-Distribution", ICLR 2022, arXiv 2202.10054: fine-tuning should start from such a head.

    Args:
        network: network with a linear head, on the device of the examples.
        task: targets of the network.
        examples: all molecules and labels.
        train: int64 [n], the training molecules.
        names: targets whose weights are set.
    """
    assert isinstance(network.head, nn.Linear)
    if len(train) > _MAX_MOLECULES:
        train = np.random.default_rng(0).choice(train, _MAX_MOLECULES, replace=False)
    inputs = infer(network, examples.graphs, train, call=network.embed).double().numpy()
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale[scale < 1e-6] = 1.0
    inputs = (inputs - mean) / scale
    index = torch.from_numpy(train).to(examples.labels.device)
    labels = examples.labels[index].cpu().numpy()
    weights = None if examples.weights is None else examples.weights[index].cpu().numpy()
    for i, (target, rows) in enumerate(zip(task.targets, task.columns(), strict=True)):
        present = ~np.isnan(labels[:, i])
        used = np.ones(present.sum()) if weights is None else weights[present]
        if target.name not in names or not (used > 0).any():
            continue
        fitted = _fit(target, inputs[present], labels[present, i], used)
        if fitted is None:
            continue
        slopes, offsets = fitted[0] / scale, fitted[1] - fitted[0] @ (mean / scale)
        with torch.no_grad():
            network.head.weight[rows] = torch.from_numpy(slopes).to(network.head.weight)
            network.head.bias[rows] = torch.from_numpy(offsets).to(network.head.bias)


def _fit(
    target: Target, inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights (O, R) and offsets (O,) of a target's outputs; None with too few labels."""
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV
    from sklearn.model_selection import StratifiedKFold

    if target.kind == "regression":
        ridge = RidgeCV(_RIDGE).fit(inputs, (labels - target.mean) / target.scale, weights)
        return ridge.coef_[None], np.array([ridge.intercept_])
    classes, counts = np.unique(labels.astype(int), return_counts=True)
    if len(classes) < max(target.width, 2) or counts.min() < _FOLDS:
        return None
    if target.class_weights:
        weights = weights * np.array(target.class_weights)[labels.astype(int)]
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    logistic = LogisticRegressionCV(
        Cs=_LOGISTIC, cv=folds, scoring="neg_log_loss", max_iter=1000
    ).fit(inputs, labels.astype(int), weights)
    return logistic.coef_, logistic.intercept_
