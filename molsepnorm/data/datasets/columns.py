"""The columns of a table that a data set needs, read piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import blank_classes, parse_cells
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.qualifiers import (
    Qualifiers,
    exported_target,
    few_words,
    qualifiers_of,
    with_relations,
)
from molsepnorm.data.tables import (
    locate,
    names_in_file,
    require_column,
    separated_by,
    unclear_point,
    with_points,
)
from molsepnorm.tasks.inputs import WITH_COMMA
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.rounding import offset_of

_IDENTIFIER = re.compile(r"(.*[_ -])?(id|cid|name|code)", re.IGNORECASE)
_BADLY_WRITTEN = rf"[<>≤≥]?=?\s*({WITH_COMMA}|[-+]?[\d.]+\s*%|(.*\s)?\d+:\d\d:\d\d[\d.]*)"
_MAX_CODES = 10
"""Maximum number of distinct numbers that may be class codes rather than quantities."""

_MIN_SHARE = 0.02
_MIN_DISTINCT = 5  # numbers, among which one may be far from the others
_FAR = 10  # ranges of the other numbers
_SENTINELS = {1 - 10.0**digits for digits in range(2, 7)}
"""-99, -999, …: numbers that stand for missing values even if they occur once."""

Cell = tuple[int, str]
"""The row of a cell, and its text."""


class ParsedColumn:
    """The numbers of a column, and as many of its texts as labels need.

    The pieces of a column are added one after the other. Texts of numbers are dropped, so that a
    row needs 4 bytes.

    Args:
        name: name of the column.
        config: decimal mark, and the kind and the classes of the column if it is a target.
        dtype: type of the numbers.
    """

    def __init__(
        self, name: str, config: DataConfig, dtype: type[np.floating] = np.float64
    ) -> None:
        self.name = name
        self.rows = 0
        self.bounded = 0
        """Number of cells that are bounds."""
        self.first_bound: Cell | None = None
        self.first_odd: Cell | None = None
        """The first number or bound that is neither 0 nor 1."""
        self.first_number: Cell | None = None
        self.first_unclear: Cell | None = None
        """The first number that has another value if its point groups thousands, such as 1.234."""
        self._first_bad: Cell | None = None
        self._first_word: Cell | None = None
        kind = configured_kind(name, config)
        self._binary = kind == "binary"
        self._all_texts = kind == "multiclass" or name in config.classes
        self._texts = self._all_texts or (name in (config.targets or ()) and kind != "regression")
        self._decimal, self._dtype = config.decimal, dtype
        self._missing = config.missing_numbers if name != config.weight_column else ()
        self._clear_point = False
        self._few: set[float] | None = set()
        self._lowest, self._highest, self._rounding = np.inf, -np.inf, 0.0
        self._plain = self._words = 0
        self._numbers: list[np.ndarray] = []
        self._bounds: list[tuple[np.ndarray, np.ndarray]] = []  # rows and directions
        self._bad_rows: list[np.ndarray] = []
        self._word_rows: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._distinct: dict[str, int] = {}

    def add(self, column: pd.Series, may_group: bool = False) -> None:
        """Add the next piece of the column.

        Args:
            column: the cells.
            may_group: whether points may group thousands in the file.
        """
        numbers, bounds, words, bad = parse_cells(column, self._decimal)
        numbers[np.isin(numbers, self._missing) & (bounds == 0)] = np.nan
        bounded = bounds != 0
        plain = ~np.isnan(numbers) & ~bounded & ~words
        odd = bounded | (plain & (numbers != 0) & (numbers != 1))
        for name, where in (
            ("_first_bad", bad),
            ("_first_word", words),
            ("first_bound", bounded),
            ("first_odd", odd),
            ("first_number", plain),
        ):
            if getattr(self, name) is None and where.any():
                row = int(where.argmax())
                setattr(self, name, (self.rows + row, str(column.iloc[row])))
        if may_group and self._decimal is None and not self._clear_point:
            unclear, self._clear_point = unclear_point(column)
            if unclear is not None and self.first_unclear is None:
                self.first_unclear = self.rows + unclear, column.iloc[unclear]
        for rows, found in ((self._bad_rows, bad), (self._word_rows, words)):
            if found.any():
                rows.append(self.rows + np.flatnonzero(found))
        if bounded.any():
            places = np.flatnonzero(bounded)
            self._bounds.append((self.rows + places, bounds[places]))
        self.rows += len(column)
        self.bounded += int(bounded.sum())
        self._plain += int(plain.sum())
        self._words += int(words.sum())
        self._measure(numbers[np.isfinite(numbers) & ~bad])
        if self._few is not None:
            self._few.update(np.unique(numbers[plain | words])[: _MAX_CODES + 1].tolist())
            if len(self._few) > _MAX_CODES:
                self._few = None
        if not self._all_texts:
            self._numbers.append(numbers.astype(self._dtype))
        if self._all_texts or (self._texts and not self._plain):
            codes, distinct = pd.factorize(column)
            known = [self._distinct.setdefault(each, len(self._distinct)) for each in distinct]
            self._codes.append(np.array(known, dtype=np.int32)[codes])
        else:
            self._codes.clear()
            self._distinct.clear()

    def _measure(self, numbers: np.ndarray) -> None:
        """Update the range of the numbers, and their largest error in single precision."""
        if len(numbers):
            self._lowest = min(self._lowest, float(numbers.min()))
            self._highest = max(self._highest, float(numbers.max()))
            error = np.abs(numbers - numbers.astype(np.float32)).max()
            self._rounding = max(self._rounding, float(error))

    @property
    def offset(self) -> float | None:
        """The middle of the numbers if single precision, the type of labels, does not hold their
        differences, as with 100000001 and 100000002; otherwise None."""
        return offset_of(self._lowest, self._highest, self._rounding)

    @property
    def has_unclear_points(self) -> bool:
        """True if all points may group thousands, so that 1.234 may be 1234."""
        return self.first_unclear is not None and not self._clear_point

    @property
    def _misplaced(self) -> bool:
        """True if words such as "yes" are beside bounds or numbers other than 0 and 1."""
        return self._words > 0 and not self._binary and self.first_odd is not None

    def bad_rows(self) -> np.ndarray:
        """Return the rows, int64, of cells that are neither numbers, nor bounds, nor blanks."""
        found = [*self._bad_rows, *(self._word_rows if self._misplaced else ())]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    @property
    def first_bad(self) -> Cell | None:
        """The first of these cells."""
        found = [self._first_bad, self._first_word if self._misplaced else None]
        return min(filter(None, found), default=None)

    def numbers(self) -> np.ndarray:
        """Return the numbers, NaN for blanks and for `bad_rows`."""
        numbers = np.concatenate(self._numbers)
        numbers[self.bad_rows()] = np.nan
        return numbers

    def bounds(self) -> np.ndarray:
        """Return the bounds of every row, int8 [rows], as `ParsedCells.bounds`."""
        found = np.zeros(self.rows, dtype=np.int8)
        for rows, directions in self._bounds:
            found[rows] = directions
        return found

    def texts(self) -> tuple[np.ndarray, pd.Series]:
        """Return the index of each row's text, and the distinct texts in the order in which they
        first occur."""
        return np.concatenate(self._codes), pd.Series(list(self._distinct), dtype=object)

    @property
    def count(self) -> int:
        """Number of cells that are numbers, bounds, or words such as "yes"."""
        return self._plain + self.bounded + self._words * (not self._misplaced)

    def are_numbers(self) -> bool:
        """Return whether all cells are numbers, bounds, such words or blanks, and not all blank."""
        return self.first_bad is None and self._plain + self._words > 0

    def mostly_numbers(self) -> bool:
        """Return whether more cells are numbers than neither numbers nor blanks."""
        return self.count > len(self.bad_rows())

    def whole_numbers(self) -> np.ndarray | None:
        """Return the numbers, without blanks, if all are whole; otherwise None."""
        numbers = self.numbers()
        present = numbers[~np.isnan(numbers)]
        return present if not self.bounded and (present == np.rint(present)).all() else None

    def stands_for_missing(self) -> tuple[float, int] | None:
        """Return a number far from all others that may stand for a missing value, such as -999, and
        how often it occurs; None if there is none."""
        exact = self.numbers()[self.bounds() == 0]
        numbers, counts = np.unique(exact, return_counts=True)
        numbers, counts = numbers[~np.isnan(numbers)], counts[~np.isnan(numbers)]
        if numbers.tolist() == [-1, 0, 1]:
            return -1.0, int(counts[0])
        if len(numbers) < _MIN_DISTINCT:
            return None
        for end, rest in ((0, numbers[1:]), (-1, numbers[:-1])):
            apart = np.abs(numbers[end] - rest).min() > _FAR * np.ptp(rest)
            several = counts[end] > max(1, _MIN_SHARE * counts.sum())
            if apart and (several or float(numbers[end]) in _SENTINELS):
                return float(numbers[end]), int(counts[end])
        return None

    def could_be_classes(self, most: int) -> bool:
        """Return whether the numbers are few and whole, or there are at most `most` words."""
        return self.are_few_whole_numbers() and len(self._distinct) <= most

    def only_bounds(self) -> bool:
        """Return whether there are bounds, and no numbers or words."""
        return self.bounded > 0 and not (self._plain or self._words or self._bad_rows)

    def look_like_classes(self) -> bool:
        """Return whether there are only words, few or each of them twice on average, unlike names
        of molecules, and numbers written as 1,5, 13% or 1:30:00. Beside a word such as "active"
        there is one other word, since more may be spellings of two."""
        if self._plain or self.bounded or not self._bad_rows:
            return False
        words = self.texts()[1].str.strip()
        words = words[~blank_classes(words)]
        if words.str.fullmatch(_BADLY_WRITTEN).any():
            return False
        most = 2 if self._words else max(10, len(self.bad_rows()) // 2)
        return words.nunique() <= most

    def are_yes_no(self) -> bool:
        """Return whether every number is 0 or 1."""
        return not self.bounded and self._few is not None and self._few <= {0.0, 1.0}

    def are_few_whole_numbers(self) -> bool:
        """Return whether there are at most ten distinct numbers, all of them whole."""
        few = self._few is not None and all(number.is_integer() for number in self._few)
        return few and not self.bounded


@dataclass
class Columns:
    """The parts of a table that a data set needs."""

    source: Path | str
    """The file; "y" for labels in memory."""
    names: list[str]
    """Names of all columns, in their order; several may have the same name."""
    in_file: list[str]
    """Names of the columns, with that of the column of SMILES as it is in the file."""
    dtype: type[np.floating]
    """Type of the labels."""
    targets: tuple[str, ...] | None
    """The targets that the settings name; None if they name none."""
    parsed: dict[int, ParsedColumn] = field(default_factory=dict)
    """Possible targets and the weights, by the index of the column."""
    index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Position of each row, see `molsepnorm.data.tables.locate`."""
    smiles: list[str] = field(default_factory=list)
    """SMILES of each row."""
    splits: list[str] = field(default_factory=list)
    """Cell of `config.column_of_split` of each row."""
    features: dict[str, list[str]] = field(default_factory=dict)
    """Cells of each of `config.feature_columns`."""
    identifiers: dict[str, list[str]] = field(default_factory=dict)
    """Cells of each column whose name is that of an identifier, such as compound_id, and that the
    configuration does not name."""
    qualifiers: Qualifiers = field(default_factory=Qualifiers)
    """The columns of relations and units that belong to the target."""
    units: list[str] = field(default_factory=list)
    """Cells of the column of units, if there is one."""
    words: dict[str, set[str]] = field(default_factory=dict)
    """The distinct cells of each column that has few, is not used, and has a name that no other
    column has."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the user about columns that were recognised."""

    def require(self, name: str, *, once: bool = True) -> None:
        """Check that there is a column of this name, see `require_column`."""
        require_column(self.names, name, self.source, once=once, in_file=self.in_file)

    def column(self, name: str) -> ParsedColumn:
        """Return the first column of this name, which must have been parsed."""
        return self.parsed[self.names.index(name)]

    def cell(self, row: int, name: str) -> str:
        """Return where a cell is, for an error message."""
        in_file = isinstance(self.source, Path)
        where = locate(self.source, self.index[row]) if in_file else f"molecule {self.index[row]}"
        return f"{where}, column '{name}'"


def parse_columns(
    pieces: Iterable[pd.DataFrame], config: DataConfig, dtype: type[np.floating] = np.float64
) -> Columns:
    """Read a table piece by piece, and parse what the configuration needs.

    Columns that are missing are missing in the result too.

    Args:
        pieces: of one table, as `molsepnorm.data.tables.read_chunks` yields them.
        config: the roles of the columns.
        dtype: type of the labels.
    """
    table = None
    index = []
    for piece in pieces:
        if table is None:
            names, in_file = list(piece.columns), names_in_file(piece)
            targets = _named_targets(names, config)
            if targets is None and (exported := exported_target(names)) is not None:
                targets = (exported,)
            table = Columns(config.table or "y", names, in_file, dtype, targets)
            config = config.model_copy(update={"targets": targets and list(targets)})
            given = config.relation_column, config.unit_column
            table.qualifiers, table.notes = qualifiers_of(names, targets, *given)
            relation, unit = table.qualifiers
            for name in filter(None, table.qualifiers):
                table.require(name)
            for number, name in enumerate(names):
                if name == config.weight_column:
                    table.parsed[number] = ParsedColumn(name, config)
                elif _may_be_target(name, config):
                    table.parsed[number] = ParsedColumn(name, config, dtype)
            table.features = {name: [] for name in config.feature_columns}
            table.identifiers = {name: [] for name in _identifiers(names, config)}
            table.words = {name: set() for name in _free_columns(table, config)}
        index.append(piece.index.to_numpy())
        may_group = separated_by(piece) == ";"
        for number, column in table.parsed.items():
            cells = piece.iloc[:, number]
            if relation is not None and column.name in (table.targets or ()):
                cells = with_relations(cells, piece[relation], table.source)
            column.add(cells, may_group)
        for column_name, texts in (
            (config.smiles_column, table.smiles),
            (config.column_of_split, table.splits),
            (unit, table.units),
            *table.features.items(),
            *table.identifiers.items(),
        ):
            if column_name in table.names:
                cells = piece.iloc[:, table.names.index(column_name)]
                if column_name in table.features:
                    cells = with_points(cells, config.decimal)
                texts += cells.tolist()
        found = {each: few_words(known, piece[each]) for each, known in table.words.items()}
        table.words = {each: words for each, words in found.items() if words is not None}
    assert table is not None
    table.index = np.concatenate(index)
    return table


def configured_kind(name: str, config: DataConfig) -> Kind | None:
    """Return the kind of a target in the configuration; None if it is to be guessed."""
    kinds = config.task_type
    return kinds.get(name) if isinstance(kinds, dict) else kinds


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that patterns such as pIC50* stand for, in the order of the patterns. One
    that matches no name stands for itself."""
    found: list[str] = []
    for pattern in patterns:
        own = [name for name in names if fnmatchcase(name, pattern)]
        found += [pattern] if pattern in names or not own else own
    return found


def _named_targets(names: list[str], config: DataConfig) -> tuple[str, ...] | None:
    if config.targets is None:
        kinds = config.task_type if isinstance(config.task_type, dict) else {}
        named = dict.fromkeys((*kinds, *config.classes, *config.transform))
        return tuple(named) or None
    taken = config.columns_with_roles(but="targets") | {*matching(names, config.targets_except)}
    chosen = matching(names, config.targets)
    return tuple(name for name in chosen if name in config.targets or name not in taken)


def _may_be_target(name: str, config: DataConfig) -> bool:
    if config.targets is not None:
        return name in config.targets
    taken = matching([name], config.targets_except)
    return name not in {*config.columns_with_roles(but="targets"), *taken}


def _identifiers(names: list[str], config: DataConfig) -> list[str]:
    used = config.columns_with_roles(but="targets_except")
    return [name for name in names if name not in used and _IDENTIFIER.fullmatch(name)]


def _free_columns(table: Columns, config: DataConfig) -> list[str]:
    """Return the columns that are not used, and have a name of their own."""
    used = {*config.columns_with_roles(), *(table.targets or ()), *table.qualifiers}
    counts = Counter(table.names).items()
    return [name for name, times in counts if times == 1 and name not in used]
