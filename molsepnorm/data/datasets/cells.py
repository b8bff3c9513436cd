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


class Cells(NamedTuple):
    """Cells of a target, each of which is a number, a bound, a word such as "yes", or bad."""

    texts: list[str]
    """The texts, without outer spaces."""
    numbers: np.ndarray
    """float64 [n]: the number, also of a bound; 1 or 0 for words such as "yes"; NaN for others."""
    bounds: np.ndarray
    """int8 [n]: 1 where the value is at least the number, such as ">10"; -1 where it is at most the
    number, such as "<0.1"; 0 for all others."""
    words: np.ndarray
    """bool [n]: True for words such as "yes"."""

    @property
    def bad(self) -> np.ndarray:
        """bool [n]: True for cells that are neither numbers, nor bounds, nor such words."""
        return np.isnan(self.numbers)


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
    not finite in single precision, the type of labels. `decimal` is as for `with_points`."""
    if decimal == ",":
        cells = with_points(cells.astype(str), decimal)
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, copy=True)
    with np.errstate(over="ignore"):
        numbers[~np.isfinite(numbers.astype(np.float32))] = np.nan
    return numbers


def parse_cells(cells: Sequence[object], decimal: Literal[".", ","] | None = None) -> Cells:
    """Return cells, which are numbers or text, as numbers, bounds and words."""
    texts = [each.strip() if isinstance(each, str) else f"{each:g}" for each in cells]
    numbers = plain_numbers(pd.Series(cells, dtype=object), decimal)
    others = np.flatnonzero(np.isnan(numbers))
    plain = [texts[i].replace(_MINUS, "-") for i in others]
    signs = [_BOUND.fullmatch(text) for text in plain]
    bare = [s[2] if s else YES_NO.get(p.lower(), p) for s, p in zip(signs, plain, strict=True)]
    numbers[others] = plain_numbers(pd.Series(bare, dtype=object), decimal)
    bounds, words = np.zeros(len(texts), dtype=np.int8), np.zeros(len(texts), dtype=bool)
    bounds[others] = [0 if s is None else 1 if s[1][0] in ">≥" else -1 for s in signs]
    words[others] = [text.lower() in YES_NO for text in plain]
    bounds[np.isnan(numbers)] = 0
    return Cells(texts, numbers, bounds, words)
