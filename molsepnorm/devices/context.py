"""Contexts in which a device computes: which one is current, and in which precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

__all__ = ["Precision", "autocast", "on_device", "products_in"]

Precision = Literal["fp32", "tf32", "bf16"]
"""fp32 throughout; its matrix products as tf32, which GPUs have; or in bfloat16 where it does no
harm, norms and softmax aside."""


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
