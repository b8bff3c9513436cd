"""The columns of a table that a data set needs, read piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import ParsedTexts, parse_texts, plain_numbers
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
from molsepnorm.tasks.inputs import MISSING, WITH_COMMA
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.rounding import offset_of

_IDENTIFIER = re.compile(r"(.*[_ -])?(id|cid|name|code)", re.IGNORECASE)
_BADLY_WRITTEN = rf"[<>≤≥]?=?\s*({WITH_COMMA}|[-+]?[\d.]+\s*%|(.*\s)?\d+:\d\d:\d\d[\d.]*)"
_MAX_CODES = 10
"""Maximum number of distinct numbers that may be class codes rather than quantities."""
_MAX_TEXTS = 1000
"""Maximum number of distinct texts that are kept of a column that no setting names."""

_MIN_SHARE = 0.02
_MIN_DISTINCT = 5  # numbers, among which one may be far from the others
_MIN_LIMITED, _MAX_BEYOND = 0.1, 0.01
"""Shares of the labels that are equal to a limit of the assay, and beyond it."""
_FAR = 10  # ranges of the other numbers
_SENTINELS = {1 - 10.0**digits for digits in range(2, 7)}
"""-99, -999, …: numbers that stand for missing values even if they occur once."""


class Column:
    """The numbers of a column, and the texts of its other cells.

    The pieces of a column are added one after the other, then its properties are read. A row of
    numbers takes 4 bytes.

    Args:
        name: name of the column.
        config: decimal mark and missing values, and the kind and the classes of the column if it is
            a target.
        dtype: type of the numbers.
    """

    def __init__(
        self, name: str, config: DataConfig, dtype: type[np.floating] = np.float64
    ) -> None:
        self.name = name
        self.rows = 0
        self.unclear: tuple[int, str] | None = None
        """Row and text of the first number whose point may group thousands, such as 1.234."""
        kind = configured_kind(name, config)
        self._binary = kind == "binary"
        self._missing_texts = {*MISSING} - {*config.classes.get(name, ())}
        self._of_classes = kind == "multiclass" or name in config.classes
        self._named = name in (config.targets or ()) or name == config.weight_column
        self._decimal, self._dtype = config.decimal, dtype
        self._missing = config.missing_numbers if name != config.weight_column else ()
        self._clear_point = False
        self._lowest, self._highest, self._rounding = np.inf, -np.inf, 0.0
        self._numbers: list[np.ndarray] = []
        self._other_rows: list[np.ndarray] = []
        self._other_codes: list[np.ndarray] = []
        self._others = 0
        self._texts: dict[str, int] = {}

    def add(self, cells: pd.Series, may_group: bool = False) -> None:
        """Add the next piece of the column.

        Args:
            cells: numbers, or text.
            may_group: whether points may group thousands in the file.
        """
        if may_group and self._decimal is None and not self._clear_point:
            first, self._clear_point = unclear_point(cells)
            if first is not None and self.unclear is None:
                self.unclear = self.rows + first, cells.iloc[first]
        numbers = plain_numbers(cells, self._decimal)
        is_blank = np.isin(numbers, self._missing)
        is_number = ~(np.isnan(numbers) | is_blank) & (not self._of_classes)
        self._measure(numbers[is_number])
        self._numbers.append(np.where(is_number, numbers, np.nan).astype(self._dtype))
        rest = np.flatnonzero(~is_number & ~is_blank)
        codes, found = pd.factorize(cells.to_numpy(dtype=object)[rest], use_na_sentinel=False)
        texts = [str(cell).strip() for cell in found]
        kept = self._named or len(self._texts) < _MAX_TEXTS
        known = [
            -1
            if text in self._missing_texts
            else self._texts.setdefault(text, len(self._texts))
            if kept
            else 0
            for text in texts
        ]
        places = np.array(known, dtype=np.int32)[codes]
        self._others += int((places >= 0).sum())
        if kept:
            self._other_rows.append(self.rows + rest[places >= 0])
            self._other_codes.append(places[places >= 0])
        self.rows += len(cells)

    def _measure(self, numbers: np.ndarray) -> None:
        """Update the range of the numbers, and their largest error in single precision."""
        if len(numbers):
            self._lowest = min(self._lowest, float(numbers.min()))
            self._highest = max(self._highest, float(numbers.max()))
            error = np.abs(numbers - numbers.astype(np.float32)).max()
            self._rounding = max(self._rounding, float(error))

    # Properties of the whole column

    @cached_property
    def other_rows(self) -> np.ndarray:
        """Rows, int64, of the cells that are neither plain numbers nor missing."""
        return np.concatenate([*self._other_rows, np.zeros(0, dtype=np.int64)])

    @cached_property
    def other_codes(self) -> np.ndarray:
        """Index, in `texts`, of each of `other_rows`."""
        return np.concatenate([*self._other_codes, np.zeros(0, dtype=np.int32)])

    @property
    def texts(self) -> list[str]:
        """The distinct texts of these cells, without outer spaces, as they first occur."""
        return list(self._texts)

    @cached_property
    def _parsed(self) -> ParsedTexts:
        """The numbers, bounds and words among `other_rows`."""
        parsed = parse_texts(self.texts, self._decimal)
        return ParsedTexts(*(each[self.other_codes] for each in parsed))

    @cached_property
    def _plain(self) -> np.ndarray:
        """The plain numbers, NaN for all other cells."""
        self._numbers = [np.concatenate(self._numbers)]
        return self._numbers[0]

    @cached_property
    def bounds(self) -> np.ndarray:
        """The bounds of every row, int8 (rows,), as `ParsedTexts.bounds`."""
        found = np.zeros(self.rows, dtype=np.int8)
        found[self.other_rows] = self._parsed.bounds
        return found

    @property
    def has_numbers(self) -> bool:
        """True if there are plain numbers."""
        return not np.isnan(self._plain).all()

    @property
    def bounded(self) -> int:
        """Number of cells that are bounds."""
        return int(np.count_nonzero(self._parsed.bounds))

    @cached_property
    def odd_rows(self) -> np.ndarray:
        """Rows, int64, of the numbers and bounds that are neither 0 nor 1."""
        plain = ~np.isnan(self._plain) & ~np.isin(self._plain, (0, 1))
        return np.flatnonzero(plain | (self.bounds != 0))

    @cached_property
    def bad_rows(self) -> np.ndarray:
        """Rows, int64, of cells that are neither numbers, nor bounds, nor missing. Words such as
        "yes" are numbers unless they stand beside numbers other than 0 and 1."""
        bad = self._parsed.bad
        if not self._binary and len(self.odd_rows):
            bad = bad | self._parsed.words
        return self.other_rows[bad]

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numbers, float (rows,), NaN for missing values and for `bad_rows`."""
        if not len(self.other_rows):
            return self._plain
        numbers = self._plain.copy()
        numbers[self.other_rows] = self._parsed.numbers
        numbers[self.bad_rows] = np.nan
        return numbers

    def text(self, row: int) -> str:
        """Return the text of a cell; that of a plain number as it is read."""
        place = np.flatnonzero(self.other_rows == row)
        return self.texts[self.other_codes[place[0]]] if len(place) else f"{self._plain[row]:g}"

    @property
    def first_bad(self) -> str | None:
        """The text of the first of `bad_rows`."""
        return self.text(self.bad_rows[0]) if len(self.bad_rows) else None

    @property
    def first_bound(self) -> str:
        """The text of the first bound, which there must be."""
        return self.text(self.other_rows[np.flatnonzero(self._parsed.bounds)[0]])

    @property
    def offset(self) -> float | None:
        """The middle of the numbers if single precision, the type of labels, does not hold their
        differences, as with 100000001 and 100000002; otherwise None."""
        return offset_of(self._lowest, self._highest, self._rounding)

    @property
    def has_unclear_points(self) -> bool:
        """True if all points may group thousands, so that 1.234 may be 1234."""
        return self.unclear is not None and not self._clear_point

    @cached_property
    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct numbers, without those of bounds, and how often each occurs."""
        exact = self.numbers[self.bounds == 0]
        return np.unique(exact[~np.isnan(exact)], return_counts=True)

    @property
    def distinct(self) -> np.ndarray:
        """The distinct numbers, without those of bounds."""
        return self._counted[0]

    @property
    def count(self) -> int:
        """Number of cells that are numbers or bounds."""
        return int((~np.isnan(self.numbers)).sum())

    @property
    def are_numbers(self) -> bool:
        """True if all cells are numbers, bounds or missing, and there are numbers."""
        return not len(self.bad_rows) and len(self.distinct) > 0

    @property
    def mostly_numbers(self) -> bool:
        """True if more cells are numbers than neither numbers nor missing."""
        return 2 * self.count > int((~np.isnan(self._plain)).sum()) + self._others

    @property
    def are_whole(self) -> bool:
        """True if all numbers are whole, and none is a bound."""
        return not self.bounded and bool((self.distinct == np.rint(self.distinct)).all())

    @property
    def are_few_whole_numbers(self) -> bool:
        """True if there are at most ten distinct numbers, all of them whole."""
        return self.are_whole and len(self.distinct) <= _MAX_CODES

    @property
    def are_yes_no(self) -> bool:
        """True if every number is 0 or 1."""
        return not len(self.odd_rows)

    @property
    def only_bounds(self) -> bool:
        """True if there are bounds, and neither numbers nor words."""
        return 0 < self.bounded == len(self.other_rows) and not len(self.distinct)

    @property
    def look_like_classes(self) -> bool:
        """True if there are only words, few or each of them twice on average, unlike names of
        molecules, and numbers written as 1,5, 13% or 1:30:00. Beside a word such as "active" there
        is one other word, since more may be spellings of two."""
        bad, words = self._parsed.bad, self._parsed.words
        if not bad.any() or self.bounded or self.has_numbers:
            return False
        if any(re.fullmatch(_BADLY_WRITTEN, text) for text in self.texts):
            return False
        return len(self.texts) <= (2 if words.any() else max(10, int(bad.sum()) // 2))

    def assay_limits(self) -> dict[Literal["smaller", "larger"], tuple[float, int]]:
        """Return the numbers that may be a limit of the assay, with their counts, by what is rare:
        many labels are equal to such a number, and hardly any is smaller, or larger."""
        numbers, counts = self._counted
        if len(numbers) < _MIN_DISTINCT:
            return {}
        *_, usual, _, _ = np.sort(counts)
        found: dict[Literal["smaller", "larger"], tuple[float, int]] = {}
        for place in np.flatnonzero(counts > max(_MIN_LIMITED * counts.sum(), 3 * usual)).tolist():
            number = float(numbers[place]), int(counts[place])
            if counts[:place].sum() <= _MAX_BEYOND * counts.sum():
                found["smaller"] = number
            elif counts[place + 1 :].sum() <= _MAX_BEYOND * counts.sum():
                found["larger"] = number
        return found

    def stands_for_missing(self) -> tuple[float, int] | None:
        """Return a number far from all others that may stand for a missing value, such as -999, and
        how often it occurs; None if there is none."""
        numbers, counts = self._counted
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
    qualifiers: Qualifiers
    """The columns of relations and units that belong to the target."""
    notes: list[str]
    """Sentences for the user about columns that were recognised."""
    identifiers: list[str]
    """Columns whose name is that of an identifier, such as compound_id, and that the settings do
    not name."""
    parsed: dict[int, Column] = field(default_factory=dict)
    """Possible targets and the weights, by the index of the column."""
    cells: dict[str, list[str]] = field(default_factory=dict)
    """Cells of the other columns that are used, by name: SMILES, split, units, feature columns and
    identifiers."""
    words: dict[str, set[str]] = field(default_factory=dict)
    """The distinct cells of each column that has few, is not used, and has a name that no other
    column has."""
    index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Position of each row, see `molsepnorm.data.tables.locate`."""

    def require(self, name: str, *, once: bool = True) -> None:
        """Check that there is a column of this name, see `require_column`."""
        require_column(self.names, name, self.source, once=once, in_file=self.in_file)

    def column(self, name: str) -> Column:
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
            table = _roles(piece, config, dtype)
        index.append(piece.index.to_numpy())
        may_group = separated_by(piece) == ";"
        relation = table.qualifiers.relation
        for number, column in table.parsed.items():
            cells = piece.iloc[:, number]
            if relation is not None and column.name in (table.targets or ()):
                cells = with_relations(cells, piece[relation], table.source)
            column.add(cells, may_group)
        for name, known in table.cells.items():
            cells = piece.iloc[:, table.names.index(name)]
            if name in config.features:
                cells = with_points(cells, config.decimal)
            known += cells.tolist()
        found = {each: few_words(known, piece[each]) for each, known in table.words.items()}
        table.words = {each: words for each, words in found.items() if words is not None}
    assert table is not None
    table.index = np.concatenate(index)
    return table


def _roles(piece: pd.DataFrame, config: DataConfig, dtype: type[np.floating]) -> Columns:
    """Return the columns of a table by their roles, without cells, from its first piece."""
    names, in_file = list(piece.columns), names_in_file(piece)
    targets = _named_targets(names, config)
    if targets is None and (exported := exported_target(names)) is not None:
        targets = (exported,)
    config = config.model_copy(update={"targets": targets and list(targets)})
    given = config.relation_column, config.unit_column
    qualifiers, notes = qualifiers_of(names, targets, *given)
    used = config.columns_with_roles(but="targets_except")
    identifiers = [name for name in names if name not in used and _IDENTIFIER.fullmatch(name)]
    table = Columns(
        config.table or "y", names, in_file, dtype, targets, qualifiers, notes, identifiers
    )
    for name in filter(None, qualifiers):
        table.require(name)
    for number, name in enumerate(names):
        if name == config.weight_column:
            table.parsed[number] = Column(name, config)
        elif _may_be_target(name, config):
            table.parsed[number] = Column(name, config, dtype)
    one = config.smiles_column, config.column_of_split, qualifiers.unit
    table.cells = {n: [] for n in (*one, *config.features, *identifiers) if n in names}
    taken = {*config.columns_with_roles(), *qualifiers}
    once = (name for name, times in Counter(names).items() if times == 1)
    table.words = {name: set() for name in once if name not in taken}
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
        named = dict.fromkeys((*kinds, *config.classes, *config.transform, *config.limits))
        return tuple(named) or None
    taken = config.columns_with_roles(but="targets") | {*matching(names, config.targets_except)}
    chosen = matching(names, config.targets)
    return tuple(name for name in chosen if name in config.targets or name not in taken)


def _may_be_target(name: str, config: DataConfig) -> bool:
    if config.targets is not None:
        return name in config.targets
    taken = matching([name], config.targets_except)
    return name not in {*config.columns_with_roles(but="targets"), *taken}
