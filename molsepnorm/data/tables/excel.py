"""Excel workbooks (.xlsx, .xlsm) as tables of text."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import (
    DEFAULT_SMILES,
    OLD_EXCEL,
    format_of,
    names_smiles,
    open_decompressed,
)
from molsepnorm.errors import DataError, first_of, warn_of_data
from molsepnorm.optional import require_package

_BLOCK = 1 << 20
_FORMULA = re.compile(rb"<([\w.-]+:)?f[\s/>]")
_MERGED = re.compile(rb"<(?:[\w.-]+:)?mergeCell\s+ref=[\"']([A-Z]+\d+:[A-Z]+(\d+))[\"']")
_MAX_TAG = 64  # bytes of the longest start of a formula, or of a range of merged cells
Row = tuple[Any, ...]


def read_excel(path: Path, name: str, rows: int, smiles_column: str) -> Iterator[pd.DataFrame]:
    """Yield a sheet of a workbook in pieces; the index of a row is its number, less 2.

    It is the first sheet with a column of SMILES, or else the first; a warning names it if there
    are several. Merged cells below the header have a warning, since all but the first of them are
    blank. The first row that is not blank is the header. Numbers become text with the digits
    needed to read them back (1.0 is "1"), booleans "true" and "false", dates ISO dates; a formula
    is its stored value. Blank rows at the end are left out; others are rows of blank cells.

    Raises:
        ConfigError: openpyxl is not installed.
        DataError: the file is no workbook, has a password, or is damaged; a row has more cells than
            the header; or a formula has no stored value.
    """
    use = f"reading the Excel workbook {name}"
    openpyxl = require_package("openpyxl", "excel", use, ", or save it as CSV")
    if packing := format_of(path).packing:
        raise DataError(f"{name} is an Excel workbook inside {packing}: decompress it first")
    with open_decompressed(path, name) as file:
        if reason := _no_workbook(file.read(8)):
            raise DataError(f"{name} is not an Excel workbook: {reason}")
        try:
            table = _rows(openpyxl, path, name, smiles_column)
            first = next(table, None)
            if first is None:
                return
            columns = [
                str(cell) if cell is not None else f"Unnamed: {number}"
                for number, cell in enumerate(first[1])
            ]
            while piece := _next(table, rows):
                yield pd.DataFrame(
                    [_cells(row, len(columns), f"{name}, row {number}") for number, row in piece],
                    index=[number - 2 for number, _ in piece],
                    columns=pd.Index(columns, dtype=object),
                    dtype=object,
                )
        except DataError:
            raise
        except Exception as error:  # openpyxl raises errors of many types for damaged files
            raise DataError(
                f"{name} cannot be read as an Excel workbook: {error}. It is damaged or cut off: "
                "copy it again, or save the table as CSV"
            ) from None


def _no_workbook(start: bytes) -> str | None:
    """Return the reason why a file that begins like this is no workbook, or None."""
    if start.startswith(OLD_EXCEL):
        return (
            "it has a password, or is an older .xls file. Save it as .xlsx without a password, or "
            "as CSV"
        )
    if not start.startswith(b"PK"):
        return "if it is text, end its name with .csv"
    return None


def _rows(openpyxl: Any, path: Path, name: str, smiles_column: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a sheet with their numbers, without blank cells at their ends."""
    with warnings.catch_warnings():  # about styles and other parts that are not read
        warnings.simplefilter("ignore", UserWarning)
        books = [_sheets(openpyxl, path, data_only=True)]
        if _has_formulas(path):
            books.append(_sheets(openpyxl, path, data_only=False))
        number = _with_molecules(books[0], smiles_column)
        sheets = [book[number] for book in books]
    titles = [sheet.title for sheet in books[0]]
    if len(titles) > 1:
        warn_of_data(
            f"{name} has {len(titles)} sheets ({', '.join(titles[:5])}"
            f"{', …' if len(titles) > 5 else ''}): '{titles[number]}' is read"
        )
    blank: list[tuple[int, Row]] = []
    started = False
    iterators = [sheet.iter_rows() for sheet in sheets]
    for number, versions in enumerate(zip(*iterators, strict=True), 1):
        row = tuple(cell.value for cell in versions[0])
        for column, (cell, formula) in enumerate(zip(versions[0], versions[-1], strict=True)):
            is_blank = cell.value is None and cell.data_type != "str"  # "str": an empty text
            if is_blank and formula.value is not None:
                raise DataError(
                    f"{name}, row {number}, cell {column + 1} is a formula without a stored value: "
                    "open the workbook in Excel or LibreOffice and save it"
                )
        while row and row[-1] in (None, ""):
            row = row[:-1]
        if row and not started:
            _warn_of_merged(path, name, sheets[0]._worksheet_path, header=number)
        if row:
            yield from blank
            blank, started = [], True
            yield number, row
        elif started:
            blank.append((number, ()))


def _sheets(openpyxl: Any, path: Path, data_only: bool) -> list[Any]:
    sheets = openpyxl.load_workbook(path, read_only=True, data_only=data_only).worksheets
    if not sheets:
        raise ValueError("it has no sheet with cells")
    for sheet in sheets:
        sheet.reset_dimensions()  # some programs write wrong ones, which would cut off rows
    return list(sheets)


def _with_molecules(sheets: Sequence[Any], smiles_column: str) -> int:
    """Return the number of the first sheet whose header has a column of SMILES, or else 0.

    A column that was chosen by name counts more than one with a usual name; the default, `smiles`,
    is one of the usual names.
    """
    rows = (sheet.iter_rows(values_only=True) for sheet in sheets)
    headers = [
        {str(cell) for cell in next((row for row in each if any(row)), ()) if cell is not None}
        for each in rows
    ]
    exact = [number for number, header in enumerate(headers) if smiles_column in header]
    usual = [number for number, header in enumerate(headers) if any(map(names_smiles, header))]
    return next(iter(usual if smiles_column == DEFAULT_SMILES else [*exact, *usual]), 0)


def _has_formulas(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        names = [each for each in archive.namelist() if each.startswith("xl/worksheets/")]
        sheets = [name for name in names if name.endswith(".xml")]
        return any(next(_found(archive, name, _FORMULA), None) for name in sheets)


def _warn_of_merged(path: Path, name: str, entry: str, header: int) -> None:
    """Warn of merged cells below the row of the header; `entry` is the sheet in the file."""
    with zipfile.ZipFile(path) as archive:
        found = {each[1]: int(each[2]) for each in _found(archive, entry, _MERGED)}
    if ranges := [each.decode() for each, last in found.items() if last > header]:
        warn_of_data(
            f"{name} has merged cells ({first_of(ranges, 3)}): only the first cell of a range has "
            "its value, and the others are blank. Unmerge them, and fill in the values that belong "
            "to several rows"
        )


def _found(
    archive: zipfile.ZipFile, entry: str, pattern: re.Pattern[bytes]
) -> Iterator[re.Match[bytes]]:
    """Yield the matches in a file of the archive; those at the end of a block may come twice."""
    with archive.open(entry) as file:
        before = b""
        while block := file.read(_BLOCK):
            yield from pattern.finditer(before + block)
            before = block[-_MAX_TAG:]


def _next(table: Iterator[tuple[int, Row]], rows: int) -> list[tuple[int, Row]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
        return list(islice(table, rows))


def _cells(row: Row, width: int, where: str) -> list[str]:
    if len(row) > width:
        raise DataError(
            f"{where} has {len(row)} cells where {width} are expected: every column needs a cell "
            "in the header"
        )
    return [*map(_text, row), *[""] * (width - len(row))]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        whole = value.isoformat(sep=" ")
        return whole.removesuffix(" 00:00:00")
    return str(value)
