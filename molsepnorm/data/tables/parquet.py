"""Parquet files as tables of text."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import ReadOptions, rows_of_piece
from molsepnorm.errors import DataError
from molsepnorm.files.writing import clear_errors
from molsepnorm.optional import require_package

_BUFFER = 1 << 18  # bytes read ahead of each column, by default a whole row group
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")  # an unnamed index of pandas


def read_parquet(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a Parquet file in pieces; the index of a row is its number, from 1.

    Cells are text as in workbooks, durations such as "1:30:00"; null and NaN are blank. An unnamed
    index of pandas is left out. A file that is damaged or compressed again is a `DataError`.
    """
    with _opened(path, name) as table:
        names = table.schema_arrow.names
        shown = [i for i, column in enumerate(names) if not _ROW_NUMBERS.fullmatch(column)]
        first = 1
        for batch in table.iter_batches(rows_of_piece(rows, len(names))):
            yield _frame(batch.select(shown), first, options.decimal or ".")
            first += len(batch)


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    """Open a Parquet file, with clear errors while it is read."""
    pyarrow, parquet = (
        require_package(module, "parquet", f"reading {name}")
        for module in ("pyarrow", "pyarrow.parquet")
    )
    with clear_errors(name, "read"), open(path, "rb") as file:
        try:
            yield parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise DataError(
                f"{name} cannot be read as Parquet: {error}. If it is compressed, decompress it"
            ) from None


def _frame(batch: Any, first: int, mark: str) -> pd.DataFrame:
    """Return a record batch as text, indexed by the numbers of its rows from `first`."""
    texts = {number: _texts(column, mark) for number, column in enumerate(batch.columns)}
    frame = pd.DataFrame(texts, index=range(first, first + len(batch)), dtype=object)
    frame.columns = pd.Index(batch.schema.names, dtype=object)
    return frame


def _texts(column: Any, mark: str) -> list[str]:
    pyarrow = importlib.import_module("pyarrow")
    compute = importlib.import_module("pyarrow.compute")
    if not pyarrow.types.is_duration(column.type):  # a cast would count microseconds
        with suppress(pyarrow.ArrowException):  # lists, structures, bytes
            text = compute.cast(column, pyarrow.string())
            if pyarrow.types.is_floating(column.type):
                text = compute.if_else(compute.equal(text, "nan"), "", text)
            if pyarrow.types.is_floating(column.type) or pyarrow.types.is_decimal(column.type):
                text = compute.replace_substring(text, ".", mark)
            return compute.fill_null(text, "").to_pylist()
    return ["" if value is None else str(value) for value in column.to_pylist()]
