"""Run a network on many molecules in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices import Precision, autocast, products_in
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead

_LIMITS = {"cpu": (256, 1 << 20), "cuda": (4096, 1 << 21)}
"""Maximum numbers of molecules and slot pairs in a batch."""


@torch.no_grad()
def infer(
    network: nn.Module,
    tensors: GraphTensors,
    graphs: np.ndarray,
    batch_size: int | None = None,
    precision: Precision = "fp32",
    call: Callable[[GraphBatch], torch.Tensor] | None = None,
) -> torch.Tensor:  # float32 (G, …), (G, O) by default
    """Return the network's outputs for molecules in the given order, on the CPU.

    Batches hold molecules of similar size. In evaluation mode the other molecules of a batch do not
    change an output. The network's mode is restored.

    Args:
        network: a network on the device of the tensors.
        tensors: all molecules.
        graphs: int [G], indices of the molecules.
        batch_size: maximum batch size; the default suits the device.
        precision: precision of matrix products.
        call: function from a batch to a row for each molecule; by default the network.
    """
    if not len(graphs):
        return torch.empty(0, 0)
    device = tensors.num_atoms.device
    limits = _LIMITS.get(device.type, _LIMITS["cuda"])
    sizes = tensors.sizes[graphs]
    batches = list(
        size_sorted_batches(np.arange(len(graphs)), sizes, batch_size or limits[0], limits[1])
    )
    was_training = network.training
    network.eval()
    try:
        with products_in(precision, device), autocast(precision, device):
            parts = [(call or network)(tensors.cut(graphs[rows])) for rows in batches]
    finally:
        network.train(was_training)
    sorted_outputs = torch.cat(parts).cpu()  # the only synchronisation with the device
    if precision == "bf16":
        sorted_outputs = sorted_outputs.float()
    outputs = torch.empty_like(sorted_outputs)
    outputs[torch.from_numpy(np.concatenate(batches))] = sorted_outputs
    return outputs


class Predicted(NamedTuple):
    """Predictions of a model for G molecules, and signals of their errors."""

    values: np.ndarray
    """float32 [G, O], on the scale that is learned."""
    spread: np.ndarray | None
    """float32 [G, O]: standard deviation of the networks' predictions; None for one network."""
    distance: np.ndarray | None
    """float32 [G]: see `KernelHead.with_distance`; the mean over the networks with such a head.
    None if there is none."""


def predict(
    model: PropertyModel, tensors: GraphTensors, graphs: np.ndarray, precision: Precision = "fp32"
) -> np.ndarray:  # float32 (G, O)
    """Return the model's predictions for molecules, on the scale that is learned."""
    return predict_with_signals(model, tensors, graphs, precision, distance=False).values


def predict_with_signals(
    model: PropertyModel,
    tensors: GraphTensors,
    graphs: np.ndarray,
    precision: Precision = "fp32",
    distance: bool = True,
) -> Predicted:
    """Return the model's predictions for molecules, with their spread and, if wanted, distance."""
    each, distances, shares = [], [], []
    for network, share in zip(model.networks, model.weights, strict=True):
        if distance and isinstance(network.head, KernelHead):
            outputs = infer(
                *(network, tensors, graphs), precision=precision, call=partial(_far, network)
            )
            distances.append(outputs[:, -1].numpy())
            shares.append(share)
            outputs = outputs[:, :-1]
        else:
            outputs = infer(network, tensors, graphs, precision=precision)
        each.append(model.task.predictions(outputs).numpy())
    mean = model.mean(each)
    spread = None
    if model.partners:
        spread = np.sqrt(model.mean([(one - mean) ** 2 for one in each]))
    return Predicted(
        model.blended(mean, features_of(tensors, graphs) if model.forests else None),
        spread,
        np.average(distances, axis=0, weights=shares) if sum(shares) else None,
    )


def _far(network: Graphormer, batch: GraphBatch) -> torch.Tensor:  # (B, O + 1)
    assert isinstance(network.head, KernelHead)
    return network.head.with_distance(network.embed(batch))


def features_of(tensors: GraphTensors, graphs: np.ndarray) -> np.ndarray | None:  # (G, F)
    """Return the molecule-level features of some molecules; None if there are none."""
    index = torch.from_numpy(graphs).to(tensors.num_atoms.device)
    return None if tensors.features is None else tensors.features[index].cpu().numpy()
