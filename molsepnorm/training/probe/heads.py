"""Models with fitted heads: linear, or a kernel regression."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.tasks import Task
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.probe.embedded import Embedded
from molsepnorm.training.probe.kernel import kernel_regression
from molsepnorm.training.probe.targets import ridge_of_targets

__all__ = ["fit_kernel", "fit_linear", "refit_kernels"]


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
    features, choices = examples.graphs.features, [0]
    if features is not None and not model.network.config.molecule_features:
        choices.append(features.shape[1])
    network = _with_kernel(model.network, model.task, examples, train, choices)
    inputs = replace(model.inputs, morgan=network.config.counts or model.inputs.morgan)
    return replace(model, network=network, inputs=inputs)


def refit_kernels(model: PropertyModel, examples: Examples, train: np.ndarray) -> PropertyModel:
    """Return the model with its kernel regressions fitted to other molecules.

    Embeddings are standardised and penalties chosen anew. A head still compares fingerprint counts
    if it did before. Networks with other heads stay as they are.

    Args:
        model: the model, on the device of the examples; it is not changed.
        examples, train: as in `fit_linear`.
    """
    network, *partners = (
        _with_kernel(each, model.task, examples, train, [each.config.counts])
        if each.config.head == "kernel"
        else each
        for each in model.networks
    )
    return replace(model, network=network, partners=tuple(partners))


def _with_kernel(
    network: Graphormer,
    task: Task,
    examples: Examples,
    train: np.ndarray,
    choices: Sequence[int],
) -> Graphormer:
    """Return a network with the same body and the best kernel regression.

    Args:
        network: the network, whose head is replaced.
        task: the targets.
        examples, train: as in `fit_linear`.
        choices: numbers of fingerprint counts that the head may compare; they are the first of the
            features of the examples.
    """
    body, features = _read_by_layer(network), examples.graphs.features
    embedded = Embedded.of(body, examples, train)
    rows = torch.from_numpy(embedded.molecules).to(examples.labels.device)
    counts = [
        features[rows, :each].cpu() if each and features is not None else None for each in choices
    ]
    found = kernel_regression(embedded, task, counts)
    if found.counts is not None:
        body = _read_by_layer(network, found.counts.shape[1])
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
    return body


def _read_by_layer(network: Graphormer, counts: int = 0) -> Graphormer:
    """Return a copy of a network that reads out every layer, and fingerprint counts; its head is
    still to be replaced."""
    device, own = network.embedding.graph_token.device, network.config
    config = replace(
        own,
        readout="layers",
        head="linear",
        centers=0,
        counts=counts,
        molecule_features=own.molecule_features - own.counts + counts,
    )
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        copied = Graphormer(config)
    replaced = ("head.", "molecule_features.") if own.counts else ("head.",)
    kept = {n: each for n, each in network.state_dict().items() if not n.startswith(replaced)}
    copied.load_state_dict({**copied.state_dict(), **kept})
    return copied.to(device).eval()
