"""Tables with predictions or embeddings: `predict_rows` and `embed_rows`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TextIO

import pandas as pd

from molsepnorm.data.tables.columns import names_in_file, require_column
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.tables import check_embeddings_output, check_output
from molsepnorm.molecules.featurize.further import first_molecule
from molsepnorm.predict.encode import Row, require_feature_columns
from molsepnorm.predict.inference import Embeddings
from molsepnorm.predict.output import open_table
from molsepnorm.predict.predictor import Predictor

ERROR = "error"
"""Name of the column with the reasons why rows failed."""

_ALL_DIGITS = 9  # of float32
_CHANNEL_DIGITS = 6  # of embeddings in a CSV
_EMBEDDING, _ATOMS = "embedding", "atom_embeddings"


def predict_rows(
    predictor: Predictor,
    table: TableRows,
    out: Path | TextIO,
    *,
    digits: int | None = None,
    overwrite: bool = False,
) -> tuple[int, int]:
    """Write a table with predictions, keeping its rows, their order and all columns.

    The new columns are those of `Predictor.predicted`.

    Args:
        out: the file, whose name chooses the format (see `output.open_table`), or an open text file
            for CSV.
        digits: significant digits of numbers; by default six, or more for a target whose values
            differ little for their size (`Target.digits`), and in Parquet all nine.
        overwrite: replace columns of the table that have the name of a new column.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: the model has no targets; the column of SMILES or a feature column is missing;
            or the table has one of the new columns, and `overwrite` is false.
        DataError: a row failed, and the table's `on_invalid` is fail.
        StorageError: `out` cannot be written.
    """
    predictor.model.require_targets()
    columns = predictor.columns
    table.check(predictor.model.inputs.names, [*columns, ERROR], overwrite)
    if digits is None:
        is_parquet = isinstance(out, Path) and check_output(out) == ".parquet"
        digits = _ALL_DIGITS if is_parquet else predictor.model.task.digits
    parts = predictor.predicted(iter(table))
    numbers = {name for name, dtype in columns.items() if dtype.kind == "f"}
    written = ((rows, values[ERROR], cells(values, digits)) for rows, values in parts)
    return _write(out, table, written, [*columns], numbers)


def embed_rows(
    predictor: Predictor, table: TableRows, output: Path | str, *, atoms: bool = False
) -> tuple[int, int]:
    """Write a table with embeddings, keeping its rows, their order and all columns.

    The extension of the file chooses the format.

    - Parquet (.parquet, .pq): the column `embedding` has R float32 numbers in every row, NaN if the
      row failed: `np.stack(table["embedding"])` has shape (n, R). With `atoms`, the column
      `atom_embeddings` is a list with an array of C numbers for each atom, empty if the row failed.
      The column `error` is null unless the row failed.
    - CSV and TSV (.csv, .tsv, also .gz): the columns `embedding_0` to `embedding_<R-1>`, with six
      digits and blank if the row failed, and `error`. They have no atoms.

    Args:
        atoms: also write the embeddings of the atoms, in Parquet.

    Returns:
        As `predict_rows`.

    Raises:
        ConfigError: the format cannot hold the embeddings; a column is missing; or the table
            has one of the new columns.
        DataError, StorageError: as for `predict_rows`.
    """
    output = Path(output)
    suffix = check_embeddings_output(output, atoms)
    width = predictor.model.network.embedding_width
    types: dict[str, Any] = {}
    names = [f"{_EMBEDDING}_{index}" for index in range(width)]
    if suffix == ".parquet":
        arrow = import_module("pyarrow")
        types = {_EMBEDDING: arrow.list_(arrow.float32(), width)}
        if atoms:
            channels = predictor.model.network.config.width
            types[_ATOMS] = arrow.list_(arrow.list_(arrow.float32(), channels))
        names = [*types]

    def cells_of(part: Embeddings) -> Iterator[Sequence[Any]]:
        if types:
            of_atoms = [] if part.atoms is None else [map(list, part.atoms)]
            return zip(part.molecules, *of_atoms, part.errors, strict=True)
        frame = pd.DataFrame(part.molecules, columns=names)
        return cells(frame.assign(**{ERROR: part.errors}), _CHANNEL_DIGITS)

    added = [*names, *[_ATOMS] * bool(types), ERROR]  # no atoms of another model stay
    table.check(predictor.model.inputs.names, added)
    parts = predictor.embedded(iter(table), atoms)
    written = ((rows, part.errors, cells_of(part)) for rows, part in parts)
    return _write(output, table, written, names, types=types)


class TableRows:
    """The rows of a table for a `Predictor`, each with its index and all its cells at the end.

    Args:
        chunks: one or more parts of the table as text, such as those of `tables.read_chunks`.
        source: name of the table in errors.
        on_invalid: keep a row that fails, or raise an error.
    """

    def __init__(
        self,
        chunks: Iterable[pd.DataFrame],
        smiles_column: str,
        source: str,
        on_invalid: Literal["keep", "fail"] = "keep",
    ) -> None:
        chunks = iter(chunks)
        first = next(chunks)
        self.source = source
        self.header = names_in_file(first)
        """Names of the columns in the file, where that of SMILES may have another."""
        self.rows = self.failed = 0  # so far
        self._columns = [str(name) for name in first]
        self._chunks = chain([first], chunks)
        self._smiles_column, self._on_invalid = smiles_column, on_invalid
        self._features: Sequence[str] = ()
        self._kept = list(range(len(self.header)))  # indices of the columns that stay

    def check(
        self, features: Sequence[str], added: Sequence[str] = (), overwrite: bool | None = None
    ) -> None:
        """Raise a `ConfigError` if a column of SMILES or features is missing, or one of those to be
        added is there. `overwrite` drops the latter, but not the SMILES; None: no such choice."""
        self._features = features
        if features:
            require_feature_columns(features, self._columns, self.source)
        for name in (self._smiles_column, *features):
            require_column(self._columns, name, self.source)
        taken = [name for name in added if name in self._columns]
        refused = [name for name in taken if not overwrite or name == self._smiles_column]
        if refused:
            option = ", or replace it (--overwrite-columns)" if overwrite is False else ""
            raise ConfigError(
                f"{self.source} has a column '{refused[0]}' already, which a new column would "
                f"replace: rename or remove it{option}"
            )
        self._kept = [number for number, name in enumerate(self._columns) if name not in taken]
        self.header = [self.header[number] for number in self._kept]

    @property
    def smiles_place(self) -> int:
        return self._kept.index(self._columns.index(self._smiles_column))

    def __iter__(self) -> Iterator[Row]:
        for chunk in self._chunks:
            further = [chunk[name] for name in self._features]
            inputs = map(first_molecule, chunk[self._smiles_column], *further), *further
            cells = zip(*(column for _, column in chunk.items()), strict=True)  # names may repeat
            yield from zip(*inputs, chunk.index, cells, strict=True)

    def kept(self, row: Row, error: str | None) -> tuple[str, ...]:
        """Return the cells that stay, or raise a `DataError` if `on_invalid` is fail."""
        *_, index, cells = row
        self.rows += 1
        if error is not None:
            self.failed += 1
            if self._on_invalid == "fail":
                raise DataError(f"{locate(self.source, index)}: {error}")
        return tuple(cells[number] for number in self._kept)


def cells(table: pd.DataFrame, digits: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table as text: numbers with `digits` digits, "" for missing values."""

    def text(value: Any) -> str:
        if pd.isna(value):
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.{digits}g}" if isinstance(value, float) else str(value)

    columns = (map(text, column.tolist()) for _, column in table.items())
    return zip(*columns, strict=True)


def _write(
    out: Path | TextIO,
    table: TableRows,
    parts: Iterable[tuple[list[Row], Iterable[str | None], Iterable[Sequence[Any]]]],
    columns: Sequence[str],
    numbers: Collection[str] = (),
    types: Mapping[str, Any] = {},
) -> tuple[int, int]:
    """Write rows with their errors and new cells, see `open_table`; return how many, and failed."""
    header = [*table.header, *columns, ERROR]
    with open_table(out, header, table.smiles_place, numbers, types) as write:
        for rows, errors, added in parts:
            for row, error, new in zip(rows, errors, added, strict=True):
                write([*table.kept(row, error), *new])
    return table.rows, table.failed
