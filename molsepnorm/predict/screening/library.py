"""The files of a library, and the tasks into which they are cut."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from molsepnorm.data.tables import read_chunks
from molsepnorm.data.tables.columns import (
    names_in_file,
    require_column,
    smiles_column_of,
    with_points,
)
from molsepnorm.data.tables.formats import ReadOptions, kind_of
from molsepnorm.data.tables.parquet import parquet_layout, read_parquet_rows
from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import clear_errors

if TYPE_CHECKING:
    import pandas as pd

_IDENTIFIER = re.compile(r"(?:.*[\W_])?(?:id|name|identifier|title)|idnumber|zincid|chemblid")


@dataclass(frozen=True)
class LibraryFile:
    """A file of the library."""

    number: int
    """Position among the files, from 0."""
    name: str
    """The path as it was given."""
    path: Path
    """The absolute path."""
    size: int
    """In bytes."""
    modified: int
    """Time of the last change in nanoseconds."""
    columns: tuple[str, ...]
    """Names of the columns; that of SMILES has its name in the library."""
    smiles_column: str
    """Name of the column of SMILES in the file."""
    rows: int | None
    """Number of rows; None unless the file is Parquet."""


@dataclass(frozen=True)
class ScreenTask:
    """Some rows of a file."""

    source: LibraryFile
    number: int
    """Position among the tasks of the file, from 0."""
    start: int
    stop: int
    """Numbers of the first row, from 0, and of the row after the last."""
    held: pd.DataFrame | None = None
    """The rows; None if the file is Parquet, whose rows can be read alone."""

    @property
    def name(self) -> str:
        return f"{self.source.number:05}-{self.number:07}"

    def read(self, library: Library) -> pd.DataFrame:
        """Return the rows as `tables.read_chunks` does, with the columns of the library."""
        if self.held is not None:
            return self.held
        source, renamed = self.source, {library.smiles_column: self.source.smiles_column}
        in_file = [renamed.get(name, name) for name in library.columns]
        table = read_parquet_rows(source.path, source.name, self.start, self.stop, in_file)
        table.columns = library.columns
        for name in library.features:
            table[name] = with_points(table[name], library.reading.decimal)
        return table


@dataclass(frozen=True)
class Library:
    """Files with the same columns, as far as they are used."""

    sources: tuple[LibraryFile, ...]
    reading: ReadOptions
    """How the files are written."""
    carried: tuple[str, ...]
    """Columns of the input that are written to the output, that of SMILES among them."""
    features: tuple[str, ...]
    """Columns that the model reads."""

    @property
    def smiles_column(self) -> str:
        """Name of the column of SMILES in the tasks."""
        return self.reading.smiles_column

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([self.smiles_column, *self.carried, *self.features]))

    @property
    def rows(self) -> int | None:
        """Number of rows; None unless all files are Parquet."""
        counts = [source.rows for source in self.sources]
        return None if None in counts else sum(filter(None, counts))

    def tasks(self, rows: int) -> Iterator[ScreenTask]:
        """Yield the tasks, of up to `rows` rows each, in the order of files and rows. A Parquet
        file without rows has a task, whose part has the columns."""
        for source in self.sources:
            if source.rows is not None:
                for number, start in enumerate(range(0, source.rows or 1, rows)):
                    yield ScreenTask(source, number, start, min(start + rows, source.rows))
                continue
            start = 0
            tables = read_chunks(source.path, source.name, rows, self.reading, self.features)
            for number, table in enumerate(tables):
                yield ScreenTask(source, number, start, start + len(table), table[self.columns])
                start += len(table)


def find_files(inputs: Sequence[str]) -> list[str]:
    """Return the files that paths and patterns such as `lib/*.parquet` name, each once.

    The files of a pattern are sorted. A path that exists is no pattern.
    """
    files: dict[str, str] = {}
    for text in map(str, inputs):
        names = [text]
        if not os.path.exists(text) and glob.has_magic(text):
            names = sorted(filter(os.path.isfile, glob.glob(text, recursive=True)))
            if not names:
                raise ConfigError(f"no file matches '{text}': check the folder and the pattern")
        for name in names:
            if not os.path.isfile(name):
                raise ConfigError(
                    f"{name} is not a file: name files, or a pattern in quotation marks such as "
                    "'lib/*.parquet'"
                )
            files.setdefault(os.path.realpath(name), name)
    if not files:
        raise ConfigError("no files are named: give at least one")
    return list(files.values())


def open_library(
    files: Sequence[str],
    reading: ReadOptions,
    columns: Sequence[str] | None,
    features: Sequence[str],
) -> Library:
    """Read the columns of all files, and check that each has those that are used.

    Args:
        columns: columns of the input for the output; by default those of SMILES, and the first
            column that is called like an identifier in all files, such as `id` or `zinc_id`.
    """
    smiles_column = reading.smiles_column
    sources = tuple(_source(number, name, reading) for number, name in enumerate(files))
    for source in sources:
        for column in dict.fromkeys([smiles_column, *(columns or ()), *features]):
            require_column(source.columns, column, source.name)
    if columns is None:
        shared = (
            name
            for name in sources[0].columns
            if _IDENTIFIER.fullmatch(name.lower())
            and all(source.columns.count(name) == 1 for source in sources)
        )
        columns = [*reading.further, *islice(shared, 1)]
    carried = tuple(dict.fromkeys([smiles_column, *columns]))
    return Library(sources, reading, carried, tuple(features))


def _source(number: int, name: str, reading: ReadOptions) -> LibraryFile:
    path, rows, smiles_column = Path(name).absolute(), None, reading.smiles_column
    with clear_errors(name, "read"):
        about = path.stat()
    if kind_of(path) == "parquet":
        names, rows = parquet_layout(path, name)
        in_file = smiles_column_of(names, smiles_column, name)
        names = [smiles_column if each == in_file else each for each in names]
    else:
        first = next(read_chunks(path, name, 1, reading))
        names = [*map(str, first.columns)]
        shown = dict(zip(names, names_in_file(first), strict=True))
        in_file = shown.get(smiles_column, smiles_column)
    stamp = about.st_size, about.st_mtime_ns
    return LibraryFile(number, name, path, *stamp, tuple(names), in_file, rows)
