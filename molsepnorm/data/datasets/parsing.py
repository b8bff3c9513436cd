"""Columns of text: the numbers in them, and what they look like, gathered piece by piece."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd

__all__ = ["BLANKS", "Cells", "mostly_numbers", "parse_numbers"]

BLANKS = ("", "nan", "na", "n/a", "none", "null")
"""What stands for a missing value, in lower case."""

_YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
_NUMBERING = re.compile(r"(.*[_ ])?(id|index|row|number|no|cid)|name|unnamed: ?\d+", re.IGNORECASE)
_FEW = 10
"""Maximum number of different numbers that may stand for classes rather than quantities."""


def parse_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column (NaN for blanks), and where there is neither number nor blank."""
    cells = column.to_numpy(dtype=object)
    numbers = _as_numbers(cells)
    rest = np.flatnonzero(~_fit(numbers))
    places, different = pd.factorize(cells[rest])  # a cell that recurs is read once
    plain = [str(cell).strip().lower() for cell in different]
    found = _as_numbers(np.array([_YES_NO.get(cell, cell) for cell in plain], dtype=object))
    blank = np.array([cell in BLANKS for cell in plain], dtype=bool)
    bad = np.zeros(len(cells), dtype=bool)
    numbers[rest], bad[rest] = found[places], (~_fit(found) & ~blank)[places]
    return numbers, bad


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    """As float64, NaN for what is no number."""
    return pd.to_numeric(cells, errors="coerce").astype(np.float64)


def _fit(numbers: np.ndarray) -> np.ndarray:
    """Return where numbers are finite in single precision, in which labels are kept."""
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32))


def mostly_numbers(column: pd.Series) -> bool:
    """More numbers than other cells, blanks aside, but not numbers alone."""
    numbers, bad = parse_numbers(column)
    return 0 < bad.sum() < np.isfinite(numbers).sum()


class Cells:
    """A column: its numbers, and of its texts as much as it takes to read labels.

    The pieces of a column are added one after the other. Texts of numbers are not kept, so that
    memory is 4 bytes a row.

    Args:
        name: the column's.
        texts: which texts to keep: all, and then no numbers; those of a column without any number;
            or none.
        dtype: of the numbers.
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
        """Cells that are neither number nor blank."""
        self.first_bad: tuple[int, str] | None = None
        """The first of these, with its row."""
        self.first_odd: tuple[int, str] | None = None
        """The first number that is neither 0 nor 1, with its row."""
        self._few: set[float] | None = set()
        self._finite = self._present = 0
        self._texts = texts
        self._may_number = _NUMBERING.fullmatch(name) is not None
        self._dtype = np.float64 if self._may_number else dtype  # single precision rounds numbering
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._different: dict[str, int] = {}

    def add(self, column: pd.Series) -> None:
        """Add the next piece of the column."""
        numbers, bad = parse_numbers(column)
        present = ~np.isnan(numbers)
        for name, where in (
            ("first_bad", bad),
            ("first_odd", present & (numbers != 0) & (numbers != 1)),
        ):
            if getattr(self, name) is None and where.any():
                row = int(np.flatnonzero(where)[0])
                setattr(self, name, (self.rows + row, column.iloc[row]))
        self.rows += len(column)
        self.bad += int(bad.sum())
        self._finite += int(np.isfinite(numbers).sum())
        self._present += int(present.sum())
        if self._few is not None:
            self._few.update(np.unique(numbers[present])[: _FEW + 1].tolist())
            if len(self._few) > _FEW:
                self._few = None
        if self.bad:  # it has no numbers to give
            self._numbers.clear()
        elif self._texts != "all" or self._may_number:
            self._numbers.append(numbers.astype(self._dtype))
        if self._texts == "all" or (self._texts == "words" and not self._present):
            codes, different = pd.factorize(column)
            known = [self._different.setdefault(each, len(self._different)) for each in different]
            self._codes.append(np.array(known, dtype=np.int32)[codes])
        else:
            self._codes.clear()
            self._different.clear()

    def numbers(self) -> np.ndarray:
        """The numbers, NaN for blanks, of a column whose cells are all one or the other."""
        return np.concatenate(self._numbers)

    def texts(self) -> tuple[np.ndarray, pd.Series]:
        """For each row the number of its text, and the different texts in the order in which they
        first occur."""
        return np.concatenate(self._codes), pd.Series(list(self._different), dtype=object)

    def all_numbers(self) -> bool:
        """Numbers and blanks alone, and not blanks alone."""
        return not self.bad and self._present > 0

    def mostly_numbers(self) -> bool:
        """More numbers than other cells, blanks aside, but not numbers alone."""
        return 0 < self.bad < self._finite

    def look_like_numbering(self) -> bool:
        """A column of such a name whose whole numbers never recur: of rows, or of a catalogue."""
        if not self._may_number:
            return False
        numbers = self.numbers()
        present = numbers[~np.isnan(numbers)]
        return bool((present == np.rint(present)).all()) and len(np.unique(present)) == len(present)

    def look_like_classes(self) -> bool:
        """Words alone, and few, or each of them more than once on average: unlike names, or 1,5 for
        1.5."""
        if self._present or not self.bad:
            return False
        words = self.texts()[1].str.strip()
        words = words[~words.str.lower().isin(BLANKS)]
        return words.nunique() <= max(10, self.bad // 2)

    def are_yes_no(self) -> bool:
        """No number but 0 and 1."""
        return self._few is not None and self._few <= {0.0, 1.0}

    def are_few_whole_numbers(self) -> bool:
        """At most ten different numbers, all of them whole."""
        return self._few is not None and all(number == round(number) for number in self._few)
