"""Cells of a table as numbers: bounds such as ">10", words such as "yes", and blanks included."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.tables import with_points
from molsepnorm.tasks.inputs import MISSING

YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
"""Words that are labels of a binary target, in lower case."""
_ABBREVIATED = {"y": "yes", "1": "yes", "n": "no", "0": "no"}
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")
_BOUND = re.compile(r"(>=?|≥|<=?|≤)\s*(.+)")
_MARKED = re.compile(
    r"(?:(?P<sign>[<>≤≥]=?)|[~≈=])?\s*"
    r"(?P<number>[-+]?(?:\d{1,3}(?: \d{3})+|\d*\.?\d+)(?:e[-+]?\d+)?)\s*"
    r"(?:(?:±|\+/?-).*|[*†‡]+|[a-d])?"
)
_MINUS = "\u2212"  # the sign of mathematics, which Excel and Word may write


class ParsedCells(NamedTuple):
    """The cells of a column as numbers."""

    numbers: np.ndarray
    """float64 [rows]: 1 or 0 for words such as "yes"; NaN for blanks and for other text."""
    bounds: np.ndarray
    """int8 [rows]: 1 where the value is at least the number, such as ">10"; -1 where it is at most
    the number, such as "<0.1"; 0 for all other cells."""
    words: np.ndarray
    """bool [rows]: True for words such as "yes"."""
    bad: np.ndarray
    """bool [rows]: True for cells that are neither numbers, nor bounds, nor such words, nor blanks.
    """


def marked_number(cell: str) -> str | None:
    """Return the number or bound of a cell with a footnote mark, an error, a sign that it is
    approximate or spaces between thousands; None for other text.

    >>> [marked_number(each) for each in ("45*", "~50", "12.3 ± 0.4", ">10 000", ">1000a", "n.d.")]
    ['45', '50', '12.3', '>10000', '>1000', None]
    """
    found = _MARKED.fullmatch(cell.strip().replace(_MINUS, "-"))
    return found and (found["sign"] or "") + found["number"].replace(" ", "")


def blank_classes(cells: pd.Series) -> pd.Series:
    """Return which cells of a multi-class target, stripped of outer spaces, are missing values."""
    return cells.isin(MISSING)


def word_of(cell: str) -> str:
    """Return a text that is the same for two spellings of a word.

    >>> word_of("In-active") == word_of("inactive"), word_of("Y") == word_of("yes")
    (True, True)
    """
    plain = " ".join(_BETWEEN_LETTERS.sub("", cell.casefold()).split())
    return _ABBREVIATED.get(plain, plain)


def parse_cells(column: pd.Series, decimal: Literal[".", ","] | None = None) -> ParsedCells:
    """Return the numbers, the bounds and the words of a column, or of a piece of it.

    Args:
        column: numbers, or text.
        decimal: the decimal mark of the table, see `with_points`.
    """
    cells = column.to_numpy(dtype=object)
    if decimal == ",":
        cells = with_points(column.astype(str), decimal).to_numpy(dtype=object)
    numbers = _as_numbers(cells)
    rest = np.flatnonzero(~_finite_in_float32(numbers))
    codes, distinct = pd.factorize(cells[rest], use_na_sentinel=False)  # recurring cells once
    plain = [str(cell).strip().replace(_MINUS, "-") for cell in distinct]
    signs = [_BOUND.fullmatch(cell) for cell in plain]
    texts = [s[2] if s else YES_NO.get(p.lower(), p) for s, p in zip(signs, plain, strict=True)]
    found = _as_numbers(np.array(texts, dtype=object))
    finite = _finite_in_float32(found)
    directions = np.array([0 if s is None else 1 if s[1][0] in ">≥" else -1 for s in signs])
    blank = np.array([cell in MISSING for cell in plain], dtype=bool)
    word = np.array([cell.lower() in YES_NO for cell in plain], dtype=bool)
    bounds = np.zeros(len(cells), dtype=np.int8)
    words, bad = np.zeros((2, len(cells)), dtype=bool)
    numbers[rest], bounds[rest] = found[codes], (directions * finite)[codes]
    words[rest], bad[rest] = word[codes], (~finite & ~blank)[codes]
    return ParsedCells(numbers, bounds, words, bad)


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    """Convert to float64, with NaN for what is not a number."""
    return pd.to_numeric(cells, errors="coerce").astype(np.float64)


def _finite_in_float32(numbers: np.ndarray) -> np.ndarray:
    """Return where numbers are finite in single precision, the type of labels."""
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32))
