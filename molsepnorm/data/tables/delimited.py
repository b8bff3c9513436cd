"""CSV and TSV files: a header line, and cells separated by commas, tabs or semicolons."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from molsepnorm.data.tables.compression import as_text, open_decompressed
from molsepnorm.errors import DataError

__all__ = ["read_csv", "read_stream", "read_tsv"]

_COMMA_FIRST = ",\t;"
_TAB_FIRST = "\t,;"
_LONGEST_HEADER = 1 << 20  # characters
_NUMBERED = re.compile(r"\.\d+$")


def read_csv(path: Path, name: str, rows: int, smiles_column: str) -> Iterator[pd.DataFrame]:
    """Yield a table separated by commas or, depending on the header, tabs or semicolons."""
    with open_decompressed(path, name) as file:
        yield from read_stream(as_text(file), name, rows, smiles_column)


def read_tsv(path: Path, name: str, rows: int, smiles_column: str) -> Iterator[pd.DataFrame]:
    """Yield a table separated by tabs or, depending on the header, commas or semicolons."""
    with open_decompressed(path, name) as file:
        yield from read_stream(as_text(file), name, rows, smiles_column, _TAB_FIRST)


def read_stream(
    stream: TextIO, name: str, rows: int, smiles_column: str, separators: str = _COMMA_FIRST
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces; the index of a row is its first line in the file, less 2.

    Every line after the header is a row; a blank line is a row of blank cells, so that predictions
    can be written beside the rows. A quoted cell may hold separators, quotes and line breaks. Rows
    shorter than the header are filled with blanks. Several columns may have the same name; a column
    without a name is called "Unnamed: 0" after its number.

    Args:
        stream: UTF-8 text.
        name: name of the stream in errors.
        rows: maximum number of rows of a piece.
        smiles_column: the separator is the first that makes this a column of the header.
        separators: possible separators; by default the first that occurs in the header is used.

    Raises:
        DataError: the file is empty or not UTF-8, or a row has more cells than the header.
    """
    text = _Watched(stream)
    try:
        separator = _separator(text.header(), smiles_column, separators)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            pieces = pd.read_csv(
                text,
                sep=separator,
                dtype=object,
                na_filter=False,
                index_col=False,  # otherwise surplus cells would turn the first column into names
                skip_blank_lines=False,
                chunksize=rows,
            )
            drift = -1
            names = None
            for piece in pieces:
                if names is None:
                    names = _names_of(piece.columns, text, separator)
                piece.columns = names
                if text.quotes:  # else no cell can hold a line break
                    if drift < 0:
                        drift = sum(map(_line_breaks, piece.columns))
                    drift = _number_by_lines(piece, drift)
                yield piece
    except pd.errors.EmptyDataError:
        raise DataError(
            f"{name} is empty: a header line and a row per molecule are expected"
        ) from None
    except pd.errors.ParserWarning:
        raise DataError(
            f"{name} cannot be read as CSV: rows have more cells than the header has names. Remove "
            f"the {_NAMES[separator]} at the ends of lines, or complete the header"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{name} cannot be read as CSV: {error}. Save it as UTF-8") from None
    except pd.errors.ParserError as error:
        reason = _reason(str(error).strip(), separator, text.quotes)
        raise DataError(f"{name} cannot be read as CSV: {reason}") from None


_TOO_LONG = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")
_UNCLOSED = re.compile(r"EOF inside string starting at row (\d+)")
_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons"}


def _reason(error: str, separator: str, quotes: bool) -> str:
    """Rephrase an error of pandas."""
    besides = ", not counting line breaks within cells," if quotes else ""
    if found := _TOO_LONG.search(error):
        wanted, line, cells = found.groups()
        return (
            f"line {line}{besides} has {cells} cells where {wanted} are expected. Cells that hold "
            f"{_NAMES[separator]} must be quoted"
        )
    if found := _UNCLOSED.search(error):
        return f"in line {int(found[1]) + 1}{besides} a quotation mark opens a cell that never ends"
    return error


class _Watched(io.TextIOBase):
    """A stream whose header can be read ahead, and that records whether it had quotation marks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ahead = ""
        self.start = ""
        """Lines of the header, several if a name has line breaks, and perhaps more."""
        self.quotes = False

    def header(self) -> str:
        """The first line."""
        first = line = self._ahead = self._stream.readline(_LONGEST_HEADER)
        while line and self._ahead.count('"') % 2 and len(self._ahead) < _LONGEST_HEADER:
            line = self._stream.readline(_LONGEST_HEADER)
            self._ahead += line
        self.start = self._ahead.removeprefix("\ufeff")
        return first.removeprefix("\ufeff").rstrip("\r\n")

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> str:
        text, self._ahead = self._ahead or self._stream.read(size or -1), ""
        self.quotes = self.quotes or '"' in text
        return text


def _names_of(columns: pd.Index, text: _Watched, separator: str) -> pd.Index:
    """Return the column names of the file; pandas numbers duplicates, y.1, y.2, …"""
    if not any(_NUMBERED.search(name) for name in columns):
        return columns
    options = {"sep": separator, "dtype": object, "na_filter": False, "header": None, "nrows": 1}
    (names,) = pd.read_csv(io.StringIO(text.start), **options).to_numpy()
    return pd.Index(
        [name or other for name, other in zip(names, columns, strict=True)], dtype=object
    )


def _separator(header: str, smiles_column: str, separators: str) -> str:
    for separator in separators:
        if smiles_column in (cell.strip('"') for cell in header.split(separator)):
            return separator
    return next((each for each in separators if each in header), separators[0])


def _number_by_lines(piece: pd.DataFrame, drift: int) -> int:
    """Add the line breaks within cells, and `drift` earlier ones, to the index."""
    inside = np.zeros(len(piece), dtype=np.int64)
    for number in range(piece.shape[1]):
        cells = piece.iloc[:, number].tolist()
        if _line_breaks("".join(cells)):
            inside += [_line_breaks(cell) for cell in cells]
    total = int(inside.sum())
    if drift or total:
        piece.index = piece.index + drift + np.cumsum(inside) - inside
    return drift + total


def _line_breaks(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
