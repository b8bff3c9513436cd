"""Contexts of a computation: the current device and the precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

__all__ = ["Precision", "autocast", "on_device", "products_in"]

Precision = Literal["fp32", "tf32", "bf16"]
"""fp32 throughout; matrix products in tf32, on a GPU; or bfloat16-safe operations in bfloat16,
norms and softmax in fp32."""


def on_device(device: torch.device) -> AbstractContextManager:
    """Make a GPU the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def products_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices in tf32 if that is the precision, and exactly otherwise."""
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
