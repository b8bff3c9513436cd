"""`encode_table`: the molecules of a table as files of padded arrays."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from molsepnorm.data.tables import locate, read_chunks, require_column
from molsepnorm.errors import DataError, StorageError
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.interop.export.inputs import dense_inputs
from molsepnorm.model import PropertyModel
from molsepnorm.predict.arguments import require_feature_columns

_ROWS = 64  # of a file: as many drug-like molecules need some megabytes


@dataclass(frozen=True)
class Encoded:
    """The result of `encode_table`."""

    molecules: int
    """Number of molecules that were written."""
    files: int
    """Number of files."""
    rejected: list[str]
    """For each row without a molecule, its position in the table and the reason."""


def encode_table(
    model: PropertyModel, source: Path, folder: Path | str, smiles_column: str = "smiles"
) -> Encoded:
    """Write the inputs of an exported model for the molecules of a table, in batches.

    The folder holds `00001.npz`, `00002.npz`, …, each for up to 64 rows of the table, in its order.
    A file has the arrays of `dense_inputs`, `smiles` [B], and `rows`, int64 [B], the index of each
    molecule's row, counted from 0 without the header. Rows with an invalid SMILES are left out.

    Args:
        model: the model that was exported.
        source: the table, in any format of `read_chunks`.
        folder: the folder; one that this function wrote earlier is replaced.
        smiles_column: name of the column of SMILES.

    Raises:
        ConfigError: there is no such column, or a feature column of the model is missing.
        DataError: the table cannot be read, or no row has a valid molecule.
        StorageError: the folder holds other files, or cannot be written.
    """
    folder, names = Path(folder), model.inputs.names
    _require_replaceable(folder)
    molecules = files = done = 0
    rejected: list[str] = []
    with replacing(folder, folder=True) as scratch:
        chunks = read_chunks(source, rows=_ROWS, smiles_column=smiles_column, decimals=names)
        for number, chunk in enumerate(chunks):
            if not number:
                require_feature_columns(names, chunk.columns if names else None, str(source))
                for name in (smiles_column, *names):
                    require_column([*chunk.columns], name, str(source))
            smiles = chunk[smiles_column].to_numpy()
            found = dense_inputs(model, smiles, chunk if names else None)
            rows, done = done + found.rows, done + len(smiles)
            rejected += [
                f"{locate(source, index)}: {error}"
                for index, error in zip(chunk.index, found.errors, strict=True)
                if error is not None
            ]
            if not len(found.rows):
                continue
            molecules, files = molecules + len(found.rows), files + 1
            np.savez_compressed(
                scratch / f"{files:05}.npz",
                smiles=smiles[found.rows].astype(str),
                rows=rows,
                **found.arrays,  # type: ignore[arg-type]
            )
        if not molecules:
            raise DataError(f"{source} has no molecule that can be encoded. {rejected[0]}")
    return Encoded(molecules, files, rejected)


def _require_replaceable(folder: Path) -> None:
    if not folder.is_dir():
        return
    with clear_errors(folder, "write"):
        others = [path.name for path in folder.iterdir() if not _is_own(path)]
    if others:
        raise StorageError(
            f"cannot write {folder}: it holds {min(others)}, which the encoded molecules would "
            "replace: choose another folder"
        )


def _is_own(path: Path) -> bool:
    """Return whether a file is one that `encode_table` writes."""
    if not re.fullmatch(r"\d{5,}\.npz", path.name):
        return False
    try:
        with np.load(path) as arrays:
            return {"smiles", "rows"} <= {*arrays.files}
    except (ValueError, EOFError, zipfile.BadZipFile):
        return False
