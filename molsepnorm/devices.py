"""The device of a computation, and contexts for the current device and the precision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

from molsepnorm.errors import ConfigError, did_you_mean

Precision = Literal["fp32", "tf32", "bf16"]
"""fp32; tf32 for matrix products on a GPU; or bfloat16 for operations that are safe in it, but not
for norms and softmax."""


def pick_device(name: str) -> torch.device:
    """Return the device of that name; auto is a GPU if there is one."""
    known = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if name in ("auto", "cuda"):
        name = "cuda:0" if name == "cuda" else known[min(1, len(known) - 1)]
    if name not in known:
        raise ConfigError(f"there is no device '{name}' here. {did_you_mean(name, known)}")
    return torch.device(name)


def on_device(device: torch.device) -> AbstractContextManager:
    """Make a GPU the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices in tf32 if that is the precision, and in float32 otherwise."""
    before = torch.get_float32_matmul_precision()
    tf32 = precision == "tf32" and device.type == "cuda"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return a context that runs bfloat16-safe operations in bfloat16 if that is the precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def threads_of(threads: int | None) -> int:
    """Return the number of CPU threads of a run: the configured one, or else $OMP_NUM_THREADS, or
    else PyTorch's number, at most 4, since batches of small molecules are too little work for more.
    It is the same in every run on a machine, so that results repeat bit for bit."""
    if threads is not None:
        return threads
    default = torch.get_num_threads()
    return default if os.environ.get("OMP_NUM_THREADS") else min(default, 4)


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
