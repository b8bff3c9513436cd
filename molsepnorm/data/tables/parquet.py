"""Parquet files as tables of text."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import format_of, need_pyarrow, open_decompressed
from molsepnorm.errors import DataError

__all__ = ["read_parquet"]

_BUFFER = 1 << 18  # bytes read ahead of each column, by default a whole row group
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")  # an unnamed index of pandas


def read_parquet(path: Path, name: str, rows: int, smiles_column: str) -> Iterator[pd.DataFrame]:
    """Yield a Parquet file in pieces; the index of a row is its number, from 0.

    Integers become text without a point, floats text with the digits needed to read them back (1.0
    is "1"), booleans "true" and "false"; null and NaN are blank. An unnamed index of pandas is left
    out. `smiles_column` has no effect.

    Raises:
        ConfigError: pyarrow is not installed.
        DataError: the file is compressed again, damaged, or not Parquet.
    """
    pyarrow, parquet = need_pyarrow(name), need_pyarrow(name, "pyarrow.parquet")
    if packing := format_of(path).packing:
        raise DataError(f"{name} is Parquet inside {packing}: decompress it first")
    with open_decompressed(path, name) as file:
        try:
            start = 0
            table = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
            for batch in table.iter_batches(rows):
                names = batch.schema.names
                shown = [i for i, each in enumerate(names) if not _ROW_NUMBERS.fullmatch(each)]
                texts = {i: _texts(batch.column(i), pyarrow) for i in shown}
                index = range(start, start + len(batch))
                piece = pd.DataFrame(texts, index=index, dtype=object)
                piece.columns = pd.Index([names[i] for i in shown], dtype=object)
                yield piece
                start += len(batch)
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise DataError(f"{name} cannot be read as Parquet: {error}") from None


def _texts(column: Any, pyarrow: Any) -> list[str]:
    """Convert an Arrow array to text cells."""
    compute = importlib.import_module("pyarrow.compute")
    try:
        text = compute.cast(column, pyarrow.string())
    except pyarrow.ArrowException:  # lists, structures, bytes
        return ["" if value is None else str(value) for value in column.to_pylist()]
    if pyarrow.types.is_floating(column.type):
        text = compute.if_else(compute.equal(text, "nan"), "", text)
    return compute.fill_null(text, "").to_pylist()
