"""Tables of molecules: CSV, TSV, Parquet, workbooks, SDF and SMILES files, optionally compressed.

Every format is read as DataFrames of text cells, "" for blanks. The index of a row is its position
in the file, see `formats.locate`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables import delimited, excel, parquet, sdf
from molsepnorm.data.tables.columns import require_clear_points, with_points, with_smiles
from molsepnorm.data.tables.formats import ReadOptions, as_file, kind_of, row_word
from molsepnorm.errors import DataError

_DEFAULT = ReadOptions()
_READERS = {
    "csv": delimited.read_delimited,
    "tsv": delimited.read_delimited,
    "parquet": parquet.read_parquet,
    "sdf": sdf.read_sdf,
    "smi": delimited.read_smi,
    "xlsx": excel.read_excel,
}


def read_table(path: Path, options: ReadOptions = _DEFAULT) -> pd.DataFrame:
    """Return a whole table; see `read_chunks`."""
    pieces = list(read_chunks(path, options=options))
    table = pd.concat(pieces)
    table.attrs = pieces[0].attrs
    return table


def read_chunks(
    source: Path | TextIO,
    name: str | None = None,
    rows: int = 8192,
    options: ReadOptions = _DEFAULT,
    numbers: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces of up to `rows` rows, fewer in files with thousands of columns.

    All pieces have the columns of the file, in its order; several may have the same name. A
    `DataWarning` names a column of SMILES under another name, and extensions of CXSMILES that are
    not read. The column of SMILES may be missing.

    Args:
        source: a path, or the open text of a CSV. A pipe is copied to a temporary file first.
        name: name of the source in errors.
        numbers: columns that are used as numbers; decimal commas become points.

    Raises:
        ConfigError: a package is not installed, or several columns may be that of SMILES.
        DataError: the file has no rows, is damaged, or does not match its suffix; or points may
            group thousands in one of `numbers`.
        StorageError: the file cannot be read.
    """
    name = name or str(source)
    word, empty = "line", True
    with as_file(source) if isinstance(source, Path) else nullcontext(source) as file:
        if isinstance(file, Path):
            word = row_word(file)
            pieces = _READERS[kind_of(file)](file, name, rows, options)
        else:
            pieces = delimited.read_stream(file, name, rows, options)
        for piece in with_smiles(pieces, name, options.smiles_column):
            unique = piece.columns[~piece.columns.duplicated(keep=False)]
            for column in {*numbers}.intersection(unique):
                require_clear_points(piece, column, options.decimal, name)
                piece[column] = with_points(piece[column], options.decimal)
            if len(piece):
                empty = False
                yield piece
    if empty:
        raise DataError(f"{name} has no molecules: a {word} for each of them is expected")
