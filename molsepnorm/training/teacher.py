"""Vectors of another model, read from Parquet files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
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

    Molecules are matched by their canonical SMILES; the first vector of a molecule counts.

    Args:
        path: a Parquet file, or a folder of them, with the columns `smiles` and `embedding` (lists
            of D numbers), as `molsepnorm embed` writes it.
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
    rows = defaultdict[str, list[int]](list)
    for row, text in enumerate(dataset.smiles_of(slice(None))):
        rows[_canonical(text)].append(row)
    count = len(dataset.store)
    found = np.full((count, 0), np.nan, np.float16)
    for texts, vectors in _read(path):
        if not found.shape[1]:
            found = np.full((count, vectors.shape[1]), np.nan, np.float16)
        if vectors.shape[1] != found.shape[1]:
            raise DataError(
                f"{path} has vectors of {vectors.shape[1]} and {found.shape[1]} numbers"
            )
        for text, vector in zip(texts, vectors, strict=True):
            places = rows.get(_canonical(text))
            if places and np.isnan(found[places[0], 0]):
                found[places] = vector
    missing = int(np.isnan(found).all(axis=1).sum())
    if missing == count:
        raise DataError(
            f"{path} has no vector of a molecule of {dataset.name}: compute the vectors from the "
            "same SMILES"
        )
    message = f"{path} has vectors of {count - missing:,} of {count:,} molecules"
    return found, (f"{message}; the others are left out of this loss",) if missing else ()


def _canonical(text: str) -> str:
    try:
        return canonical_smiles(text)
    except InvalidMolecule:
        return ""


def _read(path: Path) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield SMILES, and their vectors, float16 [n, D]."""
    arrow: Any = require_package("pyarrow", "parquet", f"reading {path}")
    parquet: Any = require_package("pyarrow.dataset", "parquet", f"reading {path}")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise DataError(f"there is no Parquet file of a teacher's vectors at {path}")
    try:
        table = parquet.dataset([*map(str, files)], format="parquet")
        kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
        if "smiles" not in kinds or not hasattr(kinds.get("embedding"), "value_type"):
            found = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
            raise DataError(
                f"{path} should have the columns smiles and embedding, the latter of lists of "
                f"numbers; it has {found}"
            )
        for batch in table.to_batches(columns=["smiles", "embedding"], batch_size=_ROWS):
            known = batch.filter(batch.column("embedding").is_valid())
            if not len(known):
                continue
            vectors = np.stack(known.column("embedding").to_numpy(zero_copy_only=False))
            limit = np.finfo(np.float16).max
            if not (np.abs(vectors) <= limit).all():
                raise DataError(f"{path} has a vector with a number beyond ±{limit:,.0f}")
            yield known.column("smiles").to_pylist(), vectors.astype(np.float16)
    except (arrow.ArrowException, OSError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as lists of equal lengths: {error}") from None
