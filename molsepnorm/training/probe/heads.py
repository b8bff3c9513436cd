"""Models with fitted heads: linear, or a kernel regression."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.embedded import Embedded
from molsepnorm.training.probe.kernel import kernel_regression
from molsepnorm.training.probe.targets import ridge_of_targets

__all__ = ["fit_kernel", "fit_linear"]


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
    embedded = Embedded.of(model.network, examples, train)
    assert isinstance(head, nn.Linear)
    fits = ridge_of_targets(embedded.inputs, task, embedded)
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

    `kernel_regression` says for how many training molecules the head is the exact solution, and for
    how many it is an approximation.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
    """
    body, features = _read_by_layer(model.network), examples.graphs.features
    embedded, counts = Embedded.of(body, examples, train), None
    if features is not None and not body.config.molecule_features:
        counts = features[torch.from_numpy(embedded.molecules).to(features.device)].cpu()
    found = kernel_regression(embedded, model.task, counts)
    if found.counts is not None:
        body = _read_by_layer(model.network, found.counts.shape[1])
    width = len(embedded.mean) + body.config.counts
    head = KernelHead(width, len(found.centers), model.task.outputs, body.config.counts)
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
