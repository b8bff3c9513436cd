"""`dense_inputs`: molecules as the padded arrays that an exported model reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.encodings.paths import SELF
from molsepnorm.predict.arguments import Cells
from molsepnorm.predict.encode import Prepare
from molsepnorm.predict.predictor import Predictor


@dataclass(frozen=True, eq=False)
class DenseInputs:
    """B molecules as padded arrays."""

    arrays: dict[str, np.ndarray]
    """By name: see `DenseGraphormer.forward` and `input_shapes`."""
    rows: np.ndarray
    """int64 [B]: for each molecule the index of its SMILES."""
    errors: list[str | None]
    """For each SMILES the reason why it is not among the molecules, or None."""


def num_features(model: PropertyModel) -> int:
    """Return F, the number of molecule-level features that the networks and forests of a model
    read."""
    if model.forests:
        return model.encoding.molecule_features + model.inputs.width
    return max(network.config.molecule_features for network in model.networks)


def input_shapes(model: PropertyModel) -> dict[str, tuple[str, tuple[str | int, ...]]]:
    """Return the type and the shape of every input by name, in the order of the arguments."""
    config = model.network.config
    shapes: dict[str, tuple[str, tuple[str | int, ...]]] = {
        "atoms": ("int32", ("molecules", "atoms", len(config.atom_sizes))),
        "degrees": ("int32", ("molecules", "atoms")),
        "mask": ("bool", ("molecules", "atoms")),
        "distances": ("int32", ("molecules", "atoms", "atoms")),
        "paths": ("int32", ("molecules", "atoms", "atoms", config.max_path_length)),
    }
    if any(network.config.local == "gine" for network in model.networks):
        shapes["neighbours"] = ("int32", ("molecules", "atoms", "bonds"))
    if count := num_features(model):
        shapes["features"] = ("float32", ("molecules", count))
    return shapes


def dense_inputs(
    model: PropertyModel, smiles: Iterable[str], columns: Cells | None = None
) -> DenseInputs:
    """Encode molecules for `DenseModel` and its exports.

    The memory grows with the square of the largest number of atoms, so encode some hundred
    molecules at a time. Standardisation, features and fingerprints are those of the model.

    Args:
        model: the model that is exported.
        smiles, columns: as for `Predictor.predict`.

    Raises:
        ConfigError: as `Predictor.predict`.
    """
    device = model.network.embedding.graph_token.device
    rows_of = Predictor(model, str(device)).rows  # on its own device, since it would be moved
    prepared = Prepare(model, torch.device("cpu"))([*rows_of(smiles, columns)])
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in prepared.groups)]))
    largest = max((int(encoded.sizes.max()) for _, encoded in prepared.groups), default=1)
    bonds = max((encoded.max_bonds for _, encoded in prepared.groups), default=1)
    known = {"molecules": len(rows), "atoms": largest, "bonds": max(bonds, 1)}
    arrays = {
        name: np.zeros([known[n] if isinstance(n, str) else n for n in shape], dtype)
        for name, (dtype, shape) in input_shapes(model).items()
    }
    for name in {"distances", "neighbours"} & {*arrays}:
        arrays[name].fill(-1)
    for of_group, encoded in prepared.groups:
        _fill(arrays, np.searchsorted(rows, of_group), encoded)
    return DenseInputs(arrays, rows, prepared.errors)


def _fill(arrays: dict[str, np.ndarray], rows: np.ndarray, graphs: EncodedGraphs) -> None:
    """Write encoded molecules to rows of the padded arrays."""
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
    if "features" in arrays:
        assert graphs.features is not None
        arrays["features"][rows] = graphs.features[:, : arrays["features"].shape[1]]
