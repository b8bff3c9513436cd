"""`TableReport`: what was found in a table, for a person and for a program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from molsepnorm.tasks.metrics import Kind

__all__ = ["Finding", "Group", "Place", "TableReport", "TargetSummary"]


@dataclass(frozen=True)
class Place:
    """A row of the table."""

    row: int
    """Counted from 0, as in `splits.json` and `rejected.csv`."""
    where: str
    """In the file, such as "line 7"."""
    smiles: str
    """As it stands there."""


@dataclass(frozen=True)
class Group:
    """A part of what was found: what these rows have in common."""

    what: str
    count: int
    """Of what the finding counts."""
    places: tuple[Place, ...]
    """The first few."""


@dataclass(frozen=True)
class Finding:
    """Something that was found."""

    kind: str
    """A word for programs: unreadable, duplicates, conflicts, leak, …"""
    problem: bool
    """Whether it stops training, or spoils what is learned or measured; otherwise it is for
    information."""
    count: int
    """Of rows, molecules, labels or columns, as the text says."""
    text: str
    """A sentence for a person."""
    groups: tuple[Group, ...] = ()
    """The largest first; of very many only the first."""


@dataclass(frozen=True)
class TargetSummary:
    """The labels of a target in the rows that are molecules."""

    name: str
    kind: Kind
    labels: int
    """How many are present."""
    missing: int
    mean: float | None
    """This and the next four are None where the target is no number or has no label."""
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    classes: dict[str, int]
    """Labels of each class, of yes/no "0" and "1"; empty where the target is a number."""


@dataclass(frozen=True)
class TableReport:
    """What `check_table` found."""

    source: str
    rows: int
    readable: int
    """Rows that are molecules."""
    molecules: int
    """Different ones among them."""
    atoms: int
    """Of all rows together, hydrogens aside unless they are written as atoms."""
    warnings: tuple[str, ...]
    """What was guessed, such as which columns are targets."""
    targets: tuple[TargetSummary, ...]
    splits: dict[str, int]
    """Rows of train, val and test; empty where there is no split."""
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What to look at before training."""
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def information(self) -> tuple[Finding, ...]:
        """What is good to know."""
        return tuple(finding for finding in self.findings if not finding.problem)

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return asdict(self)
