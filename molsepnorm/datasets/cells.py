"""Columns of text: the numbers in them, and what they look like."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from molsepnorm.metrics import Kind

__all__ = [
    "BLANKS",
    "all_numbers",
    "kind_of",
    "look_like_classes",
    "looks_like_numbering",
    "mostly_numbers",
    "parse_numbers",
]

BLANKS = ("", "nan", "na", "n/a", "none", "null")
"""What stands for a missing value, in lower case."""

_YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
_NUMBERING = re.compile(r"(.*[_ ])?(id|index|row|number|no|cid)|name|unnamed: ?\d+", re.IGNORECASE)


def parse_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column (NaN for blanks), and where there is neither number nor blank."""
    places, different = pd.factorize(column)  # a cell that recurs is read once
    text = pd.Series(different).astype(str).str.strip().str.lower()
    parsed = pd.to_numeric(text.map(lambda cell: _YES_NO.get(cell, cell)), errors="coerce")
    numbers = parsed.to_numpy(dtype=np.float64)
    with np.errstate(over="ignore"):  # a label is kept as a float32
        bad = ~np.isfinite(numbers.astype(np.float32)) & ~text.isin(BLANKS).to_numpy()
    return numbers[places], bad[places]


def all_numbers(column: pd.Series) -> bool:
    """Numbers and blanks alone, and not blanks alone."""
    numbers, bad = parse_numbers(column)
    return not bad.any() and not np.isnan(numbers).all()


def mostly_numbers(column: pd.Series) -> bool:
    """More numbers than other cells, blanks aside, but not numbers alone."""
    numbers, bad = parse_numbers(column)
    return 0 < bad.sum() < np.isfinite(numbers).sum()


def looks_like_numbering(name: str, column: pd.Series) -> bool:
    """A column of that name whose whole numbers never recur: of rows, or of a catalogue."""
    if not _NUMBERING.fullmatch(name):
        return False
    numbers, _ = parse_numbers(column)
    present = numbers[~np.isnan(numbers)]
    return bool((present == np.rint(present)).all()) and len(np.unique(present)) == len(present)


def look_like_classes(column: pd.Series) -> bool:
    """Words alone, and few, or each of them more than once on average: unlike names, or 1,5 for
    1.5."""
    numbers, bad = parse_numbers(column)
    words = column[bad].str.strip()
    few = words.nunique() <= max(10, len(words) // 2)
    return bool(np.isnan(numbers).all()) and len(words) > 0 and few


def kind_of(column: pd.Series) -> Kind:
    """Of a column of numbers."""
    numbers, _ = parse_numbers(column)
    return "binary" if set(np.unique(numbers[~np.isnan(numbers)])) <= {0.0, 1.0} else "regression"
