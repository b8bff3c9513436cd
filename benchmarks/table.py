"""Rows and cells of Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from interleaved import Row, Spread

__all__ = ["difference", "figure", "line", "markdown", "mean_sd"]

_HEAD = ("stage", "ours", "peer", "ratio (spread)", "target", "bound", "share of bound")


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def figure(value: float) -> str:
    """Format with three digits, or as a whole number from 100 on.

    >>> figure(1234.5), figure(12.345), figure(0.0012345)
    ('1,234', '12.3', '0.00123')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def mean_sd(scores: Mapping[int, float], digits: int = 4) -> str:
    """Format scores by seed as mean ± unbiased standard deviation (number of seeds).

    >>> mean_sd({0: 1.0, 1: 2.0}, 2), mean_sd({0: 1.0}), mean_sd({})
    ('1.50 ± 0.71 (2)', '1.0000', '')
    """
    values = list(scores.values())
    if len(values) < 2:
        return "".join(f"{value:.{digits}f}" for value in values)
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    return f"{mean:.{digits}f} ± {sd:.{digits}f} ({len(values)})"


def difference(mine: Mapping[int, float], base: Mapping[int, float], digits: int = 4) -> str:
    """Format the mean difference over common seeds, with its 95 % interval (paired t).

    >>> difference({0: 1.0, 1: 2.0, 2: 9.0}, {0: 0.5, 1: 1.4}, 2)
    '+0.55 (-0.09 to +1.19)'
    """
    from molsepnorm.training.comparing.replicates import paired_difference

    if not (seeds := [seed for seed in mine if seed in base]):
        return ""
    found = paired_difference([mine[seed] for seed in seeds], [base[seed] for seed in seeds])
    if found.interval is None:
        return f"{found.mean:+.{digits}f}"
    low, high = found.interval
    return f"{found.mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def markdown(rows: Sequence[Row]) -> str:
    """Return the table, and below it the names of the peers and the bounds."""
    lines = [line(_HEAD), line(["---"] * len(_HEAD)), *(line(_cells(row)) for row in rows)]
    notes: dict[str, list[str]] = {}
    for row in rows:
        notes.setdefault(_note(row), []).append(row.what)
    return "\n".join([*lines, "", *(f"- {' / '.join(whats)}: {n}." for n, whats in notes.items())])


def _cells(row: Row) -> list[str]:
    return [
        f"{row.what}, {row.unit}",
        _spread(Spread.of(row.ours)),
        _spread(Spread.of(row.peer)) if row.peer else "",
        _spread(row.ratio, _times) if row.ratio else "",
        _target(row),
        figure(Spread.of(row.bound).median) if row.bound else "",
        _spread(row.share, _percent) if row.share else "",
    ]


def _spread(spread: Spread, written: Callable[[float], str] = figure) -> str:
    if spread.min == spread.max:
        return written(spread.median)
    return f"{written(spread.median)} ({written(spread.min)} to {written(spread.max)})"


def _times(ratio: float) -> str:
    return f"{figure(ratio)} ×"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _target(row: Row) -> str:
    if (target := row.target) is None:
        return ""
    share = f"≥ {_percent(target.value)} of the bound"
    text = share if target.of == "share" else f"≥ {target.value:g} ×"
    return f"{text}: {'unknown' if row.met is None else 'met' if row.met else '**missed**'}"


def _note(row: Row) -> str:
    parts = [", ".join(filter(None, (f"peer: {row.peer_name}", row.peer_work)))] * bool(row.peer)
    parts += [f"bound: {row.bound_name}"] if row.bound else []
    rounds = len(row.ours)
    parts += [f"{rounds} rounds" if rounds > 1 else "one round"]
    return "; ".join([*parts, row.remark] if row.remark else parts)
