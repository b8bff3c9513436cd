"""Checks of what a device computes: the fast paths against the plain one.

A fast path is the fused attention, a lower precision, or captured steps. The plain path is eager,
with PyTorch's own operations, in float32. When a device is first used the fast paths compute a few
small batches (`network`, `training.trial`); the differences become verdicts that are kept in the
cache folder (`verdict`).
"""

__all__ = ["CHECKED"]

CHECKED = {"cuda"}
"""Kinds of device whose fast paths are checked before their first use; tests add the CPU."""
