"""The number of CPU threads of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["restored_threads", "threads_of", "usable_cores"]

_MOST = 4
"""Default limit. A batch of small molecules is too little work for more threads."""


def threads_of(threads: int | None) -> int:
    """Return the number of CPU threads of a run, which is the same in every run on a machine, so
    that results repeat bit for bit.

    Args:
        threads: the configured number. None for $OMP_NUM_THREADS, or else PyTorch's own number, at
            most 4.
    """
    if threads is not None:
        return threads
    own = torch.get_num_threads()
    return own if os.environ.get("OMP_NUM_THREADS") else min(own, _MOST)


@contextmanager
def restored_threads() -> Iterator[None]:
    """Restore PyTorch's number of threads at the end."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
