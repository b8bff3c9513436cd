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
from molsepnorm.data.tables.columns import require_column
from molsepnorm.data.tables.formats import ReadOptions
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


@dataclass(frozen=True)
class ScreenTask:
    """Some rows of a file."""

    source: LibraryFile
    number: int
    """Position among the tasks of the file, from 0."""
    table: pd.DataFrame
    """The rows as `tables.read_chunks` yields them, with the columns of the library."""

    @property
    def name(self) -> str:
        return f"{self.source.number:05}-{self.number:07}"


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

    def tasks(self, rows: int) -> Iterator[ScreenTask]:
        """Yield the tasks, of up to `rows` rows each, in the order of files and rows."""
        for source in self.sources:
            tables = read_chunks(source.path, source.name, rows, self.reading, self.features)
            for number, table in enumerate(tables):
                yield ScreenTask(source, number, table[self.columns])


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
    path = Path(name).absolute()
    with clear_errors(name, "read"):
        about = path.stat()
    columns = tuple(map(str, next(read_chunks(path, name, 1, reading)).columns))
    return LibraryFile(number, name, path, about.st_size, about.st_mtime_ns, columns)
