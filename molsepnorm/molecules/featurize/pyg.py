"""Convert between `MolGraph` and PyTorch Geometric's `Data`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral

import numpy as np
import torch
from torch_geometric.data import Batch, Data

from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.molecules.featurize.registry import CHIRALITY, get
from molsepnorm.molecules.molecule import MolGraph


def to_data(
    graph: MolGraph,
    y: float | Sequence[float] | np.ndarray | torch.Tensor | None = None,
    smiles: str | None = None,
) -> Data:
    """Return the graph as PyTorch Geometric's `Data`, each bond as two adjacent directed edges.

    The layout is OGB's: `x` int64 [N, A], `edge_index` int64 [2, 2M] and `edge_attr` int64 [2M, K];
    perhaps also `molecule_features` float32 [1, F], `y` float32 [1, T] and `smiles`.

    >>> data = to_data(get("zinc")("CC=O"), y=1.5)
    >>> data
    Data(x=[3, 1], edge_index=[2, 4], edge_attr=[4, 1], y=[1, 1])
    >>> data.edge_index.tolist(), data.edge_attr.flatten().tolist()
    ([[0, 1, 1, 2], [1, 0, 2, 1]], [0, 0, 1, 1])
    """
    directed = np.stack([graph.bonds, graph.bonds[:, ::-1]], axis=1)  # [M, 2, 2]
    data = Data(
        x=torch.from_numpy(graph.atom_features.astype(np.int64)),
        edge_index=torch.from_numpy(directed.reshape(-1, 2).T.astype(np.int64)),
        edge_attr=torch.from_numpy(graph.bond_features.astype(np.int64).repeat(2, axis=0)),
    )
    if graph.features is not None:
        data.molecule_features = torch.from_numpy(graph.features)[None]
    if y is not None:
        data.y = torch.as_tensor(y, dtype=torch.float32).reshape(1, -1)
    if smiles is not None:
        data.smiles = smiles
    return data


def from_data(data: Data, bond_offset: int | None = None) -> MolGraph:
    """Return the graph in `data`, with bonds in the order and direction of their first edges.

    This is the inverse of `to_data`, for data of any origin: `x` may be [N] or [N, A], `edge_attr`
    [E] or [E, K]. Every bond must occur in both directions, with equal attributes. Features do not
    change, so chirality tags of OGB's data sets remain different from those of the featurisers.

    Args:
        bond_offset: the attribute of the first bond label, which is subtracted from `edge_attr`;
            required. It is 1 for PyTorch Geometric's ZINC, 0 for OGB's data sets and `to_data`, and
            otherwise the smallest `edge_attr` of the whole data set.

    Raises:
        ConfigError: `bond_offset` is missing, or not a non-negative integer, or `data` is a batch.
        InvalidMolecule: an array is missing or has a wrong shape, an edge occurs in one direction
            only, twice, from an atom to itself or with different attributes, or `MolGraph` refuses
            the arrays.
    """
    bond_offset = checked_offset(bond_offset)
    if isinstance(data, Batch) or "batch" in data or "ptr" in data:
        raise ConfigError(
            "the data are a batch of PyTorch Geometric instead of a single molecule: pass the data "
            "set instead of its DataLoader, or batch.to_data_list()"
        )
    x = _array(data, "x", "[N] or [N, A]")
    edge_index = _array(data, "edge_index", "[2, E]")
    edge_attr = _array(data, "edge_attr", "[E] or [E, K]")
    if len(edge_attr) != edge_index.shape[1]:
        raise InvalidMolecule(
            f"edge_attr must have one row for each of the {edge_index.shape[1]} edges in "
            f"edge_index; got {len(edge_attr)}"
        )
    if edge_attr.size and edge_attr.min() < bond_offset:
        raise InvalidMolecule(
            f"edge_attr holds {edge_attr.min()}, below bond_offset {bond_offset}; "
            "bond_offset is the attribute of the first bond label"
        )
    rows = _one_row_per_bond(edge_index.T.tolist(), edge_attr.tolist())
    features = getattr(data, "molecule_features", None)
    return MolGraph(
        x,
        edge_index.T[rows],
        edge_attr[rows] - bond_offset,
        None if features is None else np.asarray(features.detach().cpu()).reshape(-1),
    )


def featurized(data: Data, bond_offset: int | None, featurizer: str) -> MolGraph:
    """Return the graph of `data` with the chirality tags of a featuriser.

    The tags of OGB's data sets depend on the order in which a SMILES is written. The graph is
    therefore made from `data.smiles` if RDKit can read it, and otherwise must have no tags.
    """
    graph = from_data(data, bond_offset)
    tags = slice(CHIRALITY, CHIRALITY + (featurizer == "ogb"))
    smiles = getattr(data, "smiles", None)
    made = get(featurizer).many([smiles])[0] if isinstance(smiles, str) else None
    if not isinstance(made, MolGraph):
        if graph.atom_features[:, tags].any():
            raise ConfigError(
                "the graph has chirality tags, whose meaning depends on the order of its SMILES, "
                "and no SMILES that RDKit can read: pass the SMILES instead of the graph, or add "
                "it as in to_data(graph, y, smiles)"
            )
        return graph
    atoms, expected = (
        sorted(np.delete(each.atom_features, tags, axis=1).tolist()) for each in (graph, made)
    )
    if len(atoms) == len(expected) and atoms != expected:
        raise ConfigError(
            f"the atoms of the graph with the SMILES {smiles} have other features than those of "
            f"the featuriser {featurizer}. from_smiles and MoleculeNet of PyTorch Geometric number "
            "the values in another way: pass the SMILES instead, or graphs of "
            f"molsepnorm.molecules.featurize.get('{featurizer}')"
        )
    return replace(made, features=graph.features)


def checked_offset(bond_offset: int | None) -> int:
    if bond_offset is None:
        raise ConfigError(
            "bond_offset is missing: pass the attribute of the first bond label. It is 1 for "
            "PyTorch Geometric's ZINC and 0 for OGB's data sets and to_data. For other data it is "
            "the smallest value in the whole data set: "
            "min(int(data.edge_attr.min()) for data in dataset if data.num_edges)"
        )
    if isinstance(bond_offset, bool) or not isinstance(bond_offset, Integral) or bond_offset < 0:
        raise ConfigError(f"bond_offset must be an integer of 0 or more; got {bond_offset!r}")
    return int(bond_offset)


def _one_row_per_bond(edges: list[list[int]], attributes: list[list[int]]) -> list[int]:
    """Return the row of the first edge of each bond."""
    row_of = {(i, j): row for row, (i, j) in enumerate(edges)}
    rows = []
    for row, (i, j) in enumerate(edges):
        back = row_of.get((j, i))
        problem = ""
        if row_of[i, j] != row:
            problem = f"edge ({i}, {j}) is in edge_index twice"
        elif i == j:
            problem = f"edge ({i}, {j}) joins an atom to itself; drop self-loops"
        elif back is None:
            problem = f"edge ({i}, {j}) is in edge_index without ({j}, {i}); add all reverse edges"
        elif attributes[row] != attributes[back]:
            problem = f"edges ({i}, {j}) and ({j}, {i}) have different edge_attr: "
            problem += f"{attributes[row]} and {attributes[back]}"
        elif row < back:
            rows.append(row)
        if problem:
            raise InvalidMolecule(problem)
    return rows


def _array(data: Data, name: str, shape: str) -> np.ndarray:
    value = getattr(data, name, None)
    if value is None:
        raise InvalidMolecule(f"the data has no {name}; expected integers of shape {shape}")
    array = np.asarray(value.detach().cpu())
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidMolecule(f"{name} must hold integers of shape {shape}; got {array.dtype}")
    if array.ndim == 1 and " or " in shape:
        return array[:, None]
    if array.ndim != 2 or (shape == "[2, E]" and len(array) != 2):
        raise InvalidMolecule(f"{name} must have shape {shape}; got {list(array.shape)}")
    return array
