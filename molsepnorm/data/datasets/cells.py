"""Cells of a table as numbers: bounds such as ">10", words such as "yes", and blanks included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.tables import with_points

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


class ParsedTexts(NamedTuple):
    """Texts that are not plain numbers, as the cells of a target."""

    numbers: np.ndarray
    """float64 [n]: the number of a bound; 1 or 0 for words such as "yes"; NaN for other text."""
    bounds: np.ndarray
    """int8 [n]: 1 where the value is at least the number, such as ">10"; -1 where it is at most the
    number, such as "<0.1"; 0 for all other texts."""
    words: np.ndarray
    """bool [n]: True for words such as "yes"."""
    bad: np.ndarray
    """bool [n]: True for texts that are neither numbers, nor bounds, nor such words."""


def marked_number(cell: str) -> str | None:
    """Return the number or bound of a cell with a footnote mark, an error, a sign that it is
    approximate or spaces between thousands; None for other text.

    >>> [marked_number(each) for each in ("45*", "~50", "12.3 ± 0.4", ">10 000", ">1000a", "n.d.")]
    ['45', '50', '12.3', '>10000', '>1000', None]
    """
    found = _MARKED.fullmatch(cell.strip().replace(_MINUS, "-"))
    return found and (found["sign"] or "") + found["number"].replace(" ", "")


def word_of(cell: str) -> str:
    """Return a text that is the same for two spellings of a word.

    >>> word_of("In-active") == word_of("inactive"), word_of("Y") == word_of("yes")
    (True, True)
    """
    plain = " ".join(_BETWEEN_LETTERS.sub("", cell.casefold()).split())
    return _ABBREVIATED.get(plain, plain)


def plain_numbers(cells: pd.Series, decimal: Literal[".", ","] | None = None) -> np.ndarray:
    """Return the numbers of cells, float64 (n,); NaN for blanks, other text, and numbers that are
    not finite in single precision, the type of labels.

    Args:
        cells: numbers, or text.
        decimal: the decimal mark of the table, see `with_points`.
    """
    if decimal == ",":
        cells = with_points(cells.astype(str), decimal)
    codes, distinct = pd.factorize(cells.to_numpy(dtype=object), use_na_sentinel=False)
    numbers = pd.to_numeric(distinct, errors="coerce").astype(np.float64)[codes]
    with np.errstate(over="ignore"):
        numbers[~np.isfinite(numbers.astype(np.float32))] = np.nan
    return numbers


def parse_texts(texts: Sequence[str], decimal: Literal[".", ","] | None = None) -> ParsedTexts:
    """Return the numbers, the bounds and the words among texts without outer spaces."""
    plain = [text.replace(_MINUS, "-") for text in texts]
    signs = [_BOUND.fullmatch(text) for text in plain]
    bare = [s[2] if s else YES_NO.get(p.lower(), p) for s, p in zip(signs, plain, strict=True)]
    numbers = plain_numbers(pd.Series(bare, dtype=object), decimal)
    directions = np.array([0 if s is None else 1 if s[1][0] in ">≥" else -1 for s in signs])
    is_number = np.isfinite(numbers)
    return ParsedTexts(
        numbers,
        bounds=np.where(is_number, directions, 0).astype(np.int8),
        words=np.array([text.lower() in YES_NO for text in plain], dtype=bool),
        bad=~is_number,
    )
