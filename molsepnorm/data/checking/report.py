"""`TableReport`: the findings in a table, to display or to process; and how they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from molsepnorm.data.checking.scan import Scan
from molsepnorm.data.datasets.summary import TargetSummary

GROUPS = 10
"""Maximum number of groups listed for each finding."""

_PLACES = 5  # rows listed for each group


@dataclass(frozen=True)
class Location:
    """A row of the table."""

    row: int
    """Index counted from 0, as in `splits.json` and `rejected.csv`."""
    where: str
    """Position in the file, such as "line 7"."""
    smiles: str
    """The SMILES in the file."""


@dataclass(frozen=True)
class Group:
    """Rows that share a property."""

    what: str
    count: int
    """Number of rows, molecules, labels or columns, as in the finding."""
    places: tuple[Location, ...]
    """The first few rows."""


@dataclass(frozen=True)
class Finding:
    """A finding in a table."""

    kind: str
    """Identifier: unreadable, duplicates, conflicts, leak, …"""
    problem: bool
    """True if it stops training or biases the model or its scores; False for information."""
    count: int
    """Number of rows, molecules, labels or columns; the text says which."""
    text: str
    """A sentence for the user."""
    groups: tuple[Group, ...] = ()
    """The largest groups, in descending order."""
    options: dict[str, str] = field(default_factory=dict, hash=False)
    """Options of training that resolve it, such as {"--transform": "ic50_nM=pic50"}."""


@dataclass(frozen=True)
class TableReport:
    """The result of `check_table`."""

    source: str
    rows: int
    readable: int
    """Number of rows with a readable SMILES."""
    molecules: int
    """Number of distinct molecules in them."""
    atoms: int
    """Number of atoms in all rows, without implicit hydrogens."""
    warnings: tuple[str, ...]
    """Guesses about the table, such as which columns are targets."""
    targets: tuple[TargetSummary, ...]
    """The labels of each target in the rows that are molecules."""
    splits: dict[str, int]
    """Number of rows in train, val and test; empty if there is no split."""
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Return the findings that should be resolved before training."""
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def information(self) -> tuple[Finding, ...]:
        """Return the other findings."""
        return tuple(finding for finding in self.findings if not finding.problem)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return asdict(self)


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
    places = tuple(Location(row, scan.location(row), scan.smiles[row]) for row in first)
    return Group(what, len(rows) if count is None else count, places)


def some(cells: Iterable[str]) -> str:
    """Return the first few distinct cells."""
    distinct = list(dict.fromkeys(cell.strip() for cell in cells))
    return ", ".join(f"'{cell}'" for cell in distinct[:3]) + ", …" * (len(distinct) > 3)
