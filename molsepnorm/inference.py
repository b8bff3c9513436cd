"""Running a network over many molecules without training it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import numpy as np
import torch
from torch import nn

from molsepnorm.batch import GraphTensors
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.plan import by_size

__all__ = [
    "Precision",
    "autocast",
    "infer",
    "on_device",
    "pick_device",
    "predict",
    "products_in",
]

Precision = Literal["fp32", "tf32", "bf16"]
"""fp32 throughout; its matrix products as tf32, which GPUs have; or in bfloat16 where it does no
harm, norms and softmax aside."""

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


def on_device(device: torch.device) -> AbstractContextManager:
    """While it lasts, the device is the current one of its kind."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """While it lasts, float32 matrices are multiplied exactly, or as tf32 if that is asked for."""
    before = torch.get_float32_matmul_precision()
    tf32 = precision == "tf32" and device.type == "cuda"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which bf16, if asked for, computes what stands it in bfloat16."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


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
    limits = _LIMITS.get(device.type, _LIMITS["cuda"])
    sizes = tensors.sizes[graphs]
    batches = list(by_size(np.arange(len(graphs)), sizes, batch_size or limits[0], limits[1]))
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


def predict(
    model: PropertyModel, tensors: GraphTensors, graphs: np.ndarray, precision: Precision = "fp32"
) -> np.ndarray:  # float32 (G, T)
    """The model's predictions for these molecules, in the targets' own units."""
    return model.task.predictions(
        infer(model.network, tensors, graphs, precision=precision)
    ).numpy()
