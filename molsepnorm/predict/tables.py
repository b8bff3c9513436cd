"""Tables with predictions or embeddings: `predict_rows` and `embed_rows`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.tables import check_embeddings_output, check_output
from molsepnorm.files.writing import replacing
from molsepnorm.predict.encode import Row, require_feature_columns
from molsepnorm.predict.inference import Embeddings
from molsepnorm.predict.output import open_table, require_unique
from molsepnorm.predict.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

ERROR = "error"
"""Name of the column with the reasons why rows failed."""

_ALL_DIGITS = 9  # which identify every float32
_EMBEDDING, _ATOMS = "embedding", "atom_embeddings"

Blocks = Iterator[tuple[list[tuple[str, ...]], Embeddings]]
"""The cells of some rows, and their embeddings."""


def predict_rows(
    predictor: Predictor,
    chunks: Iterable[pd.DataFrame],
    out: Path | TextIO,
    *,
    smiles_column: str,
    source: str,
    on_invalid: Literal["keep", "fail"] = "keep",
    digits: int | None = None,
    overwrite: bool = False,
) -> tuple[int, int]:
    """Write a table with predictions, keeping its rows, their order and all columns.

    The new columns are those of `Predictor.predicted`.

    Args:
        predictor: the predictor.
        chunks: parts of the table as text, such as those of `tables.read_chunks`. They are read as
            they are needed.
        out: the file, whose name chooses the format (see `output.open_table`), or an open text file
            for CSV.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        on_invalid: keep a row that fails, or raise an error.
        digits: significant digits of numbers; by default six, or more for a target whose values
            differ little for their size (`Target.digits`), and in Parquet nine, which are all
            digits of float32.
        overwrite: replace columns of the table that have the name of a new column.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: the model was pre-trained without targets; there is no such column, or several;
            a feature column of the model is missing; the table has one of the new columns and
            `overwrite` is False; or `out` cannot be written in the format of its name.
        DataError: a row failed and `on_invalid` is fail.
        StorageError: `out` cannot be written.
    """
    predictor.model.require_targets()
    table = TableRows(chunks, smiles_column, source, on_invalid, predictor.model.inputs.names)
    if table.is_empty:
        return 0, 0
    columns = predictor.columns
    added = [*columns, ERROR]
    table.check(added, overwrite)
    numbers = {name for name, dtype in columns.items() if dtype.kind == "f"}
    if digits is None:
        is_parquet = isinstance(out, Path) and check_output(out) == ".parquet"
        digits = _ALL_DIGITS if is_parquet else predictor.model.task.digits
    with open_table(out, [*table.header, *added], numbers, table.smiles_place) as write:
        for rows, found in predictor.predicted(iter(table)):
            new = cells(found[added], digits)
            for row, error, its in zip(rows, found[ERROR], new, strict=True):
                write([*table.kept(row, error), *its])
    return table.rows, table.failed


def embed_rows(
    predictor: Predictor,
    chunks: Iterable[pd.DataFrame],
    output: Path | str,
    *,
    smiles_column: str,
    source: str,
    atoms: bool = False,
    layer: int | None = None,
    on_invalid: Literal["keep", "fail"] = "keep",
) -> tuple[int, int]:
    """Write a table with embeddings, keeping its rows, their order and all columns.

    The suffix of the file names the format. An existing file is replaced when the new one is
    complete.

    - Parquet (.parquet, .pq): the column `embedding` has R float32 numbers in every row, NaN if the
      row failed. It is one column of arrays of fixed size, which pandas, polars and DuckDB read as
      such: `np.stack(table["embedding"])` has shape (n, R). With `atoms`, the column
      `atom_embeddings` is a list with an array of C numbers for each atom, empty if the row failed.
      The column `error` is null unless the row failed. The cells of the table are kept as text.
    - CSV and TSV (.csv, .tsv, also .gz): the columns `embedding_0` to `embedding_<R-1>`, with six
      digits and blank if the row failed, and `error`. They have no atoms.

    Args:
        predictor, chunks, smiles_column, source, on_invalid: as for `predict_rows`.
        output: the file.
        atoms: also write the embeddings of the atoms, in Parquet.
        layer: the layer of the embeddings, see `Predictor.embed`.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: the suffix is unknown; atoms in a CSV or TSV; pyarrow is missing; there is
            no column of SMILES or features, or several; there is no such layer; or the table has
            one of the new columns.
        DataError: a row failed and `on_invalid` is fail.
        StorageError: the file cannot be written.
    """
    output = Path(output)
    suffix = check_embeddings_output(output, atoms)
    width = predictor.embedding_width(layer)
    table = TableRows(chunks, smiles_column, source, on_invalid, predictor.model.inputs.names)
    if table.is_empty:
        return 0, 0
    numbered = [f"{_EMBEDDING}_{index}" for index in range(width)]
    is_text = suffix != ".parquet"
    table.check([*(numbered if is_text else (_EMBEDDING, _ATOMS)), ERROR])
    blocks = (
        ([table.kept(row, error) for row, error in zip(rows, found.errors, strict=True)], found)
        for rows, found in predictor.embedded(iter(table), atoms, layer)
    )
    if is_text:
        _write_text(output, [*table.header, *numbered, ERROR], blocks)
    else:
        require_unique(table.header, output)
        schema = _schema(table.header, width, predictor.model.network.config.width, atoms)
        with replacing(output) as scratch:
            _write_parquet(scratch, schema, blocks)
    return table.rows, table.failed


class TableRows:
    """The rows of a table, whose columns are checked and kept.

    Iteration yields rows for a `Predictor`, each with its index and all its cells at the end.

    Args:
        chunks, smiles_column, source, on_invalid: as for `predict_rows`.
        features: the feature columns of the model.
    """

    def __init__(
        self,
        chunks: Iterable[pd.DataFrame],
        smiles_column: str,
        source: str,
        on_invalid: Literal["keep", "fail"],
        features: Sequence[str] = (),
    ) -> None:
        from molsepnorm.data.tables.columns import names_in_file

        chunks = iter(chunks)
        first = next(chunks, None)
        self.is_empty = first is None
        self.header = [] if first is None else names_in_file(first)
        """Names of the columns in the file, where that of SMILES may have another."""
        self.rows = self.failed = 0
        """Number of rows that were kept so far, and of those that failed."""
        self._columns = [] if first is None else [str(name) for name in first]
        self._chunks = chunks if first is None else chain([first], chunks)
        self._smiles_column, self._source, self._on_invalid = smiles_column, source, on_invalid
        self._features = features
        self._kept = list(range(len(self.header)))  # indices of the columns that stay

    def check(self, added: Sequence[str], overwrite: bool | None = None) -> None:
        """Check that there are the columns of SMILES and of features, and none to be added.

        Args:
            added: names of the columns to be added.
            overwrite: leave those out that the table has already; None if that cannot be chosen.

        Raises:
            ConfigError: there is no such column, or several, or one is to be added.
        """
        from molsepnorm.data.tables.columns import require_column

        if self._features:
            require_feature_columns(self._features, self._columns, self._source)
        for name in (self._smiles_column, *self._features):
            require_column(self._columns, name, self._source)
        taken = [name for name in added if name in self._columns]
        if taken and not overwrite:
            option = "" if overwrite is None else ", or replace it (--overwrite-columns)"
            raise ConfigError(
                f"{self._source} has a column '{taken[0]}' already, which a new column would "
                f"replace: rename or remove it{option}"
            )
        self._kept = [number for number, name in enumerate(self._columns) if name not in taken]
        self.header = [self.header[number] for number in self._kept]

    @property
    def smiles_place(self) -> int:
        """Index of the column of SMILES among those that stay."""
        return self._kept.index(self._columns.index(self._smiles_column))

    def __iter__(self) -> Iterator[Row]:
        for chunk in self._chunks:
            read = [chunk[name] for name in (self._smiles_column, *self._features)]
            every = zip(*(column for _, column in chunk.items()), strict=True)  # names may repeat
            yield from zip(*read, chunk.index, every, strict=True)

    def kept(self, row: Row, error: str | None) -> tuple[str, ...]:
        """Return the cells that stay, given the reason why the row failed, or None.

        Raises:
            DataError: it failed and `on_invalid` is fail.
        """
        *_, index, cells = row
        self.rows += 1
        if error is not None:
            self.failed += 1
            if self._on_invalid == "fail":
                from molsepnorm.data.tables.formats import locate

                raise DataError(f"{locate(self._source, index)}: {error}")
        return tuple(cells[number] for number in self._kept)


def cells(table: pd.DataFrame, digits: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table as text: numbers with `digits` digits, "" for missing values."""
    import pandas as pd

    def text(value: Any) -> str:
        if pd.isna(value):
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.{digits}g}" if isinstance(value, float) else str(value)

    columns = (map(text, column.tolist()) for _, column in table.items())
    return zip(*columns, strict=True)


def _write_text(path: Path, columns: Sequence[str], blocks: Blocks) -> None:
    with open_table(path, columns, (), 0) as write:
        for rows, part in blocks:
            for row, numbers, error in zip(rows, part.molecules.tolist(), part.errors, strict=True):
                new = ["" if error else f"{number:.6g}" for number in numbers]
                write([*row, *new, error or ""])


def _schema(columns: Sequence[str], width: int, atom_width: int, atoms: bool) -> Any:
    """Return the Arrow schema of the Parquet file."""
    arrow = importlib.import_module("pyarrow")
    number, text = arrow.float32(), arrow.string()
    fields = [*((name, text) for name in columns), (_EMBEDDING, arrow.list_(number, width))]
    if atoms:
        fields.append((_ATOMS, arrow.list_(arrow.list_(number, atom_width))))
    return arrow.schema([*fields, (ERROR, text)])


def _write_parquet(path: Path, schema: Any, blocks: Blocks) -> None:
    """Write each block as a row group."""
    arrow = importlib.import_module("pyarrow")
    text, vectors = arrow.string(), arrow.FixedSizeListArray.from_arrays
    with importlib.import_module("pyarrow.parquet").ParquetWriter(path, schema) as writer:
        for rows, part in blocks:
            arrays = [arrow.array(cells, text) for cells in zip(*rows, strict=True)]
            arrays.append(vectors(part.molecules.ravel(), part.molecules.shape[1]))
            if part.atoms is not None:
                atoms = np.concatenate(part.atoms)  # (Σ N, C)
                ends = np.cumsum([0, *map(len, part.atoms)], dtype=np.int32)
                lists = vectors(atoms.ravel(), atoms.shape[1])
                arrays.append(arrow.ListArray.from_arrays(ends, lists))
            arrays.append(arrow.array(part.errors, text))
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
