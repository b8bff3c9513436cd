"""CSV, TSV and SMILES files."""

from __future__ import annotations

import csv
import re
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
_EXTENSION = re.compile(r"(\S+)[ \t]+(\|[^|]*\|)(?=\s|$)")  # CXSMILES


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
    cell). It is a `DataError` if the file is empty, a row has more cells than the header, or a
    quoted cell does not end, or ends in front of other text.
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


def read_smi(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a SMILES file in pieces; the index of a row is its line number.

    The columns are the SMILES, under `options.smiles_column`, and `name`, the rest of the line. The
    first line is a header if its first word ends in "smiles" or is `options.smiles_column`. Cells
    are separated by tabs if the header has tabs, otherwise by spaces.

    A line that begins with # is a comment, and one that begins with a tab has no SMILES. A blank
    line is a row of blanks. A CXSMILES extension, `|…|`, belongs to the SMILES. Commas in the first
    line, or more cells than in a header with tabs, are a `DataError`.
    """
    smiles_column = options.smiles_column
    with open_text(path, name, options) as text:
        lines = (
            (number, line.rstrip("\r\n"))
            for number, line in enumerate(text, 1)
            if not line.startswith("#")
        )
        first = next(lines, None)
        if first is None:
            return
        tabs = "\t" in first[1]
        words = [word.strip() for word in first[1].split("\t")] if tabs else first[1].split()
        start = words[0] if words else ""
        has_header = start.lower().endswith("smiles") or start == smiles_column
        if "," in "".join(first[1].split()[:1]):
            raise DataError(
                f"{name}, line {first[0]}: cells of a .smi file are separated by spaces or tabs, "
                "not commas: end its name with .csv, and write names of columns, such as smiles, "
                "into the first line"
            )
        columns = words if has_header else [smiles_column, "name"]
        if smiles_column not in columns:
            columns[0] = smiles_column
        table = chain([] if has_header else [first], lines)
        cells = _cells(table, len(columns), tabs and has_header, name)
        yield from pieces_of(cells, columns, rows)


def _cells(
    lines: Iterable[tuple[int, str]], width: int, tabs: bool, name: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbers of lines and their cells, filled with blanks."""
    for number, line in lines:
        extension = ""
        if match := _EXTENSION.match(line.lstrip()) if "|" in line else None:
            line, extension = match[1] + line.lstrip()[match.end() :], f" {match[2]}"
        if tabs:
            cells = line.split("\t")
        elif line.startswith("\t") and width > 1:  # the SMILES is missing
            cells = ["", *line.rstrip().split(None, width - 2)]
        else:
            cells = line.rstrip().split(None, width - 1)
        if len(cells) > width:
            raise DataError(
                f"{name}, line {number}: {len(cells)} cells, separated by tabs, under a header "
                f"with {width}"
            )
        cells += [""] * (width - len(cells))
        cells[0] += extension
        yield number, cells
