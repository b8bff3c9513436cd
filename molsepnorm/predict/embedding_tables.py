"""`embed_rows`: a table with embeddings, as Parquet, CSV or TSV."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from molsepnorm.files.tables import check_embeddings_output
from molsepnorm.files.writing import replacing
from molsepnorm.predict.forward import Embeddings
from molsepnorm.predict.output import open_table, require_unique
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.rows import ERROR, Rows, TableRows

_EMBEDDING, _ATOMS = "embedding", "atom_embeddings"

Blocks = Iterator[tuple[list[tuple[str, ...]], Embeddings]]
"""The cells of some rows, and their embeddings."""


def embed_rows(
    predictor: Predictor,
    chunks: Iterable[Rows],
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
        predictor: the predictor.
        chunks: parts of the table; see `predict_rows`.
        output: the file.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        atoms: also write the embeddings of the atoms, in Parquet.
        layer: the layer of the embeddings, see `Predictor.embed`.
        on_invalid: keep a row that fails, or raise an error.

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
    if table.columns is None:
        return 0, 0
    numbered = [f"{_EMBEDDING}_{index}" for index in range(width)]
    is_text = suffix != ".parquet"
    table.check([*(numbered if is_text else (_EMBEDDING, _ATOMS)), ERROR])
    smiles, columns = table.read()
    blocks = (
        ([table.take(error) for error in part.errors], part)
        for part in predictor.embed_stream(smiles, atoms, columns, layer)
    )
    if is_text:
        _write_text(output, [*table.header, *numbered, ERROR], blocks)
    else:
        require_unique(table.header, output)
        schema = _schema(table.header, width, predictor.model.network.config.width, atoms)
        with replacing(output) as scratch:
            _write_parquet(scratch, schema, blocks)
    return table.rows, table.failed


def _write_text(path: Path, columns: Sequence[str], blocks: Blocks) -> None:
    with open_table(path, columns, (), 0) as write:
        for rows, part in blocks:
            for cells, numbers, error in zip(
                rows, part.molecules.tolist(), part.errors, strict=True
            ):
                new = ["" if error else f"{number:.6g}" for number in numbers]
                write([*cells, *new, error or ""])


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
