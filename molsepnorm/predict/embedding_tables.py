"""`embed_rows`: a table with embeddings, as Parquet or CSV."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.files.writing import csv_writer, replacing
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.rows import ERROR, Rows, TableRows
from molsepnorm.predict.work import Embeddings

__all__ = ["embed_rows"]

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
    - CSV (.csv): the columns `embedding_0` to `embedding_<R-1>`, with six digits and blank if the
      row failed, and `error`. It has no atoms.

    Args:
        predictor: the predictor.
        chunks: parts of the table; see `predict_rows`.
        output: the file.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        atoms: also write the embeddings of the atoms.
        on_invalid: keep a row that fails, or raise an error.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: the suffix is unknown; atoms in a CSV; pyarrow is missing; there is no column
            of SMILES or features, or several; or the table has one of the new columns.
        DataError: a row failed and `on_invalid` is fail.
        StorageError: the file cannot be written.
    """
    output = Path(output)
    _check_output(output, atoms)
    table = TableRows(chunks, smiles_column, source, on_invalid, predictor.model.inputs.names)
    if table.columns is None:
        return 0, 0
    width = predictor.model.network.embedding_width
    numbered = [f"{_EMBEDDING}_{index}" for index in range(width)]
    is_csv = output.suffix.lower() == ".csv"
    table.check([*(numbered if is_csv else (_EMBEDDING, _ATOMS)), ERROR])
    smiles, columns = table.read()
    blocks = (
        ([table.take(error) for error in part.errors], part)
        for part in predictor.embed_stream(smiles, atoms, columns)
    )
    with replacing(output) as scratch:
        if is_csv:
            _write_csv(scratch, [*table.columns, *numbered, ERROR], blocks)
        else:
            schema = _schema(table.columns, width, predictor.model.network.config.width, atoms)
            _write_parquet(scratch, schema, blocks)
    return table.rows, table.failed


def _check_output(output: Path, atoms: bool) -> None:
    """Check the suffix, and that a file of this format can be written there."""
    suffix = output.suffix.lower()
    if suffix not in (".csv", ".parquet", ".pq"):
        raise ConfigError(
            f"{output}: embeddings are written as Parquet or CSV: end the name with .parquet or "
            ".csv"
        )
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    if suffix == ".csv" and atoms:
        raise ConfigError(
            f"{output}: a CSV has no lists for the embeddings of atoms: end the name with .parquet"
        )
    if suffix != ".csv":
        try:
            importlib.import_module("pyarrow")
        except ImportError:
            raise ConfigError(
                f"{output} can be written only with pyarrow, which is not installed: pip install "
                "pyarrow, or end the name with .csv"
            ) from None


def _write_csv(path: Path, columns: Sequence[str], blocks: Blocks) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file, os.linesep)
        writer.writerow(columns)
        for rows, part in blocks:
            for cells, numbers, error in zip(
                rows, part.molecules.tolist(), part.errors, strict=True
            ):
                new = ["" if error else f"{number:.6g}" for number in numbers]
                writer.writerow([*cells, *new, error or ""])


def _schema(columns: Sequence[str], width: int, atom_width: int, atoms: bool) -> Any:
    """Return the Arrow schema of the Parquet file."""
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ConfigError(
            f"the table has several columns called '{twice[0]}', which Parquet files cannot have: "
            "rename or remove all but one, or write a .csv"
        )
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
