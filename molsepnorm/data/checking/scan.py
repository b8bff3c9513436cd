"""`scan_table`: a table as training reads it, with what would stop training; and what is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns, configured_kind, marked_number, plain_numbers
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset, TargetSummary
from molsepnorm.data.datasets.duplicates import used_rows
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.data.datasets.qualifiers import Qualifiers
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD
from molsepnorm.data.datasets.splitters import read_times
from molsepnorm.data.datasets.table import Refusal, Rows, attempt, read_columns, with_splits
from molsepnorm.data.tables import locate
from molsepnorm.errors import counted
from molsepnorm.molecules.encodings.encoding import EncodingSpec

GROUPS = 10
"""Maximum number of groups listed for each finding."""
_PLACES = 5  # rows listed for each group


@dataclass(frozen=True, eq=False)
class Scan:
    """The R rows of a table as molecules and labels."""

    config: DataConfig
    table: pd.DataFrame
    """[R, columns]: every cell as text."""
    dataset: Dataset
    """The molecules that can be read, with splits if there are any."""
    labels: Labels
    """[R, T]; T is 0 if no target can be read. Invalid labels, and those of weight 0, are missing.
    Numbers are on the scale that is learned."""
    qualifiers: Qualifiers
    marked: dict[str, dict[int, str]]
    """Cells as they are in the file, by target and row, for which `table` has the number."""
    weights: np.ndarray | None
    """Weight of each row; None without such a column, or if training refuses it."""
    refusals: tuple[Refusal, ...]

    @cached_property
    def smiles(self) -> list[str]:
        """SMILES of each row, as in the file."""
        return self.table[self.config.smiles_column].tolist()

    @property
    def readable(self) -> np.ndarray:  # int64
        """Rows with a readable SMILES."""
        return self.dataset.store.rows

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Rows (int64) of train, val and test; empty if there is no split."""
        return {name: self.readable[each] for name, each in self.dataset.splits.items()}

    @cached_property
    def molecules(self) -> pd.Series:
        """Number of each readable row's molecule, in the order in which they first occur."""
        return pd.Series(pd.factorize(self.dataset.molecule_ids)[0], index=self.readable)

    @cached_property
    def sizes(self) -> pd.Series:
        """Number of atoms of each readable row."""
        return pd.Series(self.dataset.store.sizes, index=self.readable)

    @cached_property
    def conditions(self) -> pd.Series:
        """Number of each readable row's molecule with its feature columns and its time. Training
        refuses to merge rows of different times, see `data.duplicates`."""
        keys, config = [self.molecules], self.config
        for name in config.features:
            keys.append(self._key(name, plain_numbers(self.table[name], config.decimal)))
        if config.time_column is not None:
            times, _ = read_times(self.table[config.time_column].tolist(), config.time_format)
            keys.append(self._key(config.time_column, times))
        return _numbered(keys)

    def _key(self, name: str, numbers: np.ndarray) -> pd.Series:
        """Return the cells of the readable rows with numbers in place of text: 25.0 is 25."""
        cells = self.table[name].str.strip().to_numpy(dtype=object)
        cells = np.where(np.isnan(numbers), cells, numbers.astype(str))
        return pd.Series(cells[self.readable], index=self.readable)

    @cached_property
    def repeated(self) -> list[np.ndarray]:
        """Rows (int64, ascending) of each of the D `conditions` that occur more than once, in one
        split if splits are named."""
        keys = [self.conditions]
        if self.config.splits_column is not None:
            cells = self.table[self.config.splits_column].iloc[self.readable]
            words = cells.str.strip().str.lower().map(lambda word: SPLIT_OF_WORD.get(word, word))
            keys.append(words.set_axis(self.readable))
        groups = pd.Series(self.readable).groupby(_numbered(keys).to_numpy())
        return [rows.to_numpy() for _, rows in groups if len(rows) > 1]

    @cached_property
    def merged(self) -> list[np.ndarray]:
        """The rows of each of `repeated` whose labels are merged, see `used_rows`."""
        is_labelled = ~np.isnan(self.labels.values).all(axis=1)
        return [used_rows(rows, is_labelled) for rows in self.repeated]

    @cached_property
    def exact(self) -> np.ndarray:  # float64 (R, T)
        """The labels without bounds, NaN where missing."""
        return np.where(self.labels.bounds, np.nan, self.labels.values)

    @cached_property
    def columns(self) -> np.ndarray:  # float64 (T, molecules)
        """Exact labels of the readable rows, by target."""
        return self.exact[self.readable].T

    def location(self, row: int) -> str:
        """Return the position of a row in its file, such as "line 7"."""
        where = locate(str(self.config.table), self.table.index[row])
        return where.removeprefix(f"{self.config.table}, ")


def _numbered(keys: list[pd.Series]) -> pd.Series:
    """Return the number of each row's combination of keys, in the order of their first rows."""
    frame = pd.concat(keys, axis=1, keys=range(len(keys)))
    return frame.groupby(list(frame.columns), sort=False).ngroup()


def scan_table(config: DataConfig, encoding: EncodingSpec, read_marked: bool = False) -> Scan:
    """Read every row of `config.table` as training does, but go on after errors.

    The encoded molecules are in the cache then, so that training starts at once. With
    `read_marked`, invalid labels such as 45* are numbers, see `marked_number`.

    Raises:
        ConfigError: a column or file named in the settings is missing.
        DataError: the file is not a table.
    """
    table = read_columns(config.model_copy(update={"on_invalid": "skip"}))
    marked = _without_marks(table) if read_marked else {}
    rows = Rows.read(table, np.float64)
    dataset, refusals = rows.encoded(encoding), rows.refusals
    if len(dataset.store):
        dataset = attempt(refusals, "split", lambda: with_splits(dataset, table), dataset)
    found = rows.labels, table.qualifiers, marked, rows.weights
    return Scan(table.config, table.frame, dataset, *found, tuple(refusals))


def _without_marks(table: Columns) -> dict[str, dict[int, str]]:
    """Replace marked numbers of the named regression targets in the table; return the cells as they
    were, by target and row."""
    found: dict[str, dict[int, str]] = {}
    for name in table.targets or ():
        quantity = configured_kind(name, table.config) in (None, "regression")
        if name not in table.names or not quantity or not table.column(name).has_numbers:
            continue
        place = table.names.index(name)
        for row in table.column(name).bad_rows.tolist():
            cell = str(table.frame.iat[row, place])
            if (number := marked_number(cell)) is not None:
                found.setdefault(name, {})[row] = cell
                table.frame.iat[row, place] = number
    return found


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
    groups: Sequence[Group],
    what: str,
    noun: str,
    more: str = "",
    count: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Yield a finding of `count` things (by default those of the groups) if there are any; the text
    is what they are, their number with the noun, and more."""
    count = sum(group.count for group in groups) if count is None else count
    if count:
        ordered = sorted(groups, key=lambda group: -group.count)[:GROUPS]
        text = f"{what}: {counted(count, noun)}{more}"
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
