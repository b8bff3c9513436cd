"""`read_chunks` and `read_table`: any table, in pieces or as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables import delimited, parquet, sdf, smi
from molsepnorm.data.tables.formats import Format, Kind, format_of
from molsepnorm.data.tables.streams import as_file
from molsepnorm.errors import ConfigError, DataError, did_you_mean

__all__ = ["read_chunks", "read_table", "require_column"]

_READERS = {
    "csv": delimited.read_delimited,
    "tsv": delimited.read_delimited,
    "parquet": parquet.read_parquet,
    "sdf": sdf.read_sdf,
    "smi": smi.read_smi,
}
_EMPTY: dict[Kind, str] = {
    "csv": "has a header but no rows: a row per molecule is expected",
    "tsv": "has a header but no rows: a row per molecule is expected",
    "parquet": "has no rows: a row per molecule is expected",
    "sdf": "has no records: a record per molecule is expected",
    "smi": "has no molecules: a line per molecule is expected",
}


def read_table(path: Path, smiles_column: str = "smiles") -> pd.DataFrame:
    """Return a whole table; see `read_chunks`."""
    with as_file(path) as file:
        return pd.concat(list(read_chunks(file, str(path), smiles_column=smiles_column)))


def read_chunks(
    source: Path | TextIO, name: str | None = None, rows: int = 8192, smiles_column: str = "smiles"
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces of up to `rows` rows, in memory that does not grow with the file.

    All cells are text, "" if blank. All pieces have the columns of the file, in its order; several
    may have the same name. `locate` converts the index of a row to its position in the file. The
    suffix of the file names the format:

    - CSV (.csv, an unknown suffix, a stream) and TSV (.tsv, .tab, .txt): see `delimited`.
    - Parquet (.parquet, .pq): see `parquet`.
    - SDF (.sdf, .sd), with structures converted to SMILES: see `sdf`.
    - SMILES with names (.smi, .smiles, .ism, .cxsmiles): see `smi`.

    All but Parquet may be compressed (.gz, .bz2, .xz, .zip, .zst).

    Args:
        source: a path, or an open text stream. A pipe is copied to a temporary file first if its
            format cannot be read sequentially (Parquet, SDF, zip).
        name: name of the source in errors.
        rows: maximum number of rows of a piece.
        smiles_column: the column of SMILES: the name given to the structures of an SDF and to the
            first column of a .smi file, and a hint for the separator of a CSV. Callers check that
            it exists, with `require_column`.

    Raises:
        ConfigError: pyarrow is needed, and not installed.
        DataError: the file is empty, has no rows, is damaged, or does not match its suffix.
        StorageError: the file cannot be read.
    """
    name = name or str(source)
    kind: Kind = "csv"
    empty = True
    seeks = isinstance(source, Path) and _seeks(format_of(source))
    with as_file(source) if isinstance(source, Path) and seeks else nullcontext(source) as file:
        if isinstance(file, Path):
            kind = format_of(file).kind
            chunks = _READERS[kind](file, name, rows, smiles_column)
        else:
            chunks = delimited.read_stream(file, name, rows, smiles_column)
        for chunk in chunks:
            if len(chunk):
                empty = False
                yield chunk
    if empty:
        raise DataError(f"{name} {_EMPTY[kind]}")


def _seeks(format_: Format) -> bool:
    """Return whether such a file cannot be read sequentially."""
    return format_.kind in ("parquet", "sdf") or format_.packing == "zip"


def require_column(
    columns: Iterable[str], wanted: str, source: Path | str, *, once: bool = True
) -> None:
    """Check that there is a column of this name, and with `once` that there is only one.

    Raises:
        ConfigError: there is none, in which case the message has the nearest name, or several.
    """
    columns = list(columns)
    if wanted not in columns:
        raise ConfigError(f"{source} has no column '{wanted}'. {did_you_mean(wanted, columns)}")
    if once and columns.count(wanted) > 1:
        numbers = [str(number) for number, name in enumerate(columns, 1) if name == wanted]
        raise ConfigError(
            f"{source} has {len(numbers)} columns called '{wanted}' (columns "
            f"{', '.join(numbers[:-1])} and {numbers[-1]}), and one is needed: rename or remove "
            "the others"
        )
