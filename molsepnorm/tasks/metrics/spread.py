"""Scores of several runs as one figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["mean_and_sd"]


def mean_and_sd(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and unbiased standard deviation of the values that are defined.

    >>> mean_and_sd([1.0, None, 3.0])
    {'mean': 2.0, 'sd': 1.414...}
    >>> mean_and_sd([None])
    {'mean': None, 'sd': None}
    """
    defined = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(defined) if defined else None,
        "sd": statistics.stdev(defined) if len(defined) > 1 else None,
    }
