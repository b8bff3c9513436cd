"""PyTorch Geometric's data: input of `Graphormer`, conversion of molecules, and a transform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.interop.transform import AddShortestPathEncoding
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.molecules.featurize.pyg import checked_offset, from_data, to_data
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, GraphormerConfig

__all__ = ["AddShortestPathEncoding", "Collate", "from_data", "graphormer_config", "to_data"]


class Collate:
    """Makes the batches of a `torch.utils.data.DataLoader`, in its workers if it has some.

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
        config: the architecture of the network.
        bond_offset: the attribute of the first bond label (required): 1 for PyTorch Geometric's
            ZINC, 0 for OGB's data sets; see `molsepnorm.featurize.pyg.from_data`.
        max_groups: largest number of groups that the molecules of a batch are padded in.

    Raises:
        ConfigError: `bond_offset` is missing.
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
            ConfigError: `molecules` is empty, is a `Data` or `Batch`, or contains a `Batch`; the
                features do not fit the architecture; or only some molecules have labels, or other
                numbers of them.
        """
        if isinstance(molecules, Data):
            raise ConfigError(
                f"Collate reads a list of Data; got {type(molecules).__name__}. Pass [data] for a "
                "single molecule. For batches use torch.utils.data.DataLoader; the DataLoader of "
                "torch_geometric ignores collate_fn"
            )
        if not molecules:
            raise ConfigError("the batch has no molecules: pass a list of at least one Data")
        graphs = [_graph(data, number, self.bond_offset) for number, data in enumerate(molecules)]
        encoded = encode(graphs, encoding_of(self.config), self.config.atom_sizes)
        batch = GraphTensors.of(encoded).cut(np.arange(len(graphs)), self.max_groups)
        labels = [getattr(data, "y", None) for data in molecules]
        if all(each is None for each in labels):
            return batch, None
        if any(each is None for each in labels):
            number = next(i for i, each in enumerate(labels) if each is None)
            raise ConfigError(f"molecule {number} of the batch has no y, and others have one")
        rows = [torch.as_tensor(each, dtype=torch.float32).reshape(1, -1) for each in labels]
        for number, row in enumerate(rows):
            if row.shape != rows[0].shape:
                raise ConfigError(
                    f"molecule {number} of the batch has {row.shape[1]} labels in y, and molecule "
                    f"0 has {rows[0].shape[1]}"
                )
        return batch, torch.cat(rows)


def graphormer_config(
    dataset: Iterable[Data], bond_offset: int | None = None, **settings: Any
) -> GraphormerConfig:
    """Return an architecture whose tables of features fit all molecules of a data set.

    Args:
        dataset: the molecules, of all splits: a value that is in none of them has no embedding.
        bond_offset: as in `Collate`.
        settings: fields of `GraphormerConfig`; they take precedence.

    Raises:
        ConfigError: there are no molecules, one of them is a `Batch`, their features differ in
            number, or `bond_offset` is missing.
        InvalidMolecule: a molecule cannot be read; the message has its number.
    """
    offset = checked_offset(bond_offset)
    atoms, bonds, shapes, degree = np.zeros(0, int), np.zeros(0, int), set(), 1
    for number, data in enumerate(dataset):
        graph = _graph(data, number, offset)
        own = graph.atom_features.shape[1], graph.bond_features.shape[1]
        y = getattr(data, "y", None)
        outputs = 1 if y is None else int(torch.as_tensor(y).numel())
        features = 0 if graph.features is None else len(graph.features)
        shapes.add((*own, outputs, features))
        if len(shapes) > 1:
            raise ConfigError(
                f"molecule {number} has {own[0]} atom features, {own[1]} bond features, {outputs} "
                f"labels and {features} molecule features, unlike the molecules before it"
            )
        if number == 0:
            atoms, bonds = np.zeros(own[0], int), np.zeros(own[1], int)
        atoms = np.maximum(atoms, graph.atom_features.max(axis=0))
        bonds = np.maximum(bonds, graph.bond_features.max(axis=0, initial=0))
        degree = max(degree, int(np.bincount(graph.bonds.ravel(), minlength=1).max()))
    if not shapes:
        raise ConfigError("the data set has no molecules")
    _, _, outputs, features = shapes.pop()
    found = {
        "atom_sizes": tuple(int(each) + 1 for each in atoms),
        "bond_sizes": tuple(int(each) + 1 for each in bonds),
        "max_degree": min(degree, 255),
        "molecule_features": features,
        "outputs": outputs,
    }
    return GraphormerConfig(**{**found, **settings})


def _graph(data: Data, number: int, offset: int) -> MolGraph:
    try:
        return from_data(data, offset)
    except InvalidMolecule as error:
        raise InvalidMolecule(f"molecule {number}: {error}") from None
