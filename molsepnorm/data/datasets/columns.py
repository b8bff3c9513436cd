"""The columns of a table that a data set needs, parsed piece by piece: numbers and class names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.tables import locate
from molsepnorm.tasks.metrics import Kind

__all__ = [
    "BLANKS",
    "Columns",
    "ParsedColumn",
    "configured_kind",
    "parse_columns",
    "parse_numbers",
]

BLANKS = ("", "nan", "na", "n/a", "none", "null")
"""Cells that are treated as missing values, in lower case."""

_YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
_NUMBERING = re.compile(r"(.*[_ ])?(id|index|row|number|no|cid)|name|unnamed: ?\d+", re.IGNORECASE)
_MAX_CODES = 10
"""Maximum number of distinct numbers that may be class codes rather than quantities."""


def parse_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a column (NaN for blanks), and where there is neither."""
    cells = column.to_numpy(dtype=object)
    numbers = _as_numbers(cells)
    rest = np.flatnonzero(~_finite_in_float32(numbers))
    codes, distinct = pd.factorize(cells[rest], use_na_sentinel=False)  # recurring cells once
    plain = [str(cell).strip().lower() for cell in distinct]
    found = _as_numbers(np.array([_YES_NO.get(cell, cell) for cell in plain], dtype=object))
    blank = np.array([cell in BLANKS for cell in plain], dtype=bool)
    bad = np.zeros(len(cells), dtype=bool)
    numbers[rest], bad[rest] = found[codes], (~_finite_in_float32(found) & ~blank)[codes]
    return numbers, bad


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    """Convert to float64, with NaN for what is not a number."""
    return pd.to_numeric(cells, errors="coerce").astype(np.float64)


def _finite_in_float32(numbers: np.ndarray) -> np.ndarray:
    """Return where numbers are finite in single precision, the type of labels."""
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32))


class ParsedColumn:
    """The numbers of a column, and as many of its texts as labels need.

    The pieces of a column are added one after the other. Texts of numbers are dropped, so that
    a row needs 4 bytes.

    Args:
        name: name of the column.
        texts: which texts to store: all, in which case no numbers are stored; those of a column
            without any number; or none.
        dtype: type of the numbers.
    """

    def __init__(
        self,
        name: str,
        texts: Literal["all", "words", "none"] = "none",
        dtype: type[np.floating] = np.float64,
    ) -> None:
        self.name = name
        self.rows = 0
        self.bad = 0
        """Number of cells that are neither numbers nor blanks."""
        self.first_bad: tuple[int, str] | None = None
        """Row and text of the first of them."""
        self.first_odd: tuple[int, str] | None = None
        """Row and text of the first number that is neither 0 nor 1."""
        self._few: set[float] | None = set()
        self._finite = self._present = 0
        self._texts = texts
        self._may_number = _NUMBERING.fullmatch(name) is not None
        self._dtype = np.float64 if self._may_number else dtype  # float32 rounds large integers
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._distinct: dict[str, int] = {}

    def add(self, column: pd.Series) -> None:
        """Add the next piece of the column."""
        numbers, bad = parse_numbers(column)
        present = ~np.isnan(numbers)
        odd = present & (numbers != 0) & (numbers != 1)
        for name, where in (("first_bad", bad), ("first_odd", odd)):
            if getattr(self, name) is None and where.any():
                row = int(where.argmax())
                setattr(self, name, (self.rows + row, column.iloc[row]))
        self.rows += len(column)
        self.bad += int(bad.sum())
        self._finite += int(np.isfinite(numbers).sum())
        self._present += int(present.sum())
        if self._few is not None:
            self._few.update(np.unique(numbers[present])[: _MAX_CODES + 1].tolist())
            if len(self._few) > _MAX_CODES:
                self._few = None
        if self.bad:  # the numbers of such a column are not used
            self._numbers.clear()
        elif self._texts != "all" or self._may_number:
            self._numbers.append(numbers.astype(self._dtype))
        if self._texts == "all" or (self._texts == "words" and not self._present):
            codes, distinct = pd.factorize(column)
            known = [self._distinct.setdefault(each, len(self._distinct)) for each in distinct]
            self._codes.append(np.array(known, dtype=np.int32)[codes])
        else:
            self._codes.clear()
            self._distinct.clear()

    def numbers(self) -> np.ndarray:
        """Return the numbers, NaN for blanks, of a column that has nothing else."""
        return np.concatenate(self._numbers)

    def texts(self) -> tuple[np.ndarray, pd.Series]:
        """Return the index of each row's text, and the distinct texts in the order in which they
        first occur."""
        return np.concatenate(self._codes), pd.Series(list(self._distinct), dtype=object)

    def all_numbers(self) -> bool:
        """Return whether all cells are numbers or blanks, and one is a number."""
        return not self.bad and self._present > 0

    def mostly_numbers(self) -> bool:
        """Return whether more cells are numbers than neither numbers nor blanks, but not all."""
        return 0 < self.bad < self._finite

    def look_like_numbering(self) -> bool:
        """Return whether the name and distinct whole numbers suggest row or catalogue numbers."""
        if not self._may_number:
            return False
        numbers = self.numbers()
        present = numbers[~np.isnan(numbers)]
        return bool((present == np.rint(present)).all()) and len(np.unique(present)) == len(present)

    def look_like_classes(self) -> bool:
        """Return whether there are only words, few or each of them twice on average, unlike names
        of molecules or numbers written as 1,5."""
        if self._present or not self.bad:
            return False
        words = self.texts()[1].str.strip()
        words = words[~words.str.lower().isin(BLANKS)]
        return words.nunique() <= max(10, self.bad // 2)

    def are_yes_no(self) -> bool:
        """Return whether every number is 0 or 1."""
        return self._few is not None and self._few <= {0.0, 1.0}

    def are_few_whole_numbers(self) -> bool:
        """Return whether there are at most ten distinct numbers, all of them whole."""
        return self._few is not None and all(number == round(number) for number in self._few)


@dataclass
class Columns:
    """The parts of a table that a data set needs."""

    source: Path | str
    """The file; "y" for labels in memory."""
    names: list[str]
    """Names of all columns, in their order; several may have the same name."""
    dtype: type[np.floating]
    """Type of the labels."""
    parsed: dict[int, ParsedColumn] = field(default_factory=dict)
    """Possible targets and the weights, by the index of the column."""
    index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Position of each row, see `molsepnorm.data.tables.locate`."""
    smiles: list[str] = field(default_factory=list)
    """SMILES of each row."""
    splits: list[str] = field(default_factory=list)
    """Cell of `config.splits_column` of each row."""
    features: dict[str, list[str]] = field(default_factory=dict)
    """Cells of each of `config.feature_columns`."""

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
            table = Columns(config.table or "y", list(piece.columns), dtype)
            needed = _needed(table.names, config)
            table.parsed = {i: _parser(table.names[i], config, dtype) for i in needed}
            table.features = {name: [] for name in config.feature_columns}
        index.append(piece.index.to_numpy())
        for number, column in table.parsed.items():
            column.add(piece.iloc[:, number])
        for name, texts in (
            (config.smiles_column, table.smiles),
            (config.splits_column, table.splits),
            *table.features.items(),
        ):
            if name in table.names:
                texts += piece.iloc[:, table.names.index(name)].tolist()
    assert table is not None
    table.index = np.concatenate(index)
    return table


def configured_kind(name: str, config: DataConfig) -> Kind | None:
    """Return the kind of a target in the configuration; None if it is to be guessed."""
    kinds = config.task_type
    return kinds.get(name) if isinstance(kinds, dict) else kinds


def _needed(names: list[str], config: DataConfig) -> list[int]:
    if config.targets is None:
        others = {config.smiles_column, config.splits_column}
        others |= {*config.ignore_columns, *config.feature_columns}
        needed = {config.weight_column, *names} - (others - {config.weight_column})
    else:
        needed = {config.weight_column, *config.targets}
    return [number for number, name in enumerate(names) if name in needed]


def _parser(name: str, config: DataConfig, dtype: type[np.floating]) -> ParsedColumn:
    if name == config.weight_column:
        return ParsedColumn(name)
    kind = configured_kind(name, config)
    named = name in (config.targets or ()) or name in config.classes
    named = named or (isinstance(config.task_type, dict) and name in config.task_type)
    if kind == "multiclass" or name in config.classes:
        return ParsedColumn(name, "all", dtype)
    return ParsedColumn(name, "words" if named and kind is None else "none", dtype)
