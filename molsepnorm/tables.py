"""Reading CSV files as text: every cell as it stands, blanks as ""."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.files import clear_errors

__all__ = ["line_of", "read_csv", "read_csv_chunks", "require_column"]


def read_csv(path: Path) -> pd.DataFrame:
    """A whole CSV file; see `read_csv_chunks`."""
    return pd.concat(list(read_csv_chunks(path)))


def read_csv_chunks(
    source: Path | TextIO, name: str | None = None, rows: int = 8192
) -> Iterator[pd.DataFrame]:
    """A CSV file in pieces of up to `rows` rows.

    Every line after the header is a row, a blank one a row of blank cells, so that what is written
    beside a row stays beside it; and `line_of` a row's index is its line in the file.

    Args:
        source: a path, or an open text stream.
        name: what to call it in errors.
        rows: of each piece.

    Raises:
        DataError: the file is empty, has no rows, or is no CSV.
        StorageError: it cannot be read.
    """
    name = name or str(source)
    empty = True
    try:
        with clear_errors(name, "read"), warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            chunks = pd.read_csv(
                source,
                dtype=str,
                keep_default_na=False,
                index_col=False,  # otherwise surplus cells would turn the first column into names
                skip_blank_lines=False,
                chunksize=rows,
            )
            for chunk in chunks:
                empty = empty and not len(chunk)
                if len(chunk):
                    yield chunk.fillna("")
    except pd.errors.EmptyDataError:
        raise DataError(
            f"{name} is empty: a header line and a row per molecule are expected"
        ) from None
    except pd.errors.ParserWarning:
        raise DataError(
            f"{name} cannot be read as CSV: rows have more cells than the header has names. Remove "
            "the commas at the ends of lines, or complete the header"
        ) from None
    except (pd.errors.ParserError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise DataError(f"{name} cannot be read as CSV: {str(error).strip()}") from None
    if empty:
        raise DataError(f"{name} has a header but no rows: a row per molecule is expected")


def line_of(index: int) -> int:
    """The line of the file, counted from 1, of the row with this index."""
    return int(index) + 2


def require_column(columns: Iterable[str], wanted: str, source: Path | str) -> None:
    """Check that a column is there.

    Raises:
        ConfigError: it is not; the message names the nearest.
    """
    columns = list(columns)
    if wanted not in columns:
        raise ConfigError(f"{source} has no column '{wanted}'. {did_you_mean(wanted, columns)}")
