"""CSV and TSV files: a header line, and cells separated by commas, tabs or semicolons."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables.formats import (
    ReadOptions,
    as_text,
    format_of,
    header_names,
    names_smiles,
    not_decoded,
    open_decompressed,
    rows_of_piece,
)
from molsepnorm.errors import DataError

_MAX_CELL = 1 << 24  # characters; a quotation mark that is never closed would read the whole file
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}
_SEPARATOR = "separator"  # attribute of a DataFrame
_NAMED_SEPARATOR = re.compile(r'"?sep=([,;\t])"?\s*', re.IGNORECASE)


def read_delimited(
    path: Path, name: str, rows: int, options: ReadOptions
) -> Iterator[pd.DataFrame]:
    """Yield a CSV or TSV file in pieces; see `read_stream`."""
    separators = "\t,;" if format_of(path).kind == "tsv" else _SEPARATORS
    with open_decompressed(path, name) as file:
        yield from read_stream(as_text(file, name, options), name, rows, options, separators)


def read_stream(
    stream: TextIO,
    name: str,
    rows: int,
    options: ReadOptions,
    separators: Iterable[str] = _SEPARATORS,
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces; the index of a row is its first line in the file.

    Every line after the header is a row; a blank line is a row of blank cells, so that predictions
    can be written beside the rows. A quoted cell may hold separators, quotes and line breaks. Rows
    shorter than the header are filled with blanks; blank cells beyond the header are dropped, but
    not beside commas, which may group thousands (1,250 in front of an empty cell). Several columns
    may have the same name; a column without a name is called "Unnamed: 0" after its number. A first
    line such as sep=;, which Excel reads, names the separator and is skipped.

    Args:
        stream: the text.
        name: name of the stream in errors.
        rows: maximum number of rows of a piece.
        options: the header is in the line `header_row`, and the separator is the first that makes
            `smiles_column` a column of it.
        separators: possible separators; by default the first that occurs in the header is used.

    Raises:
        DataError: the file is empty or not text, a row has more cells than the header, or a quoted
            cell with line breaks ends in front of other text.
    """
    try:
        skipped = (options.header_row or 1) - 1
        header = "".join([*islice(stream, skipped, skipped + 1)]).removeprefix("\ufeff")
        if named := _NAMED_SEPARATOR.fullmatch(header):
            separators, header, skipped = named[1], stream.readline(), skipped + 1
        if not header:
            raise DataError(f"{name} is empty: a header line and a row per molecule are expected")
        separator = _separator(header.rstrip("\r\n"), options.smiles_column, separators)
        table = _numbered_rows(chain([header], stream), separator, skipped)
        columns = header_names(next(table)[1] or [""])
        width = len(columns)
        rows = rows_of_piece(rows, width)
        while piece := list(islice(table, rows)):
            for line, cells in piece:
                if len(cells) > width and (separator == "," or any(cells[width:])):
                    raise DataError(
                        f"{name} cannot be read as CSV: line {line} has {len(cells)} cells where "
                        f"{width} are expected. Cells that hold {_SEPARATORS[separator]} must be "
                        "quoted, and every column needs a cell in the header. If the header is in "
                        "a later line: --header-row 2"
                    )
                if len(cells) != width:
                    cells[width:] = [""] * (width - len(cells))
            frame = pd.DataFrame(
                [cells for _, cells in piece],
                index=[line for line, _ in piece],
                columns=columns,
                dtype=object,
            )
            frame.attrs[_SEPARATOR] = separator
            yield frame
    except csv.Error as error:
        raise DataError(f"{name} cannot be read as CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise not_decoded(name, error) from None


def separated_by(piece: pd.DataFrame) -> str | None:
    """Return what separates the cells of the file that a piece was read from; None if nothing."""
    return piece.attrs.get(_SEPARATOR)


def _numbered_rows(
    lines: Iterable[str], separator: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the number of their first line, after some lines that are skipped."""
    at_end = False
    own: list[str] = []  # the lines of the row

    def watched() -> Iterator[str]:
        nonlocal at_end
        for line in lines:
            own.append(line)
            yield line
        at_end = True

    csv.field_size_limit(max(_MAX_CELL, csv.field_size_limit()))
    reader = csv.reader(watched(), delimiter=separator)
    first = skipped + 1
    try:
        for cells in reader:
            if at_end:  # otherwise the last row ends with its line
                raise csv.Error("unexpected end of data")
            if len(own) > 1:
                _require_closed(own, first, separator)
            own.clear()
            yield first, cells
            first = skipped + reader.line_num + 1
    except csv.Error as error:
        message = f"the row that begins in line {first}: {error}"
        if at_end or "field limit" in str(error):
            message = f"in line {first} a quotation mark opens a cell that never ends"
        raise csv.Error(message) from None


def _require_closed(lines: list[str], first: int, separator: str) -> None:
    """Check that no quoted cell of a row ends in front of other text, as after a stray mark."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for _ in reader:
            pass
    except csv.Error:
        raise csv.Error(
            f"a quotation mark opens a cell that ends in line {first + reader.line_num - 1} in "
            "front of other text. Close the quotation mark in its line, or remove it"
        ) from None


def _separator(header: str, smiles_column: str, separators: Iterable[str]) -> str:
    """Return the separator that makes a column of SMILES of the header, with the shortest name."""
    found = {}
    for separator in separators:
        cells = [cell.strip('"') for cell in header.split(separator)]
        named = [len(each) for each in cells if each == smiles_column or names_smiles(each)]
        if named:
            found[separator] = min(named)
    if found:
        return min(found, key=lambda each: found[each])
    return next((each for each in separators if each in header), next(iter(separators)))
