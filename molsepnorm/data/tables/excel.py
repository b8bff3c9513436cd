"""Excel and OpenDocument workbooks (.xlsx, .xlsm, .xls, .xlsb, .ods) as tables of text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import (
    ReadOptions,
    format_of,
    header_names,
    names_smiles,
    open_decompressed,
)
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.optional import require_package


def read_excel(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a sheet of a workbook in pieces; the index of a row is its number.

    It is `options.sheet`, or else the only sheet, or the only one with a column of SMILES. The
    first row that is not blank, or the row `options.header_row`, is the header. Numbers become text
    with the digits needed to read them back (1.0 is "1"), booleans "true" and "false", dates ISO
    dates; a formula is its stored value. Blank rows at the end are left out; others are rows of
    blank cells.

    Raises:
        ConfigError: python-calamine is not installed; there is no such sheet; or several may be
            meant.
        DataError: the file is no workbook, has a password, or is damaged; or a row has more cells
            than the header.
    """
    use = f"reading the workbook {name}"
    calamine = require_package("python_calamine", "excel", use, ", or save it as CSV")
    if packing := format_of(path).packing:
        raise DataError(f"{name} is a workbook inside {packing}: decompress it first")
    with open_decompressed(path, name) as file:
        try:
            book = calamine.CalamineWorkbook.from_filelike(file)
            table = _table(book, name, options)
        except calamine.PasswordError:
            raise DataError(f"{name} has a password: save it without one, or as CSV") from None
        except calamine.CalamineError as error:
            raise DataError(
                f"{name} cannot be read as a workbook: {error}. It is damaged, or no workbook: "
                "copy it again, save the table as CSV, or end the name of a text file with .csv"
            ) from None
    first = next(table, None)
    if first is None:
        return
    columns = header_names([_text(cell) for cell in first[1]])
    while piece := list(islice(table, rows)):
        yield pd.DataFrame(
            [_cells(row, len(columns), f"{name}, row {number}") for number, row in piece],
            index=[number for number, _ in piece],
            columns=columns,
            dtype=object,
        )


def _table(book: Any, name: str, options: ReadOptions) -> Iterator[tuple[int, list[Any]]]:
    """Yield the header and the rows of the sheet, with numbers and without blanks at their ends."""
    number = _sheet(book, name, options)
    cells = book.get_sheet_by_index(number).to_python(skip_empty_area=False)
    rows = [(place, _without_blank_end(row)) for place, row in enumerate(cells, 1)]
    while rows and not rows[-1][1]:
        rows.pop()
    start = options.header_row
    if start is None:
        start = next((place for place, row in rows if row), 1)
    return iter(rows[start - 1 :])


def _sheet(book: Any, name: str, options: ReadOptions) -> int:
    titles = book.sheet_names
    if options.sheet is not None:
        if options.sheet not in titles:
            raise ConfigError(
                f"{name} has no sheet '{options.sheet}'. {did_you_mean(options.sheet, titles)}"
            )
        return int(titles.index(options.sheet))
    wanted = []
    for number in range(len(titles)) if len(titles) > 1 else ():
        # with blank rows only if the header is counted from the first
        rows = book.get_sheet_by_index(number).to_python(
            skip_empty_area=options.header_row is None, nrows=options.header_row or 1
        )
        header = {_text(cell) for row in rows[-1:] for cell in row}
        if options.smiles_column in header or any(map(names_smiles, header)):
            wanted.append(number)
    if len(wanted) > 1:
        found = ", ".join(f"'{titles[number]}'" for number in wanted)
        raise ConfigError(
            f"{name} has {len(wanted)} sheets with a column of SMILES ({found}): choose one, such "
            f"as --sheet '{titles[wanted[0]]}'"
        )
    return wanted[0] if wanted else 0


def _without_blank_end(row: list[Any]) -> list[Any]:
    while row and row[-1] == "":
        row.pop()
    return row


def _cells(row: list[Any], width: int, where: str) -> list[str]:
    if len(row) > width:
        raise DataError(
            f"{where} has {len(row)} cells where {width} are expected: every column needs a cell "
            "in the header"
        )
    return [*map(_text, row), *[""] * (width - len(row))]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)
