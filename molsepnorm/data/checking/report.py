"""`TableReport`: the findings in a table, to display or to process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import replacing, write_csv
from molsepnorm.tasks.metrics import Kind

__all__ = [
    "Finding",
    "Group",
    "Location",
    "TableReport",
    "TargetSummary",
    "four_digits",
    "write_targets",
]


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
class TargetSummary:
    """The labels of a target in the rows that are molecules."""

    name: str
    kind: Kind
    labels: int
    """Number of labels present."""
    bounds: int
    """Number of these labels that are bounds, such as ">10"."""
    missing: int
    mean: float | None
    """This and the next four are those of the labels that are not bounds, after the transform. They
    are None if the target is not a number or has no such label."""
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    classes: dict[str, int]
    """Number of labels of each class, "0" and "1" for binary targets; empty for numbers."""


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


def four_digits(number: float) -> str:
    """Return a number with four significant digits, for people.

    >>> four_digits(0.6930041), four_digits(123456.7), four_digits(3.42028e-28)
    ('0.693', '123,457', '3.42e-28')
    """
    if 1000 <= abs(number) < 1e9:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def write_targets(targets: Sequence[TargetSummary], output: Path, source: Path) -> None:
    """Write a CSV file with a row for each target and full precision.

    The column `classes` has the number of labels of each class, such as "0: 12; 1: 30".

    Raises:
        ConfigError: `output` is the table that was checked.
        StorageError: it cannot be written.
    """
    if output.exists() and source.exists() and output.samefile(source):
        raise ConfigError(f"{output} is the table that is checked: choose another name")
    names = [each.name for each in fields(TargetSummary)]
    rows = []
    for target in targets:
        row = {name: getattr(target, name) for name in names}
        row["classes"] = "; ".join(f"{name}: {n}" for name, n in target.classes.items())
        rows.append(row.values())
    with replacing(output) as scratch:
        write_csv(scratch, names, rows)
