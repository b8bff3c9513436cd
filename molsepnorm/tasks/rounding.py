"""Inputs and labels whose differences single precision does not hold."""

from __future__ import annotations

_MAX_ROUNDING = 1e-3  # of the numbers of a column, as a share of their range


def offset_of(low: float, high: float, rounding: float) -> float | None:
    """Return the middle of numbers if single precision does not hold their differences, as with
    100000001 and 100000002; otherwise None.
    """
    if high > low and rounding > _MAX_ROUNDING * (high - low):
        return (low + high) / 2
    return None


def too_close(what: str, offset: str) -> str:
    """Return the message about such numbers."""
    return (
        f"the {what} are too large for their differences, which single precision does not hold. "
        f"Subtract a constant such as {offset} from all of them"
    )
