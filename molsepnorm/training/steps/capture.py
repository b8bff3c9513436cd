"""A training step as one CUDA graph: recorded once, replayed with a single launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from molsepnorm.errors import MolsepnormError

__all__ = ["CaptureFailed", "can_capture", "record", "run_unnoticed"]

_WARM_UPS = 3  # kernels must be compiled and selected before recording


class CaptureFailed(MolsepnormError):
    """The work cannot be recorded; all state is unchanged."""


def can_capture(device: torch.device) -> bool:
    """Return whether the device supports recording."""
    return device.type == "cuda"


def record(work: Callable[[], None], state: Callable[[], Iterable[Tensor]]) -> Callable[[], None]:
    """Record the GPU work of a function; return a function that repeats it.

    Args:
        work: the function; it must not synchronise with the device. Tensors that it reads and
            writes must stay in place. Values computed on the host are recorded as constants.
            Random numbers are drawn anew in every replay.
        state: returns every tensor that `work` changes and that outlives it. Recording leaves them
            and the random generators unchanged.

    Raises:
        CaptureFailed: a CUDA graph cannot hold the work.
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
    """Run a function and restore all state afterwards.

    A tensor that the function adds to the state, such as an optimiser's moments at the first step,
    is set to zero, its initial value.
    """
    before = [(tensor, tensor.clone()) for tensor in state()]
    known = {id(tensor) for tensor, _ in before}
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(gpus):
            work()
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for tensor in state():
                if id(tensor) not in known:
                    tensor.zero_()
