"""A CUDA graph on a CPU: operations are recorded once and repeated on the same tensors.

As in a CUDA graph, values that Python computed during the recording stay fixed, random numbers are
drawn anew, and an operation that returns a number to the host cannot be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from molsepnorm.training.steps.capture import CaptureFailed, run_unnoticed

_WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "item",
    "_unique2",
    "equal",
    "masked_select",
    "lift_fresh",
)


class _Tape(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in _WAITS:
            raise RuntimeError(f"operation not permitted when recording: {func}")
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        """Repeat all operations and write each result to the tensor of the first one."""
        with torch.no_grad():
            for func, args, kwargs, result in self.calls:
                again = tree_leaves(func(*args, **kwargs))
                for old, new in zip(tree_leaves(result), again, strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


def record(work: Callable[[], None], state: Callable) -> Callable[[], None]:
    """Replace `training.steps.capture.record`; the recording itself has no side effect."""

    def warm_up() -> None:
        for _ in range(3):
            work()

    run_unnoticed(warm_up, state)
    tape = _Tape()

    def recording() -> None:
        with tape:
            work()

    try:
        run_unnoticed(recording, state)
    except RuntimeError as error:
        raise CaptureFailed(str(error)) from error
    return tape.play
