"""`read_chunks`: any table in pieces; `read_table`: the same, whole."""

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
    "csv": delimited.read_csv,
    "tsv": delimited.read_tsv,
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
    """A whole table; see `read_chunks`."""
    with as_file(path) as file:
        return pd.concat(list(read_chunks(file, str(path), smiles_column=smiles_column)))


def read_chunks(
    source: Path | TextIO, name: str | None = None, rows: int = 8192, smiles_column: str = "smiles"
) -> Iterator[pd.DataFrame]:
    """A table in pieces of up to `rows` rows, in memory that does not grow with the file.

    All cells are texts, blanks "". All pieces have the same columns, in the order and with the
    names that they have in the file; several may have the same name. `locate` says of a row's
    index where in the file the row stands. What is read, by the file's suffix:

    - CSV (.csv, an unknown suffix, a stream) and TSV (.tsv, .tab, .txt): see `delimited`.
    - Parquet (.parquet, .pq): see `parquet`.
    - SDF (.sdf, .sd), its structures written as SMILES: see `sdf`.
    - SMILES with names (.smi, .smiles, .ism, .cxsmiles): see `smi`.

    All but Parquet may be packed (.gz, .bz2, .xz, .zip, .zst).

    Args:
        source: a path, or an open text stream. Of a pipe, the formats that cannot be read from the
            first byte to the last (Parquet, SDF, zip) are copied to a temporary file first.
        name: what to call it in errors.
        rows: of each piece.
        smiles_column: the column of SMILES. An SDF's structures, and the first column of a .smi
            file, get this name; of a CSV it helps to tell by what the cells are separated. That
            it is there is for the caller to check, with `require_column`.

    Raises:
        ConfigError: pyarrow is needed, and not installed.
        DataError: the file is empty, has no rows, is damaged, or is not what its suffix says.
        StorageError: it cannot be read.
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
        ConfigError: there is none, and the message has the nearest name; or there are several.
    """
    columns = list(columns)
    if wanted not in columns:
        raise ConfigError(f"{source} has no column '{wanted}'. {did_you_mean(wanted, columns)}")
    if once and columns.count(wanted) > 1:
        places = [str(place) for place, name in enumerate(columns, 1) if name == wanted]
        raise ConfigError(
            f"{source} has {len(places)} columns called '{wanted}' (columns "
            f"{', '.join(places[:-1])} and {places[-1]}), and it must be clear which one is meant: "
            "rename or remove the others"
        )
