"""Validation curves against time, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path

from accuracy.summary import Tried, higher_is_better

__all__ = ["draw"]

# told apart by every kind of colour vision (Okabe and Ito), black for the first
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", ":", "-.")


def draw(rows: Sequence[Tried], path: Path) -> None:
    """A thin line for each run, one look for each name; runs that failed too, as far as they came.

    The axis shows the region of the runs' best values, and as much again beside it.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: runs whose scores cannot be compared.
    """
    from matplotlib.figure import Figure

    if len(kinds := dict.fromkeys(row.scored_on for row in rows if row.shown.metric)) > 1:
        told = "; ".join(f"{dataset}, {metric}" for dataset, metric in kinds)
        raise ValueError(f"a picture is of one data set and metric, and these are {told}")
    figure = Figure(figsize=(9.5, max(4.5, 1.2 + 0.2 * len(rows))), layout="constrained")
    axes = figure.subplots()
    looks = cycle((colour, dash) for dash, colour in product(_DASHES, _COLOURS))
    for row, (colour, dash) in zip(rows, looks, strict=False):
        label: str | None = _label(row)
        for run in row.runs:
            minutes = [seconds / 60 for seconds in run.curve.seconds]
            values = [math.nan if value is None else value for value in run.curve.val]
            axes.plot(minutes, values, dash, color=colour, linewidth=0.9, label=label)
            label = None  # once for each name
    _limit(axes, rows)
    metric = rows[0].shown.metric
    axes.set_xlim(left=0)
    axes.set_xlabel("minutes since the run began, validations included")
    axes.set_ylabel(f"validation {metric}")
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False, handlelength=2.5)
    figure.savefig(path, dpi=130)


def _label(row: Tried) -> str:
    spread = row.spread("val")
    if spread is None:
        return f"{row.name} (failed)"
    return f"{row.name}  {spread.mean:.4f}{f' ({spread.count})' if spread.count > 1 else ''}"


def _limit(axes: object, rows: Sequence[Tried]) -> None:
    """Leave out the first, steep part of the curves."""
    best = [run.val for row in rows for run in row.finished if run.val is not None]
    if not best:
        return
    low, high = min(best), max(best)
    span = max(high - low, 0.3 * abs(high))
    beside = (span, 0.1 * span) if higher_is_better(rows[0].shown.metric) else (0.1 * span, span)
    axes.set_ylim(low - beside[0], high + beside[1])  # type: ignore[attr-defined]
