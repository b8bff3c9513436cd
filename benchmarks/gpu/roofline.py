"""Lower bounds of a training step of SLIM on this GPU: kernel launches, bytes, matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from lower_bounds import in_blocks, matrix_products

from gpu.trainers import DEVICE, synchronize
from molsepnorm.training.loop import Trainer

__all__ = ["bandwidth", "min_bytes", "products", "seconds_of", "seconds_per_launch"]

_COPIED = 2 << 30 if DEVICE == "cuda" else 64 << 20
_LAUNCHES = 1000


def seconds_of(work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time after a warm-up, until the device has finished."""
    taken = []
    for _ in range(repeats + 1):
        synchronize()
        begun = time.perf_counter()
        work()
        synchronize()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[1:])


def bandwidth() -> float:
    """Return the bytes per second that a large copy reads and writes together."""
    source = torch.ones(_COPIED, dtype=torch.uint8, device=DEVICE)
    target = torch.zeros_like(source)
    return 2 * _COPIED / seconds_of(lambda: target.copy_(source))


def seconds_per_launch(captured: bool) -> float:
    """Return the time of a minimal kernel that depends on the one before."""
    x = torch.zeros(1, device=DEVICE)

    def launches() -> None:
        for _ in range(_LAUNCHES):
            x.add_(1)

    return seconds_of(_captured(launches) if captured else launches) / _LAUNCHES


def products(slots: Sequence[int], blocks: int, precision: str) -> Callable[[], None]:
    """Return the matrix products of a step, for graphs with these slots, as a CUDA graph."""
    dtype = torch.get_default_dtype()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        if precision == "bf16":
            torch.set_default_dtype(torch.bfloat16)
        with torch.device(DEVICE):
            work = matrix_products(in_blocks(np.array(slots), blocks), backward=True)
    finally:
        torch.set_default_dtype(dtype)
    return _captured(work)


def min_bytes(trainer: Trainer, slots: Sequence[int], blocks: int, size: int = 4) -> int:
    """Return the bytes that a step moves if each layer is one kernel forward and one backward.

    Forward, a layer reads its input and the bias and writes its output; backward, it reads these
    and the gradient of its output, and writes the gradients of its input and of the bias.
    Parameters are read twice and their gradients written and read; AdamW's two moments, the
    parameters and their average are read and written. The pair codes are int16.

    Args:
        trainer: of the network.
        slots: number of slots of each graph of the batch.
        blocks: number of padded groups.
        size: bytes of an activation.
    """
    groups = in_blocks(np.array(slots), blocks)
    rows = sum(graphs * side for graphs, side in groups)
    pairs = sum(graphs * side**2 for graphs, side in groups)
    config = trainer.network.config
    stream, bias = rows * config.width * size, pairs * config.heads * size
    parameters = 4 * sum(p.numel() for p in trainer.network.parameters())
    averaged = 2 if trainer.average is not None else 0
    return config.layers * (5 * stream + 3 * bias) + 2 * pairs + parameters * (10 + averaged)


def _captured(work: Callable[[], None]) -> Callable[[], None]:
    """Capture the work as a CUDA graph; on a CPU return it unchanged."""
    if DEVICE == "cpu":
        return work
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
