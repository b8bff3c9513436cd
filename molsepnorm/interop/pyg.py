"""PyTorch Geometric: batches for `Graphormer`, conversion of molecules, and a transform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from molsepnorm.data.batching import GraphTensors
from molsepnorm.errors import ConfigError, prefixed
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings.encoding import EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import NO_BOND
from molsepnorm.molecules.featurize.pyg import checked_offset, from_data, to_data
from molsepnorm.nn import GraphBatch, GraphormerConfig

__all__ = ["AddShortestPathEncoding", "Collate", "from_data", "graphormer_config", "to_data"]


class Collate:
    """Makes the batches of a `torch.utils.data.DataLoader`.

    A batch is a pair: the `GraphBatch` that `Graphormer` reads, and the labels, float32 (B, T), or
    None if the data have no `y`.

    >>> import torch
    >>> import molsepnorm
    >>> ogb = molsepnorm.featurize.get("ogb")
    >>> dataset = [to_data(ogb(smiles), y=len(smiles)) for smiles in ("CCO", "CN", "CC#N", "C=O")]
    >>> config = graphormer_config(dataset, bond_offset=0, layers=2)
    >>> collate = Collate(config, bond_offset=0)
    >>> loader = torch.utils.data.DataLoader(dataset, batch_size=2, collate_fn=collate)
    >>> network = molsepnorm.Graphormer(config)
    >>> [(network(batch).shape, y.shape) for batch, y in loader]
    [(torch.Size([2, 1]), torch.Size([2, 1])), (torch.Size([2, 1]), torch.Size([2, 1]))]

    Args:
        bond_offset: the attribute of the first bond label (required): 1 for PyTorch Geometric's
            ZINC, 0 for OGB's data sets; see `molsepnorm.featurize.pyg.from_data`.
        max_groups: largest number of groups that the molecules of a batch are padded in.
    """

    def __init__(
        self, config: GraphormerConfig, bond_offset: int | None = None, max_groups: int = 2
    ) -> None:
        self.config = config
        self.bond_offset = checked_offset(bond_offset)
        self.max_groups = max_groups

    def __call__(self, molecules: Sequence[Data]) -> tuple[GraphBatch, Tensor | None]:
        """Return the batch of some molecules, in their order, and their labels.

        Raises:
            InvalidMolecule: one cannot be read; the message has its number in the batch.
            ConfigError: there are no molecules, their features do not fit the architecture, or
                they differ in their number of labels.
        """
        if isinstance(molecules, Data):
            raise ConfigError(
                f"Collate reads a list of Data; got {type(molecules).__name__}. Pass [data] for a "
                "single molecule. For batches use torch.utils.data.DataLoader; the DataLoader of "
                "torch_geometric ignores collate_fn"
            )
        if not molecules:
            raise ConfigError("the batch has no molecules: pass a list of at least one Data")
        graphs = []
        for number, data in enumerate(molecules):
            with prefixed(f"molecule {number}"):
                graphs.append(from_data(data, self.bond_offset))
        encoded = encode(graphs, encoding_of(self.config), self.config.atom_sizes)
        batch = GraphTensors.of(encoded).cut(np.arange(len(graphs)), self.max_groups)
        labels = (getattr(data, "y", None) for data in molecules)
        rows = [
            torch.as_tensor(() if y is None else y, dtype=torch.float32).reshape(1, -1)
            for y in labels
        ]
        width = rows[0].shape[1]
        for number, row in enumerate(rows):
            if row.shape[1] != width:
                raise ConfigError(
                    f"molecule {number} of the batch has {row.shape[1]} labels in y, and molecule "
                    f"0 has {width}"
                )
        return batch, torch.cat(rows) if width else None


def graphormer_config(
    dataset: Iterable[Data], bond_offset: int | None = None, **settings: Any
) -> GraphormerConfig:
    """Return an architecture whose embeddings fit all molecules of a data set.

    Args:
        dataset: the molecules of all splits: a value that is in none of them has no embedding.
        bond_offset: as in `Collate`.
        settings: fields of `GraphormerConfig`; they take precedence.

    Raises:
        ConfigError: there are no molecules, or they differ in their number of features or labels.
        InvalidMolecule: a molecule cannot be read; the message has its number.
    """
    offset = checked_offset(bond_offset)
    atoms = bonds = np.zeros(0, int)
    known, degree = None, 1
    for number, data in enumerate(dataset):
        with prefixed(f"molecule {number}"):
            graph = from_data(data, offset)
        y = getattr(data, "y", None)
        outputs = 1 if y is None else int(torch.as_tensor(y).numel())
        features = 0 if graph.features is None else len(graph.features)
        widths = graph.atom_features.shape[1], graph.bond_features.shape[1]
        counts = (*widths, outputs, features)
        if known is None:
            known = counts
            atoms, bonds = (np.zeros(width, int) for width in widths)
        elif known != counts:
            raise ConfigError(
                f"molecule {number} has {widths[0]} atom features, {widths[1]} bond features, "
                f"{outputs} labels and {features} molecule features, unlike the molecules before it"
            )
        atoms = np.maximum(atoms, graph.atom_features.max(axis=0))
        bonds = np.maximum(bonds, graph.bond_features.max(axis=0, initial=0))
        degree = max(degree, int(np.bincount(graph.bonds.ravel(), minlength=1).max()))
    if known is None:
        raise ConfigError("the data set has no molecules")
    _, _, outputs, features = known
    fitting = {
        "atom_sizes": tuple((atoms + 1).tolist()),
        "bond_sizes": tuple((bonds + 1).tolist()),
        "max_degree": min(degree, 255),
        "molecule_features": features,
        "outputs": outputs,
    }
    return GraphormerConfig(**{**fitting, **settings})


class AddShortestPathEncoding(BaseTransform):
    """Adds degrees, hop distances and canonical shortest paths to a molecule's `Data`.

    The tensors are for other networks; `Graphormer` reads the batches of
    `molsepnorm.interop.pyg.Collate`, which store each pair of atoms as one integer.

    - `degree`: int64 [N], clipped.
    - `pair_index`: int64 [2, N²], every ordered pair of atoms, (0, 0), (0, 1), …
    - `pair_distance`: int16 [N²], clipped; 0 for an atom and itself, −1 in different fragments.
    - `pair_path`: int16 [N², L], the bond labels along the path from the first atom to the second,
      padded with −1. Of several shortest paths it is the one with the lexicographically smallest
      labels. A label combines all features of a bond; the first one changes fastest.

    PyTorch Geometric's loaders batch them.

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
        bond_offset: as in `Collate`.
        max_degree, max_distance, max_path_length: as in `EncodingSpec`.

    Raises:
        InvalidMolecule: the data are not a molecule; see `molsepnorm.featurize.pyg.from_data`.
        ConfigError: a bond feature is outside `bond_sizes`.
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
        # PyTorch Geometric identifies a `pre_transform` by its repr
        arguments = {**asdict(self.spec), "bond_offset": self.bond_offset}
        del arguments["molecule_features"]
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({shown})"

    def forward(self, data: Data) -> Data:
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
