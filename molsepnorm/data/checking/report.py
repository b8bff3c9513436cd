"""`TableReport`: the findings in a table, to display or to process."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from molsepnorm.data.datasets.summary import TargetSummary


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
