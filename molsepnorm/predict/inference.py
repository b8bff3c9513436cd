"""Running a network over many molecules without training it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from molsepnorm import devices
from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices.context import Precision, autocast, on_device, products_in
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer

__all__ = [
    "Precision",
    "autocast",
    "infer",
    "on_device",
    "pick_device",
    "predict",
    "products_in",
]

_LIMITS = {"cpu": (256, 1 << 20), "cuda": (4096, 1 << 21)}
"""Most molecules and slot pairs of a batch."""


def pick_device(name: str) -> torch.device:
    """The device of that name; auto is a GPU where there is one.

    Raises:
        ConfigError: it is not here; the message names those that are.
    """
    known = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if name in ("auto", "cuda"):
        name = "cuda:0" if name == "cuda" else known[min(1, len(known) - 1)]
    if name not in known:
        raise ConfigError(f"there is no device '{name}' here. {did_you_mean(name, known)}")
    return torch.device(name)


@torch.no_grad()
def infer(
    network: nn.Module,
    tensors: GraphTensors,
    graphs: np.ndarray,
    batch_size: int | None = None,
    precision: Precision = "fp32",
    call: Callable[[GraphBatch], torch.Tensor] | None = None,
) -> torch.Tensor:  # float32 (G, …), (G, T) by default
    """The network's outputs for these molecules, in their order, on the CPU.

    Batches hold molecules of like size; a network in evaluation mode gives a molecule the same
    output in any company. The network's mode is restored.

    Args:
        network: on the device of the tensors.
        tensors: what batches are cut from.
        graphs: int [G], which molecules.
        batch_size: most molecules of a batch; by default what suits the device.
        precision: of matrix products.
        call: what to ask of a batch in place of the network's outputs: a row for each molecule.
    """
    if not len(graphs):
        return torch.empty(0, 0)
    device = tensors.num_atoms.device
    if device.type in devices.CHECKED and isinstance(network, Graphormer):
        _settle(network, device, precision)
    limits = _LIMITS.get(device.type, _LIMITS["cuda"])
    sizes = tensors.sizes[graphs]
    batches = list(
        size_sorted_batches(np.arange(len(graphs)), sizes, batch_size or limits[0], limits[1])
    )
    was_training = network.training
    network.eval()
    try:
        with products_in(precision, device), autocast(precision, device):
            parts = [(call or network)(tensors.cut(graphs[places])) for places in batches]
    finally:
        network.train(was_training)
    sorted_outputs = torch.cat(parts).cpu()  # the only time that the device is waited for
    if precision == "bf16":
        sorted_outputs = sorted_outputs.float()
    outputs = torch.empty_like(sorted_outputs)
    outputs[torch.from_numpy(np.concatenate(batches))] = sorted_outputs
    return outputs


def _settle(network: Graphormer, device: torch.device, precision: Precision) -> None:
    """Check the device's fast paths where that has not been done."""
    from molsepnorm.devices.network import settle

    for line in settle(network.config, device, precision):
        warnings.warn(line, stacklevel=3)


def predict(
    model: PropertyModel, tensors: GraphTensors, graphs: np.ndarray, precision: Precision = "fp32"
) -> np.ndarray:  # float32 (G, T)
    """The model's predictions for these molecules, in the targets' own units."""
    return model.task.predictions(
        infer(model.network, tensors, graphs, precision=precision)
    ).numpy()
