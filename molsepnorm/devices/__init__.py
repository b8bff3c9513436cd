"""Precision, the number of CPU threads, and checks of the fast paths of a device.

A fast path is the fused attention, a lower precision, or captured steps. The plain path is eager,
with PyTorch's own operations, in float32. Before a device's first use the fast paths compute a few
small batches (`network`, `training.steps.trial`). The differences become verdicts, which are kept
in the cache folder (`verdict`).
"""

__all__ = ["CHECKED"]

CHECKED = {"cuda"}
"""Types of devices whose fast paths are checked before their first use; tests add the CPU."""
