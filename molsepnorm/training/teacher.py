"""Vectors of another model, read from Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule
from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.optional import require_package

_ROWS = 1024  # vectors that are read at a time


def teacher_vectors(path: Path, dataset: Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the vector of each molecule of a data set, and warnings.

    Args:
        path: a Parquet file, or a folder of them, with the columns `smiles` and `embedding` (lists
            of D numbers), as `molsepnorm embed` writes it. Molecules are matched by their canonical
            SMILES; the first vector of a molecule counts.
        dataset: G molecules with SMILES.

    Returns:
        float16 [G, D]; rows are NaN for molecules without a vector.

    Raises:
        ConfigError: the data set has no SMILES, or pyarrow is not installed.
        DataError: there is no such file, it cannot be read, lacks a column, or has lists of
            different lengths, values beyond ±65,504, or no vector of these molecules.
    """
    if dataset.smiles is None:
        raise ConfigError(
            f"{dataset.name} has no SMILES, and a teacher's vectors are found by them: use a table "
            "of SMILES"
        )
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise DataError(f"there is no Parquet file of a teacher's vectors at {path}")
    smiles = dataset.smiles_of(slice(None))
    by_structure: dict[str, list[int]] = {}
    rows = {}  # the same lists by the SMILES as written, which saves work where texts are equal
    for row, text in enumerate(smiles):
        rows[text] = by_structure.setdefault(_canonical(text), [])
        rows[text].append(row)
    found = np.full((len(smiles), 0), np.nan, np.float16)
    for file, texts, vectors in _read(files):
        if not found.shape[1]:
            found = np.full((len(smiles), vectors.shape[1]), np.nan, np.float16)
        if vectors.shape[1] != found.shape[1]:
            raise DataError(
                f"{file} has vectors of {vectors.shape[1]} numbers, and earlier ones have "
                f"{found.shape[1]}"
            )
        for text, vector in zip(texts, vectors, strict=True):
            places = rows.get(text) or by_structure.get(_canonical(text), [])
            if places and np.isnan(found[places[0], 0]):
                found[places] = vector
    missing = int(np.isnan(found).all(axis=1).sum())
    if missing == len(found):
        raise DataError(
            f"{path} has no vector of a molecule of {dataset.name}: compute the vectors from the "
            "same SMILES"
        )
    message = f"{path} has vectors of {len(found) - missing:,} of {len(found):,} molecules"
    return found, (f"{message}; the others are left out of this loss",) if missing else ()


def _canonical(text: str) -> str:
    try:
        return canonical_smiles(text)
    except InvalidMolecule:
        return ""


def _read(files: Sequence[Path]) -> Iterator[tuple[Path, list[str], np.ndarray]]:
    """Yield SMILES and vectors, float16 [n, D], of Parquet files, and their file."""
    for file in files:
        arrow: Any = require_package("pyarrow", "parquet", f"reading {file}")
        parquet: Any = require_package("pyarrow.parquet", "parquet", f"reading {file}")
        try:
            table = parquet.ParquetFile(file)
            kinds = dict(zip(table.schema_arrow.names, table.schema_arrow.types, strict=True))
            if "smiles" not in kinds or not hasattr(kinds.get("embedding"), "value_type"):
                found = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
                raise DataError(
                    f"{file} should have the columns smiles and embedding, the latter of lists of "
                    f"numbers; it has {found}"
                )
            for batch in table.iter_batches(_ROWS, columns=["smiles", "embedding"]):
                lists = batch.column("embedding").drop_null()
                texts = batch.column("smiles").filter(batch.column("embedding").is_valid())
                values = lists.flatten().to_numpy(zero_copy_only=False)
                if len(lists) == 0:
                    continue
                if len(values) != len(lists) * len(lists[0]):
                    raise DataError(f"{file} has vectors of different lengths")
                limit = np.finfo(np.float16).max
                if not (np.abs(values) <= limit).all():
                    raise DataError(
                        f"{file} has a vector with a number that is not within ±{limit:,.0f}"
                    )
                yield file, texts.to_pylist(), values.astype(np.float16).reshape(len(lists), -1)
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"{file} cannot be read as Parquet: {error}") from None
