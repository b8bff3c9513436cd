"""Parquet files as tables of text."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import (
    ReadOptions,
    format_of,
    open_decompressed,
    rows_of_piece,
)
from molsepnorm.errors import DataError
from molsepnorm.optional import require_package

_BUFFER = 1 << 18  # bytes read ahead of each column, by default a whole row group
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")  # an unnamed index of pandas


def read_parquet(path: Path, name: str, rows: int, _: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a Parquet file in pieces; the index of a row is its number, from 1.

    Integers become text without a point, floats text with the digits needed to read them back (1.0
    is "1"), booleans "true" and "false", durations text such as "1:30:00", which is not a number;
    null and NaN are blank. An unnamed index of pandas is left out.

    Raises:
        ConfigError: pyarrow is not installed.
        DataError: the file is compressed again, damaged, or not Parquet.
    """
    with _opened(path, name) as table:
        start = 1
        for batch in table.iter_batches(rows_of_piece(rows, len(table.schema_arrow.names))):
            names = batch.schema.names
            shown = [i for i, each in enumerate(names) if not _ROW_NUMBERS.fullmatch(each)]
            texts = {i: _texts(batch.column(i)) for i in shown}
            piece = pd.DataFrame(texts, index=range(start, start + len(batch)), dtype=object)
            piece.columns = pd.Index([names[i] for i in shown], dtype=object)
            yield piece
            start += len(batch)


def parquet_layout(path: Path, name: str) -> tuple[list[str], int]:
    """Return the names of the columns of a Parquet file, and its number of rows.

    Raises:
        ConfigError, DataError: as `read_parquet`.
    """
    with _opened(path, name) as table:
        return table.schema_arrow.names, table.metadata.num_rows


def read_parquet_rows(
    path: Path, name: str, start: int, stop: int, columns: Sequence[str]
) -> pd.DataFrame:
    """Return some rows and columns of a Parquet file as `read_parquet` yields them.

    Only row groups that hold these rows are read, a part at a time.

    Args:
        path: the file.
        name: name of the file in errors.
        start, stop: numbers of the first row, from 0, and of the row after the last.
        columns: names of the columns; the columns of the result are in this order.

    Raises:
        ConfigError, DataError: as `read_parquet`; or the file has fewer rows.
    """
    pieces: list[dict[str, list[str]]] = []
    with _opened(path, name) as table:
        groups: list[int] = []
        first = position = 0
        for group in range(table.num_row_groups):
            end = position + table.metadata.row_group(group).num_rows
            if position < stop and end > start:
                first = first if groups else position
                groups.append(group)
            position = end
        position = first
        for batch in table.iter_batches(
            max(1, stop - start), row_groups=groups, columns=[*columns], use_threads=False
        ):
            wanted = batch.slice(max(0, start - position), max(0, stop - max(start, position)))
            position += len(batch)
            if len(wanted):
                pieces.append({each: _texts(wanted.column(each)) for each in columns})
            if position >= stop:
                break
    if position < stop:
        raise DataError(f"{name} has {position:,} rows, and had more when its rows were counted")
    cells = {each: [cell for piece in pieces for cell in piece[each]] for each in columns}
    return pd.DataFrame(cells, index=range(start + 1, stop + 1), columns=[*columns], dtype=object)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    """Open a Parquet file, with clear errors while it is read."""
    pyarrow, parquet = (
        require_package(module, "parquet", f"reading {name}")
        for module in ("pyarrow", "pyarrow.parquet")
    )
    if packing := format_of(path).packing:
        raise DataError(f"{name} is Parquet inside {packing}: decompress it first")
    with open_decompressed(path, name) as file:
        try:
            yield parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise DataError(f"{name} cannot be read as Parquet: {error}") from None


def _texts(column: Any) -> list[str]:
    """Convert an Arrow array to text cells."""
    pyarrow = importlib.import_module("pyarrow")
    compute = importlib.import_module("pyarrow.compute")
    text = None
    if not pyarrow.types.is_duration(column.type):  # a cast would count microseconds
        with suppress(pyarrow.ArrowException):  # lists, structures, bytes
            text = compute.cast(column, pyarrow.string())
    if text is None:
        return ["" if value is None else str(value) for value in column.to_pylist()]
    if pyarrow.types.is_floating(column.type):
        text = compute.if_else(compute.equal(text, "nan"), "", text)
    return compute.fill_null(text, "").to_pylist()
