"""Graphormer in transformers 4.57.6, and its inputs.

Its inputs are built by hand, since its own preprocessing wants Cython. They are the same if all
shortest paths are unique, as transformers chooses among several by the order of the atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor, nn

from molsepnorm.molecules.molecule import MolGraph

_UNREACHABLE = 510
_SIZES = {"zinc": {"num_atoms": 31, "num_edges": 6}, "ogb": {"num_atoms": 4100, "num_edges": 1028}}


def small_network(featurizer: str, **settings: Any) -> nn.Module:
    """A network with random parameters, also in the rows for padding."""
    package = pytest.importorskip("transformers.models.deprecated.graphormer")
    torch.manual_seed(0)
    sizes = {"num_in_degree": 8, "num_out_degree": 9, "num_edge_dis": 6, "num_attention_heads": 4}
    sizes |= {"num_hidden_layers": 2, "embedding_dim": 16, "ffn_embedding_dim": 24}
    config = package.configuration_graphormer.GraphormerConfig(
        **{**sizes, **_SIZES[featurizer], "pre_layernorm": True, **settings}
    )
    network = package.modeling_graphormer.GraphormerForGraphClassification(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.normal_(mean=float(name.endswith("norm.weight")), std=0.3)
    return network.eval()


def reference_inputs(graphs: Sequence[MolGraph], featurizer: str, length: int) -> dict[str, Tensor]:
    """Return the inputs of transformers' encoder.

    Args:
        graphs: B molecules with up to N atoms.
        featurizer: name of the molecules' featuriser; ZINC's bonds are counted from 1 there.
        length: L, the number of bonds to which paths are cut or padded.

    Returns:
        input_nodes (B, N, A), in_degree and out_degree (B, N), spatial_pos (B, N, N),
        input_edges (B, N, N, L, F), attn_bias (B, N + 1, N + 1), attn_edge_type (B, N, N, F).
    """
    max_atoms = max(graph.num_atoms for graph in graphs)
    num_features = graphs[0].bond_features.shape[1]
    shapes = {
        "input_nodes": (max_atoms, graphs[0].atom_features.shape[1]),
        "in_degree": (max_atoms,),
        "spatial_pos": (max_atoms, max_atoms),
        "input_edges": (max_atoms, max_atoms, length, num_features),
        "attn_edge_type": (max_atoms, max_atoms, num_features),
    }
    batch = {
        name: torch.zeros(len(graphs), *shape, dtype=torch.int64) for name, shape in shapes.items()
    }
    for index, graph in enumerate(graphs):
        n = graph.num_atoms
        types = np.zeros((n, n, num_features), dtype=np.int64)
        for a, b in (graph.bonds.T, graph.bonds.T[::-1]):
            types[a, b] = _rows(graph.bond_features, 2 + (featurizer == "zinc"))
        adjacent = types[:, :, 0] > 0
        distance, previous = shortest_path(adjacent, unweighted=True, return_predecessors=True)
        distance[np.isinf(distance)] = _UNREACHABLE
        edges = np.zeros((n, n, length, num_features), dtype=np.int64)
        for i, j in np.argwhere(distance < _UNREACHABLE):
            path = [j]
            while path[-1] != i:
                path.append(previous[i, path[-1]])
            for k, (a, b) in enumerate(pairwise(path[::-1][: length + 1])):
                edges[i, j, k] = types[a, b] + 1
        for name, value in (
            ("input_nodes", _rows(graph.atom_features, 3)),
            ("in_degree", adjacent.sum(axis=1) + 1),
            ("spatial_pos", distance + 1),
            ("input_edges", edges),
            ("attn_edge_type", types),
        ):
            corner = tuple(slice(size) for size in value.shape)
            batch[name][index][corner] = torch.from_numpy(value)
    bias = torch.zeros(len(graphs), max_atoms + 1, max_atoms + 1)
    return {**batch, "out_degree": batch["in_degree"], "attn_bias": bias}


def _rows(features: np.ndarray, first: int) -> np.ndarray:
    """Return the features of atoms or bonds as rows of one table, 512 rows per feature."""
    return features.astype(np.int64) + first + 512 * np.arange(features.shape[1])
