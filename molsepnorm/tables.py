"""Reading CSV files as text: every cell as it stands, blanks as ""."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.files import clear_errors

__all__ = ["read_csv", "read_csv_chunks", "require_column"]


def read_csv(path: Path) -> pd.DataFrame:
    """A whole CSV file.

    Raises:
        DataError: the file is empty, has no rows, or is no CSV.
        StorageError: it cannot be read.
    """
    return pd.concat(list(read_csv_chunks(path)), ignore_index=True)


def read_csv_chunks(
    source: Path | TextIO, name: str | None = None, rows: int = 8192
) -> Iterator[pd.DataFrame]:
    """A CSV file in pieces of `rows` rows.

    Args:
        source: a path, or an open text stream.
        name: what to call it in errors.
        rows: of each piece but the last.

    Raises:
        DataError: the file is empty, has no rows, or is no CSV.
        StorageError: it cannot be read.
    """
    name = name or str(source)
    try:
        with clear_errors(name, "read"):
            chunks = pd.read_csv(source, dtype=str, keep_default_na=False, chunksize=rows)
            empty = True
            for chunk in chunks:
                empty = empty and not len(chunk)
                if len(chunk):
                    yield chunk
    except pd.errors.EmptyDataError:
        raise DataError(
            f"{name} is empty: a header line and a row per molecule are expected"
        ) from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read as CSV: {str(error).strip()}") from None
    if empty:
        raise DataError(f"{name} has a header but no rows: a row per molecule is expected")


def require_column(columns: Iterable[str], wanted: str, source: Path | str) -> None:
    """Check that a column is there.

    Raises:
        ConfigError: it is not; the message names the nearest.
    """
    columns = list(columns)
    if wanted not in columns:
        raise ConfigError(f"{source} has no column '{wanted}'. {did_you_mean(wanted, columns)}")
