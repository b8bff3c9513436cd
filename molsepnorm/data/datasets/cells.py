"""Cells of a table as numbers: bounds such as ">10", words such as "yes", and blanks included."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.tables.decimals import BLANKS
from molsepnorm.tasks.inputs import MISSING

YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
"""Words that are labels of a binary target, in lower case."""
_ABBREVIATED = {"y": "yes", "1": "yes", "n": "no", "0": "no"}
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")
_BOUND = re.compile(r"(>=?|≥|<=?|≤)\s*(.+)")


class ParsedCells(NamedTuple):
    """The cells of a column as numbers."""

    numbers: np.ndarray
    """float64 [rows]: NaN for blanks and for other text."""
    bounds: np.ndarray
    """int8 [rows]: 1 where the value is at least the number, such as ">10"; -1 where it is at most
    the number, such as "<0.1"; 0 for all other cells."""
    bad: np.ndarray
    """bool [rows]: True for cells that are neither numbers, nor bounds, nor blanks."""

    def odd(self) -> np.ndarray:
        """Return which cells are bounds, or numbers other than 0 and 1; bool [rows]."""
        number = ~np.isnan(self.numbers) & ~self.bad
        return (self.bounds != 0) | (number & (self.numbers != 0) & (self.numbers != 1))


def blank_classes(cells: pd.Series) -> pd.Series:
    """Return which cells of a multi-class target, stripped of outer spaces, are missing values.

    "none" is a class, such as no odour, and so is "Na", the counter-ion sodium.
    """
    return cells.isin(MISSING)


def word_of(cell: str) -> str:
    """Return a text that is the same for two spellings of a word.

    >>> word_of("In-active") == word_of("inactive"), word_of("Y") == word_of("yes")
    (True, True)
    """
    plain = " ".join(_BETWEEN_LETTERS.sub("", cell.casefold()).split())
    return _ABBREVIATED.get(plain, plain)


def parse_cells(column: pd.Series, binary: bool = False) -> ParsedCells:
    """Return the numbers and the bounds of a whole column.

    Beside words such as "yes", "none" is bad, since it may be a class: positive, negative, none.

    Args:
        column: the cells.
        binary: read words such as "yes" as 1 or 0 in any column; otherwise they are bad in a column
            with bounds or with numbers other than 0 and 1.
    """
    cells, yes_no, none = parse_with_words(column)
    if yes_no.any():
        cells.bad[none] = True
    if not binary and cells.odd().any():
        cells.bad[yes_no] = True
    return cells


def parse_with_words(column: pd.Series) -> tuple[ParsedCells, np.ndarray, np.ndarray]:
    """Return the cells of a piece of a column, which of them are words such as "yes", which are
    read as 1 or 0, and which are "none", which is read as a blank; bool [rows]."""
    cells = column.to_numpy(dtype=object)
    numbers = _as_numbers(cells)
    rest = np.flatnonzero(~_finite_in_float32(numbers))
    codes, distinct = pd.factorize(cells[rest], use_na_sentinel=False)  # recurring cells once
    plain = [str(cell).strip().lower() for cell in distinct]
    signs = [_BOUND.fullmatch(cell) for cell in plain]
    texts = [s[2] if s else YES_NO.get(p, p) for s, p in zip(signs, plain, strict=True)]
    found = _as_numbers(np.array(texts, dtype=object))
    finite = _finite_in_float32(found)
    directions = np.array([0 if s is None else 1 if s[1][0] in ">≥" else -1 for s in signs])
    blank = np.array([cell in BLANKS for cell in plain], dtype=bool)
    word = np.array([cell in YES_NO for cell in plain], dtype=bool)
    empty = np.array([cell == "none" for cell in plain], dtype=bool)
    bounds = np.zeros(len(cells), dtype=np.int8)
    bad, yes_no, none = (np.zeros(len(cells), dtype=bool) for _ in range(3))
    numbers[rest], bounds[rest] = found[codes], (directions * finite)[codes]
    bad[rest], yes_no[rest], none[rest] = (~finite & ~blank)[codes], word[codes], empty[codes]
    return ParsedCells(numbers, bounds, bad), yes_no, none


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    """Convert to float64, with NaN for what is not a number."""
    return pd.to_numeric(cells, errors="coerce").astype(np.float64)


def _finite_in_float32(numbers: np.ndarray) -> np.ndarray:
    """Return where numbers are finite in single precision, the type of labels."""
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32))
