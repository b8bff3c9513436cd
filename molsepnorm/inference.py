"""Running a network over many molecules without training it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from molsepnorm.batch import GraphTensors, by_size
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.model import PropertyModel

__all__ = ["infer", "pick_device", "predict"]


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
    batch_size: int = 256,
) -> torch.Tensor:  # (G, T)
    """The network's outputs for these molecules, in their order, on the CPU.

    Batches hold molecules of like size; a network in evaluation mode gives a molecule the same
    output in any company. The network's mode is restored.
    """
    was_training = network.training
    network.eval()
    outputs: torch.Tensor | None = None
    try:
        for places in by_size(np.arange(len(graphs)), tensors.sizes[graphs], batch_size):
            part = network(tensors.cut(graphs[places])).cpu()
            if outputs is None:
                outputs = part.new_empty(len(graphs), part.shape[1])
            outputs[torch.from_numpy(places)] = part
    finally:
        network.train(was_training)
    return outputs if outputs is not None else torch.empty(0, 0)


def predict(
    model: PropertyModel, tensors: GraphTensors, graphs: np.ndarray
) -> np.ndarray:  # float32 (G, T)
    """The model's predictions for these molecules, in the targets' own units."""
    return model.task.predictions(infer(model.network, tensors, graphs)).numpy()
