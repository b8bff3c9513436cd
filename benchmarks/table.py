"""Rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turns import Row, Spread

__all__ = ["figure", "markdown"]

_HEAD = ("stage", "ours", "peer", "ratio (spread)", "asked", "floor", "share of floor")


def markdown(rows: Sequence[Row]) -> str:
    """The table, and below it who the peers and the floors are."""
    lines = [_line(_HEAD), _line(["---"] * len(_HEAD))]
    lines += [_line(_cells(row)) for row in rows]
    notes: dict[str, list[str]] = {}
    for row in rows:
        notes.setdefault(_said(row), []).append(row.what)
    said = [f"- {' / '.join(whats)}: {note}." for note, whats in notes.items()]
    return "\n".join([*lines, "", *said])


def figure(value: float) -> str:
    """Three digits, or whole numbers from 100 on.

    >>> figure(1234.5), figure(12.345), figure(0.0012345)
    ('1,234', '12.3', '0.00123')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    ratio, share = row.ratio, row.share
    return [
        f"{row.what}, {row.unit}",
        _spread(Spread.of(row.ours)),
        _spread(Spread.of(row.peer)) if row.peer else "",
        _spread(ratio, _times) if ratio else "",
        _asked(row),
        figure(Spread.of(row.floor).median) if row.floor else "",
        _spread(share, _percent) if share else "",
    ]


def _spread(spread: Spread, written: Callable[[float], str] = figure) -> str:
    if spread.least == spread.greatest:
        return written(spread.median)
    return f"{written(spread.median)} ({written(spread.least)} to {written(spread.greatest)})"


def _times(ratio: float) -> str:
    return f"{figure(ratio)} ×"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _asked(row: Row) -> str:
    if (asked := row.asked) is None:
        return ""
    text = {
        "ratio": f"≥ {asked.bound:g} ×",
        "share": f"≥ {_percent(asked.bound)} of the floor",
        "growth": f"within {_percent(asked.bound)}",
        "ours": f"{'≥' if row.is_rate else '≤'} {asked.bound:g} {row.unit}",
    }[asked.of]
    return f"{text}: {'unknown' if row.met is None else 'met' if row.met else '**missed**'}"


def _said(row: Row) -> str:
    said = [", ".join(filter(None, (f"peer: {row.peer_name}", row.peer_work)))] if row.peer else []
    said += [f"floor: {row.floor_name}"] if row.floor else []
    turns = len(row.ours)
    said += [f"{turns} turns" if turns > 1 else "one turn"]
    return "; ".join([*said, row.remark] if row.remark else said)
