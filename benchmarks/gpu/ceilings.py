"""What no implementation of a training step of SLIM could be faster than on this GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from floors import in_blocks, matrix_products

from gpu.trainers import DEVICE, synchronize
from molsepnorm.training.loop import Trainer

__all__ = ["bandwidth", "least_bytes", "per_launch", "products", "seconds_of"]

_COPIED = 2 << 30 if DEVICE == "cuda" else 64 << 20
_LAUNCHES = 1000


def seconds_of(work: Callable[[], Any], repeats: int = 5) -> float:
    """The median, after a warm-up; the device has finished what it was asked to."""
    taken = []
    for _ in range(repeats + 1):
        synchronize()
        begun = time.perf_counter()
        work()
        synchronize()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[1:])


def bandwidth() -> float:
    """Bytes a second that a large copy reads and writes together."""
    source = torch.ones(_COPIED, dtype=torch.uint8, device=DEVICE)
    target = torch.zeros_like(source)
    return 2 * _COPIED / seconds_of(lambda: target.copy_(source))


def per_launch(captured: bool) -> float:
    """Seconds of a kernel that does next to nothing, each waiting for the one before."""
    x = torch.zeros(1, device=DEVICE)

    def launches() -> None:
        for _ in range(_LAUNCHES):
            x.add_(1)

    return seconds_of(_captured(launches) if captured else launches) / _LAUNCHES


def products(slots: Sequence[int], blocks: int, precision: str) -> Callable[[], None]:
    """The matrix products of a step for graphs with these slots, as one graph of launches."""
    kept = torch.get_default_dtype()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        if precision == "bf16":
            torch.set_default_dtype(torch.bfloat16)
        with torch.device(DEVICE):
            work = matrix_products(in_blocks(np.array(slots), blocks), backward=True)
    finally:
        torch.set_default_dtype(kept)
    return _captured(work)


def least_bytes(trainer: Trainer, slots: Sequence[int], blocks: int, number: int = 4) -> int:
    """Bytes that a step moves though every layer be one kernel forward and one backward.

    Each layer reads its input and the bias and writes its output; backward it reads all that and
    its output's gradient, computes the rest again, writes the gradients of its input and of the
    bias. Parameters are read twice, their gradients written and read, and AdamW's two moments, the
    parameters and their average read and written. The codes of pairs are read as int16.

    Args:
        trainer: of which network.
        slots: of the batch's graphs.
        blocks: that they are padded in.
        number: bytes of an activation.
    """
    rectangles = in_blocks(np.array(slots), blocks)
    rows = sum(graphs * side for graphs, side in rectangles)
    pairs = sum(graphs * side**2 for graphs, side in rectangles)
    config = trainer.network.config
    stream, bias = rows * config.width * number, pairs * config.heads * number
    parameters = 4 * sum(p.numel() for p in trainer.network.parameters())
    layers = config.layers * (5 * stream + 3 * bias)
    averaged = 2 if trainer.average is not None else 0
    return layers + 2 * pairs + parameters * (2 + 2 + 4 + 2 + averaged)


def _captured(work: Callable[[], None]) -> Callable[[], None]:
    """The same as one CUDA graph; itself on a CPU."""
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
