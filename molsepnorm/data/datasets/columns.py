"""The columns of a table that a data set needs, read piece by piece."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import blank_classes, parse_with_words
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.splits import split_words
from molsepnorm.data.tables import locate, names_in_file, require_clear, require_column
from molsepnorm.tasks.inputs import WITH_COMMA
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.rounding import offset_of
from molsepnorm.tasks.transforms import NO_TRANSFORM

_NUMBERING = re.compile(
    r"(.*[_ ])?(id|index|row|number|num|no|nr|cid)|name|unnamed: ?\d+", re.IGNORECASE
)
_IDENTIFIER = re.compile(r"(.*[_ -])?(id|cid|name|code)", re.IGNORECASE)
_BADLY_WRITTEN = rf"[<>≤≥]?=?\s*({WITH_COMMA}|[-+]?[\d.]+\s*%|(.*\s)?\d+:\d\d:\d\d[\d.]*)"
_UNIT = r"(pp[mb]|min|h|hr|d|[°º]?[CFK]|[fpnuµμmkMG]?(M|mol|g|[lL]|m|s|eV|J|cal|Pa))([ /·*].*)?"
_WITH_UNIT = re.compile(
    rf"{_BADLY_WRITTEN}|[<>~≈≤≥]?=?\s*[-+]?\d[\d.,]*([eE][-+]?\d+)?\s*(%|(±|\+/?-).*|{_UNIT})"
)
_COMPARED_WORDS = 100  # with _WITH_UNIT
_MAX_CODES = 10
"""Maximum number of distinct numbers that may be class codes rather than quantities."""


class ParsedColumn:
    """The numbers of a column, and as many of its texts as labels need.

    The pieces of a column are added one after the other. Texts of numbers are dropped, so that
    a row needs 4 bytes.

    Args:
        name: name of the column.
        texts: which texts to store: all, in which case no numbers are stored; those of a column
            of words, such as "yes"; or none.
        dtype: type of the numbers.
        bounds: where cells such as ">10" are bounds rather than words: always, never, or only in a
            column that has plain numbers, too.
        binary: accept words such as "yes" in any column; otherwise they are bad in a column with
            bounds or with numbers other than 0 and 1.
    """

    def __init__(
        self,
        name: str,
        texts: Literal["all", "words", "none"] = "none",
        dtype: type[np.floating] = np.float64,
        bounds: Literal["always", "never", "with numbers"] = "with numbers",
        binary: bool = False,
    ) -> None:
        self.name = name
        self.rows = 0
        self.first_odd: tuple[int, str] | None = None
        """Row and text of the first number or bound that is neither 0 nor 1."""
        self._first_word: tuple[int, str] | None = None
        self.first_bound: tuple[int, str] | None = None
        """Row and text of the first cell that is written as a bound."""
        self._some_words: list[str] = []
        self._first_yes_no: tuple[int, str] | None = None
        self._first_none: tuple[int, str] | None = None
        self._few: set[float] | None = set()
        self._lowest, self._highest, self._rounding = np.inf, -np.inf, 0.0
        self._finite = self._plain = self._words = self._bounded = 0
        self._yes_no = self._none = 0
        self._bounds_where = bounds
        self._binary = binary
        self._bounds: list[tuple[np.ndarray, np.ndarray]] = []  # rows and directions
        self._texts = texts
        self.named_like_numbering = _NUMBERING.fullmatch(name) is not None
        """True if the name suggests row or catalogue numbers."""
        self._dtype = (
            np.float64 if self.named_like_numbering else dtype
        )  # float32 rounds large integers
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._distinct: dict[str, int] = {}

    def add(self, column: pd.Series) -> None:
        """Add the next piece of the column."""
        cells, yes_no, none = parse_with_words(column)
        numbers, bounds, words = cells
        if self._bounds_where == "never":
            words |= bounds != 0
        bounded = (bounds != 0) & ~words
        plain = ~np.isnan(numbers) & (bounds == 0)
        for name, where in (
            ("_first_word", words),
            ("first_bound", bounded),
            ("first_odd", cells.odd() & ~words),
            ("_first_yes_no", yes_no),
            ("_first_none", none),
        ):
            if getattr(self, name) is None and where.any():
                row = int(where.argmax())
                setattr(self, name, (self.rows + row, column.iloc[row]))
        if len(self._some_words) < _COMPARED_WORDS and words.any():
            some = column[words].iloc[:_COMPARED_WORDS]  # may be an infinite number in memory
            self._some_words += [str(each).strip() for each in some]
        if bounded.any():
            rows = np.flatnonzero(bounded)
            self._bounds.append((self.rows + rows, bounds[rows]))
        self.rows += len(column)
        self._words += int(words.sum())
        self._bounded += int(bounded.sum())
        self._yes_no += int(yes_no.sum())
        self._none += int(none.sum())
        self._finite += int(np.isfinite(numbers).sum())
        self._plain += int(plain.sum())
        self._measure(numbers[np.isfinite(numbers) & ~cells.bad])
        if self._few is not None:
            self._few.update(np.unique(numbers[plain])[: _MAX_CODES + 1].tolist())
            if len(self._few) > _MAX_CODES:
                self._few = None
        if self._words:  # the numbers of such a column are not used
            self._numbers.clear()
        elif self._texts != "all" or self.named_like_numbering:
            self._numbers.append(numbers.astype(self._dtype))
        if self._texts == "all" or (self._texts == "words" and self._plain == self._yes_no):
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
    def bounded(self) -> int:
        """Number of cells that are bounds."""
        return self._bounded if self._plain or self._bounds_where == "always" else 0

    @property
    def _misplaced(self) -> int:
        """Number of words such as "yes" beside bounds or numbers other than 0 and 1."""
        return 0 if self._binary or self.first_odd is None else self._yes_no

    @property
    def _unclear(self) -> int:
        """Number of cells "none" beside words such as "positive", where it may be a class."""
        return self._none if self._yes_no else 0

    @property
    def bad(self) -> int:
        """Number of cells that are neither numbers, nor bounds, nor blanks."""
        return self._words + self._bounded - self.bounded + self._misplaced + self._unclear

    @property
    def first_bad(self) -> tuple[int, str] | None:
        """Row and text of the first of them."""
        found = [self._first_word, None if self.bounded else self.first_bound]
        found.append(self._first_yes_no if self._misplaced else None)
        found.append(self._first_none if self._unclear else None)
        return min(filter(None, found), default=None)

    def numbers(self) -> np.ndarray:
        """Return the numbers, NaN for blanks, of a column that has nothing else but bounds."""
        return np.concatenate(self._numbers)

    def bounds(self) -> np.ndarray:
        """Return the bounds of every row, int8 [rows], as `ParsedCells.bounds`."""
        found = np.zeros(self.rows, dtype=np.int8)
        for rows, directions in self._bounds if self.bounded else ():
            found[rows] = directions
        return found

    def texts(self) -> tuple[np.ndarray, pd.Series]:
        """Return the index of each row's text, and the distinct texts in the order in which they
        first occur."""
        return np.concatenate(self._codes), pd.Series(list(self._distinct), dtype=object)

    def all_numbers(self) -> bool:
        """Return whether all cells are numbers, bounds or blanks, and one is a number."""
        return not self.bad and self._plain > 0

    def any_numbers(self) -> bool:
        """Return whether a cell is a number, not a bound."""
        return self._plain > 0

    def could_be_classes(self, most: int) -> bool:
        """Return whether the numbers are few and whole, or there are at most `most` words."""
        return self.are_few_whole_numbers() and len(self._distinct) <= most

    def mostly_numbers(self) -> bool:
        """Return whether more cells are numbers than neither numbers nor blanks, but not all."""
        return 0 < self.bad < self._finite - self._misplaced

    def numbers_with_units(self) -> bool:
        """Return whether there are no numbers, and most words are numbers with a unit, an error or
        a decimal comma, such as 13%, 37.2 nM, 12.3±0.2 and 0,5."""
        matches = [_WITH_UNIT.fullmatch(word) is not None for word in self._some_words]
        return not self._plain and 2 * sum(matches) > len(matches)

    def look_like_numbering(self) -> bool:
        """Return whether the name and distinct whole numbers suggest row or catalogue numbers."""
        if not self.named_like_numbering or self.bounded:
            return False
        numbers = self.numbers()
        present = numbers[~np.isnan(numbers)]
        return bool((present == np.rint(present)).all()) and len(np.unique(present)) == len(present)

    def only_bounds(self) -> bool:
        """Return whether there are cells that may be bounds or words, and no other cells."""
        return self.bad > 0 and not self._plain and not self._words

    def look_like_classes(self) -> bool:
        """Return whether there are only words, few or each of them twice on average, unlike names
        of molecules, numbers written as 1,5, 13% or 1:30:00, and bounds. Beside a word such as
        "active" there is one other word, since more may be spellings of two."""
        if self._plain > self._yes_no or not self._words:
            return False
        words = self.texts()[1].str.strip()
        words = words[~blank_classes(words)]
        if words.str.fullmatch(_BADLY_WRITTEN).any():
            return False
        most = 2 if self._yes_no else max(10, self.bad // 2)
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
    split_columns: dict[str, set[str]] = field(default_factory=dict)
    """The `split_words` of each column that has no other words, is not used, and has a name that no
    other column has; empty if the configuration says how the table is split."""

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
            table = Columns(config.table or "y", names, in_file, dtype)
            needed = _needed(table.names, config)
            table.parsed = {i: _parser(table.names[i], config, dtype) for i in needed}
            table.features = {name: [] for name in config.feature_columns}
            table.identifiers = {name: [] for name in _identifiers(table.names, config)}
            roles = filter(None, (config.weight_column, config.time_column))
            require_clear(piece, [*table.features, *roles], table.source)
            advice = "" if config.targets else ", or name the targets with --targets"
            require_clear(piece, [table.names[i] for i in needed], table.source, advice)
            free = _free_columns(table, config)
        index.append(piece.index.to_numpy())
        for number, column in table.parsed.items():
            column.add(piece.iloc[:, number])
        for name, texts in (
            (config.smiles_column, table.smiles),
            (config.column_of_split, table.splits),
            *table.features.items(),
            *table.identifiers.items(),
        ):
            if name in table.names:
                texts += piece.iloc[:, table.names.index(name)].tolist()
        free = [name for name in free if _add_split_words(piece[name], table)]
    assert table is not None
    table.index = np.concatenate(index)
    return table


def configured_kind(name: str, config: DataConfig) -> Kind | None:
    """Return the kind of a target in the configuration; None if it is to be guessed."""
    kinds = config.task_type
    return kinds.get(name) if isinstance(kinds, dict) else kinds


def _identifiers(names: list[str], config: DataConfig) -> list[str]:
    used = config.columns_with_roles(but="ignore_columns")
    return [name for name in names if name not in used and _IDENTIFIER.fullmatch(name)]


def _free_columns(table: Columns, config: DataConfig) -> list[str]:
    """Return the columns that could assign rows to splits, if nothing else does."""
    if config.column_of_split or config.splits_file or config.folds or config.split is None:
        return []
    used = config.columns_with_roles()
    counts = Counter(table.names).items()
    return [name for name, times in counts if times == 1 and name not in used]


def _add_split_words(piece: pd.Series, table: Columns) -> bool:
    """Add the words of the next piece of a column, and return whether it can assign splits."""
    words = None if split_words(piece.iloc[:1]) is None else split_words(piece.unique())
    known = table.split_columns.pop(str(piece.name), set())
    if words is not None:
        table.split_columns[str(piece.name)] = known | words
    return words is not None


def _needed(names: list[str], config: DataConfig) -> list[int]:
    needed = {*(config.targets or ())}
    if config.targets is None:
        needed = {*names} - config.columns_with_roles(but="targets")
    return [
        number
        for number, name in enumerate(names)
        if name in needed or name == config.weight_column
    ]


def _parser(name: str, config: DataConfig, dtype: type[np.floating]) -> ParsedColumn:
    if name == config.weight_column:
        return ParsedColumn(name, bounds="never")
    kind = configured_kind(name, config)
    named = name in (config.targets or ()) or name in config.classes
    named = named or (isinstance(config.task_type, dict) and name in config.task_type)
    if kind == "multiclass" or name in config.classes:
        return ParsedColumn(name, "all", dtype)
    texts: Literal["words", "none"] = "words" if named and kind in (None, "binary") else "none"
    number = kind == "regression" or config.transform.get(name, NO_TRANSFORM) != NO_TRANSFORM
    bounds: Literal["always", "with numbers"] = "always" if number else "with numbers"
    return ParsedColumn(name, texts, dtype, bounds, binary=kind == "binary")
