"""Make the findings of a table from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from molsepnorm.data.checking.report import Finding, Group, Location
from molsepnorm.data.checking.scan import Scan, location

GROUPS = 10
"""Maximum number of groups listed for each finding."""

_PLACES = 5  # rows listed for each group


def found(
    kind: str,
    problem: bool,
    count: int,
    text: str,
    groups: Sequence[Group],
    options: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Yield the finding if the count is not 0."""
    if count:
        ordered = sorted(groups, key=lambda group: -group.count)[:GROUPS]
        yield Finding(kind, problem, count, text, tuple(ordered), dict(options or {}))


def group(
    scan: Scan, what: str, rows: Sequence[int] | np.ndarray, count: int | None = None
) -> Group:
    """Return a group of these rows, or of `count` things, with the rows as an example."""
    first = [int(row) for row in rows[:_PLACES]]
    places = tuple(Location(row, location(scan, row), scan.smiles[row]) for row in first)
    return Group(what, len(rows) if count is None else count, places)


def some(cells: Iterable[str]) -> str:
    """Return the first few distinct cells."""
    distinct = list(dict.fromkeys(cell.strip() for cell in cells))
    return ", ".join(f"'{cell}'" for cell in distinct[:3]) + ", …" * (len(distinct) > 3)
