"""`dense_inputs` and `encode_table`: molecules as the padded arrays of an exported model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molsepnorm.data.tables import read_chunks
from molsepnorm.data.tables.columns import require_column
from molsepnorm.data.tables.formats import ReadOptions, locate
from molsepnorm.errors import DataError, StorageError
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import networks_of
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.encodings.paths import SELF
from molsepnorm.predict.encode import Cells, Prepare, checked_rows

INPUTS = {
    "atoms": ("int32", ("molecules", "atoms"), "atom features; 0 in padding"),
    "degrees": (
        *("int32", ("molecules", "atoms")),
        "number of bonds of each atom, at most max_degree; 0 in padding",
    ),
    "mask": ("bool", ("molecules", "atoms"), "true at atoms, false at padding"),
    "distances": (
        *("int32", ("molecules", "atoms", "atoms")),
        "number of bonds between two atoms, at most max_distance; -1 for atoms of different "
        "fragments and padding",
    ),
    "paths": (
        *("int32", ("molecules", "atoms", "atoms")),
        "label of each bond on the canonical shortest path, counted from 1; 0 after the last",
    ),
    "neighbours": (
        *("int32", ("molecules", "atoms", "bonds")),
        "indices of the bonded atoms, then -1",
    ),
    "features": ("float32", ("molecules",), "molecule-level features, not standardised"),
}
"""Name -> type, dimensions of any size, and meaning, in the order of the arguments."""

_AS_NAMED = ReadOptions()
_ROWS = 64  # of a file: as many drug-like molecules need some megabytes


@dataclass(frozen=True, eq=False)
class DenseInputs:
    """B molecules as padded arrays."""

    arrays: dict[str, np.ndarray]
    """By name: see `DenseGraphormer.forward` and `input_shapes`."""
    rows: np.ndarray
    """int64 [B]: for each molecule the index of its SMILES."""
    errors: list[str | None]
    """For each SMILES the reason why it is not among the molecules, or None."""


@dataclass(frozen=True)
class Encoded:
    """Numbers of molecules and files that `encode_table` wrote, and for each row without a molecule
    its position in the table and the reason."""

    molecules: int
    files: int
    rejected: list[str]


def input_shapes(model: PropertyModel) -> dict[str, tuple[str | int, ...]]:
    """Return the shape of every input by name, in the order of the arguments."""
    config = model.network.config
    features = model.encoding.molecule_features + model.inputs.width
    last = {
        "atoms": len(config.atom_sizes),
        "paths": config.max_path_length,
        "features": features,
    }
    absent = set() if features else {"features"}
    if all(network.config.local == "none" for network in networks_of(model.parts)):
        absent.add("neighbours")
    return {
        name: (*sizes, last[name]) if name in last else sizes
        for name, (_, sizes, _) in INPUTS.items()
        if name not in absent
    }


def dynamic_shapes(arrays: Iterable[str]) -> dict[str, dict[int, Any]]:
    """Return the dimensions of any size, for `torch.export.export`."""
    sizes = {name: torch.export.Dim(name) for name in ("molecules", "atoms", "bonds")}
    return {name: dict(enumerate(map(sizes.get, INPUTS[name][1]))) for name in arrays}


def dense_inputs(
    model: PropertyModel, smiles: Iterable[str], columns: Cells | None = None
) -> DenseInputs:
    """Encode molecules for `DenseModel` and its exports.

    The memory grows with the square of the largest number of atoms, so encode some hundred
    molecules at a time.

    Args:
        smiles, columns: as for `Predictor.predict`, with its errors.
    """
    given = [*checked_rows(smiles, columns, model.inputs.names)]
    prepared = Prepare(model, torch.device("cpu"))(given)
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *(rows for rows, *_ in prepared.groups)]))
    largest = max((int(encoded.sizes.max()) for _, encoded, _ in prepared.groups), default=1)
    bonds = max((encoded.max_bonds for _, encoded, _ in prepared.groups), default=1)
    known = {"molecules": len(rows), "atoms": largest, "bonds": max(bonds, 1)}
    arrays = {
        name: np.full(
            [known[n] if isinstance(n, str) else n for n in shape],
            -1 if name in ("distances", "neighbours") else 0,
            INPUTS[name][0],
        )
        for name, shape in input_shapes(model).items()
    }
    for of_group, encoded, extra in prepared.groups:
        places = np.searchsorted(rows, of_group)
        _fill(arrays, places, encoded)
        if "features" in arrays:
            own = [] if encoded.features is None else [encoded.features]
            arrays["features"][places] = np.hstack([*own, extra.stacked()])
    return DenseInputs(arrays, rows, prepared.errors)


def _fill(arrays: dict[str, np.ndarray], rows: np.ndarray, graphs: EncodedGraphs) -> None:
    bonds = graphs.paths.bonds_of_all() + 1  # (V, L'): 0 where there is no bond
    depths = np.where(np.arange(len(bonds)) < SELF, -1, graphs.paths.depths)
    atom = pair = 0
    for row, size in zip(rows, graphs.sizes, strict=True):
        inside = slice(atom, atom + size)
        codes = graphs.pairs[pair : pair + size**2].reshape(size, size)
        arrays["atoms"][row, :size] = graphs.atoms[inside]
        arrays["degrees"][row, :size] = graphs.degrees[inside]
        arrays["mask"][row, :size] = True
        arrays["distances"][row, :size, :size] = depths[codes]
        arrays["paths"][row, :size, :size, : bonds.shape[1]] = bonds[codes]
        if "neighbours" in arrays:
            own, other = np.nonzero(depths[codes] == 1)
            rank = np.arange(len(own)) - np.searchsorted(own, own)
            arrays["neighbours"][row, own, rank] = other
        atom, pair = atom + size, pair + size**2


def encode_table(
    model: PropertyModel, source: Path, folder: Path | str, options: ReadOptions = _AS_NAMED
) -> Encoded:
    """Write the inputs of an exported model for the molecules of a table, in batches.

    The folder holds `00001.npz`, `00002.npz`, …, each for up to 64 rows of the table, in its order.
    A file has the arrays of `dense_inputs`, `smiles` [B], and `rows`, int64 [B], the index of each
    molecule's row. Rows with an invalid SMILES are left out.

    Args:
        source: the table, in any format of `read_chunks`.
        folder: a new or empty folder.

    Raises:
        ConfigError: there is no column of SMILES, or a feature column of the model is missing.
        DataError: the table cannot be read, or no row has a valid molecule.
        StorageError: the folder holds files, or cannot be written.
    """
    require_empty(folder)
    names = model.inputs.names
    molecules = files = done = 0
    rejected: list[str] = []
    with replacing(folder, folder=True) as scratch:
        chunks = read_chunks(source, rows=_ROWS, options=options, numbers=names)
        for chunk in chunks:
            for name in (options.smiles_column, *names):
                require_column([*chunk.columns], name, str(source))
            smiles = chunk[options.smiles_column].to_numpy()
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


def require_empty(folder: Path | str) -> None:
    """Raise a `StorageError` if a folder holds files, which an export would replace."""
    if not Path(folder).is_dir():
        return
    with clear_errors(folder, "write"):
        present = [path.name for path in Path(folder).iterdir()]
    if present:
        raise StorageError(
            f"cannot write {folder}: it holds {min(present)}, which the export would replace: "
            "choose another folder"
        )
