"""Split a table by a column of times: the oldest rows train, the newest ones test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from molsepnorm.data.tables.decimals import BLANKS
from molsepnorm.errors import counted

__all__ = ["describe_times", "read_times", "split_by_time"]

_MONTH, _DAY = r"(0?[1-9]|1[0-2])", r"(0?[1-9]|[12]\d|3[01])"
_YEAR_LAST = re.compile(rf"{_MONTH}\.(19|20)\d{{1,2}}|({_DAY}{_MONTH}|{_MONTH}{_DAY})(19|20)\d\d")
"""Dates whose order is not that of the numbers they look like: 05.2021, 03052021, 05312021, and
10.202, as which October 2020 is written by programs that read it as a number."""
_MONTH_YEAR = re.compile(rf"{_MONTH}\.([0-2]\d|9\d)")
_UNPADDED = re.compile(r"(19|20)\d\d\.([1-9]|1[0-2])")
"""2021.2 and 2021.10, months without a leading zero: as numbers, October is before February."""
_TWO_MONTH, _TWO_DAY = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"


def read_times(column: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of a column as numbers in order, and the rows that have no valid time.

    Cells are numbers, or dates in ISO 8601 such as 2021, 2021-05, 2021-05-03 and
    2021-05-03T14:30:00Z, where a year or a month stands for its first moment. If all cells are
    numbers, their order is numerical, unless they look like dates that end with the year, such as
    05.2021, 05.21, 03052021 and 030521, or like months without a leading zero, such as 2021.2 and
    2021.10, which are not valid.

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
    """Return whether numbers look like dates and have another order than these dates."""
    if cells.str.fullmatch(_UNPADDED).all():  # then those with two digits are 10 to 12
        return bool(cells.str.contains(r"\.\d$").any() and cells.str.contains(r"\.\d\d$").any())
    return _end_with_the_year(cells)


def _end_with_the_year(cells: pd.Series) -> bool:
    """Return whether numbers look like dates that end with the year."""
    years = cells.str.fullmatch(_YEAR_LAST)
    if years.mean() > 0.5 and cells[years].str.contains(r"(?:19|20)\d\d$").any():
        return True
    if cells.str.fullmatch(_MONTH_YEAR).all():
        return True
    if not cells.str.fullmatch(r"\d{5,6}").all():
        return False
    digits = cells.str.zfill(6)  # programs that read numbers drop the first 0
    orders = (rf"{_TWO_DAY}{_TWO_MONTH}\d\d", rf"{_TWO_MONTH}{_TWO_DAY}\d\d")
    if not any(digits.str.fullmatch(order).all() for order in orders):
        return False
    return digits.str[:2].nunique() > digits.str[4:].nunique()  # there are more days than years


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
