"""Excel and OpenDocument workbooks (.xlsx, .xlsm, .xls, .xlsb, .ods) as tables of text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.columns import names_smiles
from molsepnorm.data.tables.formats import ReadOptions, header_names
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.files.writing import clear_errors
from molsepnorm.optional import require_package


def read_excel(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a sheet of a workbook in pieces; the index of a row is its number.

    Numbers become text with the digits needed to read them back (1.0 is "1") and the declared
    decimal mark, booleans "true" and "false", dates ISO dates, formulas their stored values. A
    missing or ambiguous sheet is a `ConfigError`, a damaged file or one with a password a
    `DataError`.
    """
    use = f"reading the workbook {name}"
    calamine = require_package("python_calamine", "excel", use, ", or save it as CSV")
    with clear_errors(name, "read"), open(path, "rb") as file:
        try:
            book = calamine.CalamineWorkbook.from_filelike(file)
            table = _sheet(book, name, options)
        except calamine.CalamineError as error:
            raise DataError(
                f"{name} cannot be read as a workbook: {error}. It is damaged, compressed, no "
                "workbook, or has a password: copy it again, save the table as CSV, or end the "
                "name of a text file with .csv"
            ) from None
    for start in range(0, len(table), rows):
        yield table.iloc[start : start + rows].copy()


def _sheet(book: Any, name: str, options: ReadOptions) -> pd.DataFrame:
    """Return the chosen sheet as text, indexed by the numbers of its rows."""
    titles = book.sheet_names
    if options.sheet is not None:
        if options.sheet not in titles:
            raise ConfigError(
                f"{name} has no sheet '{options.sheet}'. {did_you_mean(options.sheet, titles)}"
            )
        titles = [options.sheet]
    tables = {title: _table(book.get_sheet_by_name(title), options) for title in titles}
    wanted = [
        title
        for title, table in tables.items()
        if options.smiles_column in table or any(map(names_smiles, table))
    ]
    if len(wanted) > 1:
        quoted = ", ".join(f"'{title}'" for title in wanted)
        raise ConfigError(
            f"{name} has {len(wanted)} sheets with a column of SMILES ({quoted}): choose one, such "
            f"as --sheet '{wanted[0]}'"
        )
    return tables[(wanted or titles)[0]]


def _table(sheet: Any, options: ReadOptions) -> pd.DataFrame:
    header_row, as_text = options.header_row, partial(_text, mark=options.decimal or ".")
    cells = pd.DataFrame(sheet.to_python(skip_empty_area=False), dtype=object).map(as_text)
    cells.index += 1
    filled = cells.index[(cells != "").any(axis=1)]
    if filled.empty or (header_row or 0) > filled[-1]:
        return pd.DataFrame()
    start = header_row or filled[0]
    names, table = cells.loc[start], cells.loc[start + 1 : filled[-1]]
    table.columns = header_names(names)
    return table.loc[:, ((cells.loc[start:] != "").any()).to_numpy()]


def _text(value: Any, mark: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) < 1e15
        return str(int(value) if is_whole else value).replace(".", mark)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)
