"""CSV and TSV files: a header line, and cells separated by commas, tabs or semicolons."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables.columns import SEPARATOR, names_smiles
from molsepnorm.data.tables.formats import ReadOptions, header_names, kind_of, open_text, pieces_of
from molsepnorm.errors import DataError

_MAX_CELL = 1 << 24  # characters; a quotation mark that is never closed would read the whole file
_SEPARATORS = ",\t;"


def read_delimited(
    path: Path, name: str, rows: int, options: ReadOptions
) -> Iterator[pd.DataFrame]:
    """Yield a CSV or TSV file in pieces; see `read_stream`."""
    separators = "\t,;" if kind_of(path) == "tsv" else _SEPARATORS
    with open_text(path, name, options) as text:
        yield from read_stream(text, name, rows, options, separators)


def read_stream(
    stream: TextIO,
    name: str,
    rows: int,
    options: ReadOptions,
    separators: Iterable[str] = _SEPARATORS,
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces; the index of a row is its first line in the file.

    A blank line is a row of blank cells. Short rows are filled with blanks. Blank cells beyond the
    header are dropped, but not between commas, which may group thousands (1,250 before an empty
    cell). It is a `DataError` if the file is empty, a row has more other cells than the header, or
    a quoted cell does not end, or ends in front of other text.
    """
    skipped = (options.header_row or 1) - 1
    header = "".join(islice(stream, skipped, skipped + 1)).removeprefix("\ufeff")
    if not header:
        raise DataError(f"{name} is empty: a header line and a row per molecule are expected")
    separator = _separator(header.rstrip("\r\n"), options.smiles_column, separators)
    table = _numbered_rows(chain([header], stream), separator, skipped, name)
    _, names = next(table)
    for piece in pieces_of(table, header_names(names), rows):
        piece.attrs[SEPARATOR] = separator
        yield piece


def _numbered_rows(
    lines: Iterable[str], separator: str, skipped: int, name: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows as long as the first one, the header, with the number of their first line;
    `skipped` lines come before them."""
    csv.field_size_limit(max(_MAX_CELL, csv.field_size_limit()))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    first, width = skipped + 1, 0
    try:
        for cells in reader:
            width = width or max(len(cells), 1)
            if len(cells) > width and (separator == "," or any(cells[width:])):
                raise DataError(
                    f"{name} cannot be read as CSV: line {first} has {len(cells)} cells where "
                    f"{width} are expected. A cell that holds {separator!r} must be quoted, and "
                    "every column needs a cell in the header. If the header is in a later line: "
                    "--header-row 2"
                )
            yield first, (cells + [""] * (width - len(cells)))[:width]
            first = skipped + reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name} cannot be read as CSV: lines {first} to {skipped + reader.line_num}: {error}. "
            "A quotation mark at the start of a cell quotes the whole cell: remove it, or close it "
            "at the end of the cell and double the marks in between"
        ) from None


def _separator(header: str, smiles_column: str, separators: Iterable[str]) -> str:
    """Return the separator that gives the column of SMILES the shortest name, or else the first one
    in the header."""

    def rank(separator: str) -> tuple[int, bool]:
        cells = [cell.strip('"') for cell in header.split(separator)]
        named = [len(each) for each in cells if each == smiles_column or names_smiles(each)]
        return min(named, default=len(header) + 1), separator not in header

    return min(separators, key=rank)
