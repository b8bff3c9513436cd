"""Numbers with decimal commas."""

from __future__ import annotations

import re
from typing import Literal

import pandas as pd

from molsepnorm.errors import DataError

_NUMBER = re.compile(r"[\s<>≤≥=~]*[-+]?[\d.,]*\d[\d.,]*(e[-+]?\d+)?\s*", re.IGNORECASE)
_GROUPED = re.compile(r"[\s<>≤≥=~]*[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?\s*")
_SWAPPED = str.maketrans(",.", ".,")


def with_points(cells: pd.Series, decimal: Literal[".", ","] | None) -> pd.Series:
    """Return cells in which numbers with decimal commas have points.

    A point may only group thousands then: in other places it becomes a comma, so that such a cell
    is no number.

    >>> with_points(pd.Series(["0,5", ">1.234,5", "1.5", "2,4-dinitro"]), ",").tolist()
    ['0.5', '>1234.5', '1,5', '2,4-dinitro']

    Args:
        cells: text.
        decimal: the decimal mark of the table; with a point, the cells are returned as they are.
    """
    return cells.map(_with_point) if decimal == "," else cells


def _with_point(cell: str) -> str:
    if not _NUMBER.fullmatch(cell):
        return cell
    return (cell.replace(".", "") if _GROUPED.fullmatch(cell) else cell).translate(_SWAPPED)


def unclear(cell: str, where: str) -> DataError:
    """Return the error for a number such as 1.234 between semicolons."""
    return DataError(
        f"{where}: '{cell}' may be {cell} or {cell.replace('.', '')}, because tables with "
        "semicolons often have decimal commas: say which with --decimal . or --decimal ,"
    )


def unclear_point(cells: pd.Series) -> tuple[int | None, bool]:
    """Return the index of the first number whose points may group thousands, such as 1.234, or
    None; and whether another number has a point that cannot, such as 0.5."""
    numbers = cells.str.fullmatch(_NUMBER) & cells.str.contains(".", regex=False)
    grouped = numbers & cells.str.fullmatch(_GROUPED)
    first = int(grouped.to_numpy().argmax()) if grouped.any() else None
    return first, bool((numbers & ~grouped).any())
