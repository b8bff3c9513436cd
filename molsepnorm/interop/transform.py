"""A PyTorch Geometric transform that adds Graphormer's encodings, for other models."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from molsepnorm.molecules.encodings.encoding import EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import NO_BOND
from molsepnorm.molecules.featurize.pyg import checked_offset, from_data

__all__ = ["AddShortestPathEncoding"]


class AddShortestPathEncoding(BaseTransform):
    """Adds degrees, hop distances and canonical shortest paths to a molecule's `Data`.

    The tensors are for networks of your own. This package's `Graphormer` reads the batches of
    `molsepnorm.interop.pyg.Collate` instead, which store each pair of atoms as one integer.

    - `degree`: int64 [N], clipped.
    - `pair_index`: int64 [2, N²], every ordered pair of atoms, (0, 0), (0, 1), …
    - `pair_distance`: int16 [N²], clipped; 0 for an atom and itself, −1 in different fragments.
    - `pair_path`: int16 [N², L], the bond labels along the path from the first atom to the second,
      padded with −1. If there are several shortest paths, it is the one with the lexicographically
      smallest labels, which does not depend on the order of the atoms. A label combines all
      features of a bond; the first one changes fastest.

    PyTorch Geometric's loaders batch all of them.

    >>> import torch
    >>> propene = Data(
    ...     x=torch.tensor([[0], [0], [0]]),
    ...     edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    ...     edge_attr=torch.tensor([[1], [1], [0], [0]]),
    ... )
    >>> transform = AddShortestPathEncoding(bond_sizes=(3,), bond_offset=0, max_path_length=2)
    >>> data = transform(propene)
    >>> data.degree.tolist(), data.pair_distance.view(3, 3).tolist()
    ([1, 2, 1], [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    >>> data.pair_path.view(3, 3, 2)[0, 2].tolist()
    [1, 0]

    Args:
        bond_sizes: number of values of each bond feature.
        bond_offset: the attribute of the first bond label (required): 1 for PyTorch Geometric's
            ZINC, 0 for OGB's data sets; see `molsepnorm.featurize.pyg.from_data`.
        max_degree, max_distance, max_path_length: as in `EncodingSpec`.

    Raises:
        InvalidMolecule: the data are not a molecule; see `molsepnorm.featurize.pyg.from_data`.
        ConfigError: `bond_offset` is missing, or a bond feature is outside `bond_sizes`.
    """

    def __init__(
        self,
        bond_sizes: tuple[int, ...],
        bond_offset: int | None = None,
        max_degree: int = 15,
        max_distance: int = 39,
        max_path_length: int = 20,
    ) -> None:
        self.spec = EncodingSpec(tuple(bond_sizes), max_degree, max_distance, max_path_length)
        self.bond_offset = checked_offset(bond_offset)

    def __repr__(self) -> str:
        """Show all arguments: PyTorch Geometric identifies a `pre_transform` by its repr."""
        arguments = {**asdict(self.spec), "bond_offset": self.bond_offset}
        del arguments["molecule_features"]
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({shown})"

    def forward(self, data: Data) -> Data:
        """Add the encodings to `data`."""
        graph = replace(from_data(data, self.bond_offset), features=None)
        encoded = encode([graph], self.spec)
        atoms = torch.arange(int(encoded.sizes[0]))
        codes = encoded.pairs
        data.degree = torch.from_numpy(encoded.degrees.astype(np.int64))
        data.pair_index = torch.cartesian_prod(atoms, atoms).T.contiguous()
        data.pair_distance = torch.from_numpy(encoded.paths.depths[codes].astype(np.int16))
        bonds = encoded.paths.bonds_of_all().astype(np.int16)[:, : self.spec.max_path_length]
        padding = ((0, 0), (0, self.spec.max_path_length - bonds.shape[1]))
        data.pair_path = torch.from_numpy(np.pad(bonds, padding, constant_values=NO_BOND)[codes])
        return data
