"""Running a network over many molecules without training it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from molsepnorm.batch import GraphTensors, by_size

__all__ = ["infer"]


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
