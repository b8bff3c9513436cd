"""A training step as one CUDA graph: recorded once, replayed with a single launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from molsepnorm.errors import MolsepnormError

__all__ = ["CaptureFailed", "can_capture", "record", "run_unnoticed"]

_WARM_UPS = 3  # kernels are compiled and libraries choose theirs before anything is recorded


class CaptureFailed(MolsepnormError):
    """The work cannot be recorded; everything is as it was before."""


def can_capture(device: torch.device) -> bool:
    """Whether work on the device can be recorded at all."""
    return device.type == "cuda"


def record(work: Callable[[], None], state: Callable[[], Iterable[Tensor]]) -> Callable[[], None]:
    """Record what a function does on the current GPU; returns what does it again.

    The function reads and writes tensors that stay in place. What it computes on the host is
    recorded as it was, so it must not depend on anything that changes; random numbers are drawn
    anew in every replay.

    Args:
        work: must not wait for the device.
        state: every tensor that `work` changes and that outlives it. Recording leaves them, and the
            random generators, as they are.

    Raises:
        CaptureFailed: `work` does something that a graph cannot hold.
    """

    def warm_up() -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(stream)

    run_unnoticed(warm_up, state)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            work()
    except RuntimeError as error:
        raise CaptureFailed(str(error).partition("\n")[0]) from error
    return graph.replay


def run_unnoticed(work: Callable[[], None], state: Callable[[], Iterable[Tensor]]) -> None:
    """Run a function, and put everything back that it changed.

    A tensor of the state that it made, such as an optimiser's moments at the first step, becomes
    zero, which is how moments begin.
    """
    before = [(tensor, tensor.clone()) for tensor in state()]
    known = {id(tensor) for tensor, _ in before}
    cpu = torch.get_rng_state()
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        work()
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for tensor in state():
                if id(tensor) not in known:
                    tensor.zero_()
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)
