"""Split a table by a column of times: the oldest rows train, the newest ones test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from molsepnorm.errors import counted
from molsepnorm.tasks.inputs import MISSING

_MONTH = r"(0?[1-9]|1[0-2])"
_OPEN_ORDER = re.compile(
    rf"{_MONTH}\.(\d{{3,4}}|[0-2]\d|9\d)|\d{{4}}\.\d{{1,2}}|(0[1-9]|1[0-2])\d\d|\d{{5,7}}"
    r"|(?!(19|20)\d\d)\d{8}"
)
"""Numbers such as 05.2021, 05.21, 2021.10, 0521, 052021 and 03052021, whose order may not be that
of the dates that they stand for."""
_YEAR_FIRST = re.compile(r"(19|20)\d\d(\d\d){0,2}")
"""2021, 202105 and 20210503, whose order is that of the dates if all have the same length."""
NUMBER = "number"
"""The format of times that are numbers and no dates."""


def read_times(
    column: Sequence[str], time_format: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of a column (R,) as numbers in order, float64 with NaN for an empty cell,
    and the rows (int64) whose cell is not empty and not a time.

    Cells are dates of the format (see `time.strptime`), or else numbers, or dates in ISO 8601 such
    as 2021, 2021-05, 2021-05-03 and 2021-05-03T14:30:00Z, where a year or a month stands for its
    first moment. If all cells are numbers, or the format is `number`, their order is numerical; it
    is left open if all look like dates of another order. Dates are microseconds since 1970.
    """
    cells = pd.Series(list(column), dtype=object).str.strip()
    present = ~cells.isin(MISSING).to_numpy()
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    finite = np.isfinite(numbers)
    if time_format == NUMBER:
        return np.where(present & finite, numbers, np.nan), np.flatnonzero(present & ~finite)
    if time_format is None and finite[present].all():
        given = cells[present]
        is_open = given.str.fullmatch(_OPEN_ORDER).all() or (
            given.str.fullmatch(_YEAR_FIRST).all() and given.str.len().nunique() > 1
        )
        if present.any() and is_open:
            return np.full(len(cells), np.nan), np.flatnonzero(present)
        return np.where(present, numbers, np.nan), np.empty(0, dtype=np.int64)
    dates = cells.where(present)
    if time_format is None:
        dates = dates.where(cells.str.match(r"\d"))  # pandas reads "now" as a date
    dates = pd.to_datetime(dates, format=time_format or "ISO8601", errors="coerce", utc=True)
    known = dates.notna().to_numpy()
    times = np.full(len(cells), np.nan)
    times[known] = dates[known].dt.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)
    # cells that are neither come first: they are the reason if only they are not numbers
    bad = np.flatnonzero(present & ~known)
    return times, bad[np.argsort(finite[bad], kind="stable")]


def split_by_time(
    times: np.ndarray, num_train: int, num_val: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of the training, validation and test molecules, from old to new.

    Molecules of the same time stay together in the earlier one of two splits, so every molecule is
    newer than those of the splits before, and ties may raise `num_train` and `num_val`. Times are
    float64 [G], NaN for a molecule that is left out.
    """
    order = np.argsort(times, kind="stable")[: np.count_nonzero(~np.isnan(times))]
    ends = np.array([num_train, num_train + num_val])
    if len(order):
        last = times[order[np.maximum(ends, 1) - 1]]
        ends = np.searchsorted(times[order], last, side="right")
    train, val, test = np.split(order, ends)
    return train, val, test


def describe_times(
    parts: Mapping[str, np.ndarray], column: Sequence[str], name: str, time_format: str | None
) -> str:
    """Return a line with the first and the last time of each split that has rows. `parts` are the
    rows of the table in each split, `column` the cells of every row, and `name` that of the
    column."""
    times, _ = read_times(column, time_format)
    spans = []
    for split, rows in parts.items():
        if not len(rows):
            continue
        first, last = rows[np.argmin(times[rows])], rows[np.argmax(times[rows])]
        spans.append(f"{split} {column[first].strip()} to {column[last].strip()}")
    blank = int(np.isnan(times).sum())
    left_out = f"; {counted(blank, 'row')} without a time left out" if blank else ""
    return f"Split by column '{name}': {', '.join(spans)}{left_out}."
