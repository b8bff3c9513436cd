"""Split a table by a column of times: the oldest rows train, the newest ones test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from molsepnorm.data.tables.decimals import BLANKS
from molsepnorm.errors import counted

_YEAR = r"(19|20)\d\d"
_MONTH, _DAY = r"(0?[1-9]|1[0-2])", r"(0?[1-9]|[12]\d|3[01])"
_TWO_MONTH, _TWO_DAY = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
_YEAR_LAST = re.compile(
    rf"{_MONTH}\.(19|20)\d{{1,2}}|({_MONTH}|{_DAY}{_MONTH}|{_MONTH}{_DAY}){_YEAR}"
)
"""05.2021, 052021, 03052021 and 05312021, and 10.202, as which October 2020 is written by programs
that read it as a number."""
_MONTH_YEAR = re.compile(rf"{_MONTH}\.([0-2]\d|9\d)|{_TWO_MONTH}\d\d")
"""05.21 and 0521."""
_YEAR_MONTH = re.compile(rf"{_YEAR}{_TWO_MONTH}")
_YEAR_FIRST = re.compile(rf"{_YEAR}({_MONTH}{_DAY}?)?")
"""2021, 202105 and 20210503, also without leading zeros."""
_YEAR_DOT_MONTH = re.compile(rf"{_YEAR}\.([1-9]|1[0-2])")
"""2021.2 and 2021.10, months without a leading zero: as numbers, October is before February."""
_YEAR_OF_TWO_DIGITS = re.compile(
    rf"{_TWO_DAY}{_TWO_MONTH}\d\d|{_TWO_MONTH}{_TWO_DAY}\d\d|\d\d{_TWO_MONTH}{_TWO_DAY}"
)
"""030521, 053121 and 210531."""


def read_times(column: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of a column as numbers in order, and the rows that have no valid time.

    Cells are numbers, or dates in ISO 8601 such as 2021, 2021-05, 2021-05-03 and
    2021-05-03T14:30:00Z, where a year or a month stands for its first moment. If all cells are
    numbers, their order is numerical. Numbers that look like dates of another order are not valid:
    those that end with the year (05.2021, 052021, 03052021), have a year of two digits (05.21,
    0521, 030521), or start with the year and differ in length (2021 and 20210503, 20219 and 202110,
    2021.2 and 2021.10).

    Returns:
        float64 [R]: numbers, or microseconds since 1970; NaN for an empty cell.
        int64: rows whose cell is not empty and not a time of the column's kind.
    """
    cells = pd.Series(list(column), dtype=object).str.strip()
    present = ~cells.str.lower().isin(BLANKS).to_numpy()
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    if np.isfinite(numbers[present]).all():
        if present.any() and _look_like_dates(cells[present]):
            return np.full(len(cells), np.nan), np.flatnonzero(present)
        return np.where(present, numbers, np.nan), np.empty(0, dtype=np.int64)
    dates = cells.where(present & cells.str.match(r"\d"))  # pandas reads "now" as a date
    dates = pd.to_datetime(dates, format="ISO8601", errors="coerce", utc=True)
    known = dates.notna().to_numpy()
    times = np.full(len(cells), np.nan)
    times[known] = dates[known].dt.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)
    # cells that are neither come first: they are the reason if only they are not numbers
    bad = np.flatnonzero(present & ~known)
    return times, bad[np.argsort(np.isfinite(numbers[bad]), kind="stable")]


def _look_like_dates(cells: pd.Series) -> bool:
    """Return whether numbers look like dates whose order is, or may be, another one."""
    cells = cells.str.replace(r"^(\d{4,})\.0$", r"\1", regex=True)  # from a column of floats
    lengths = {*cells.str.len()}
    if cells.str.fullmatch(_YEAR_DOT_MONTH).all():  # then those with two digits are 10 to 12
        return len(lengths) > 1
    if cells.str.fullmatch(_YEAR_FIRST).all() and (len(lengths) > 1 or lengths == {7}):
        return True
    years = cells.str.fullmatch(_YEAR_LAST)
    if years.mean() > 0.5 and cells[years].str.contains(r"(?:19|20)\d\d$").any():
        return True
    if cells.str.fullmatch(_MONTH_YEAR).all():
        return bool(cells.str.contains(r"^0|\.").any())  # 1125 may be a number of days
    if cells.str.fullmatch(_YEAR_MONTH).all() or not cells.str.fullmatch(r"\d{5,6}").all():
        return False
    digits = cells.str.zfill(6)  # programs that read numbers drop the first 0
    return bool(digits.str.fullmatch(_YEAR_OF_TWO_DIGITS).all())


def split_by_time(
    times: np.ndarray, num_train: int, num_val: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of the training, validation and test molecules, from old to new.

    Molecules of the same time stay together in the earlier one of two splits, so every molecule is
    newer than those of the splits before.

    Args:
        times: float64 [G], NaN for a molecule that is left out.
        num_train, num_val: numbers of training and validation molecules, which ties may raise.
    """
    order = np.argsort(times, kind="stable")[: np.count_nonzero(~np.isnan(times))]
    ends = np.array([num_train, num_train + num_val])
    if len(order):
        last = times[order[np.maximum(ends, 1) - 1]]
        ends = np.searchsorted(times[order], last, side="right")
    train, val, test = np.split(order, ends)
    return train, val, test


def describe_times(parts: Mapping[str, np.ndarray], column: Sequence[str], name: str) -> str:
    """Return a line with the first and the last time of each split that has rows.

    Args:
        parts: rows of the table in each split.
        column: cells of every row.
        name: name of the column.
    """
    times, _ = read_times(column)
    spans = []
    for split, rows in parts.items():
        if not len(rows):
            continue
        first, last = rows[np.argmin(times[rows])], rows[np.argmax(times[rows])]
        spans.append(f"{split} {column[first].strip()} to {column[last].strip()}")
    blank = int(np.isnan(times).sum())
    left_out = f"; {counted(blank, 'row')} without a time left out" if blank else ""
    return f"Split by column '{name}': {', '.join(spans)}{left_out}."
