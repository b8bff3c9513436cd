"""Rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interleaved import Row, Spread

__all__ = ["figure", "line", "markdown"]

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
