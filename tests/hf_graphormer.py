"""The weights and inputs of Graphormer in transformers 4.57.6.

Its inputs are built by hand, since its own preprocessing wants Cython. They are the same if all
shortest paths are unique, as transformers chooses among several by the order of the atoms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.config import GraphormerConfig

_UNREACHABLE = 510
_STRIDE = 512  # rows per feature in the tables of atoms and of bonds


def converted(
    theirs: Mapping[str, Tensor], featurizer: str, length: int
) -> tuple[GraphormerConfig, dict[str, Tensor]]:
    """Return our configuration and weights from those of transformers' encoder, a pre-norm network
    whose rows for padding are zero; its head and its last norm are left out.

    Value x of feature f is in row x + 512 f + 3 of one table, ZINC's bonds one row further. A
    degree or a distance d is in row d + 1, and atoms of different fragments are at distance 510.
    The matrix of a position multiplies a row vector from the right there, ours a column vector from
    the left.
    """
    nodes, pairs = "graph_node_feature.", "graph_attn_bias."
    found = {name.partition("graph_encoder.")[2]: value for name, value in theirs.items()}
    sizes = featurize.SIZES[featurizer]

    def features(name: str, sizes: Sequence[int], first: int) -> list[Tensor]:
        table = found[f"{name}.weight"]
        return [table[first + _STRIDE * f :][:size] for f, size in enumerate(sizes)]

    spatial = found[f"{pairs}spatial_pos_encoder.weight"]
    heads = spatial.shape[1]
    positions = found[f"{pairs}edge_dis_encoder.weight"].view(-1, heads, heads).transpose(1, 2)
    bonds = features(f"{pairs}edge_encoder", sizes.bonds, 3 + (featurizer == "zinc"))
    token = found[f"{nodes}graph_token.weight"][0]
    ours = {
        "embedding.graph_token": token,
        "embedding.atoms": torch.cat(features(f"{nodes}atom_encoder", sizes.atoms, 3)),
        "embedding.degrees": sum(
            found[f"{nodes}{way}_degree_encoder.weight"][1:8] for way in ("in", "out")
        ),
        "pair_encoding.bias.graph_token": found[f"{pairs}graph_token_virtual_distance.weight"][0],
        "pair_encoding.bias.spatial": spatial[1:257],
        "pair_encoding.bias.unreachable": spatial[_UNREACHABLE + 1],
        "pair_encoding.bias.positions": positions[:length],
        **{f"pair_encoding.bias.bonds.{f}": rows for f, rows in enumerate(bonds)},
    }
    modules = {
        "attention_norm.norm": ("self_attn_layer_norm",),
        "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attention.out": ("self_attn.out_proj",),
        "ffn_norm.norm": ("final_layer_norm",),
        "ffn_in": ("fc1",),
        "ffn_out": ("fc2",),
    }
    layers = sum(name.endswith("fc1.bias") for name in found)
    for at, kind in product([f"layers.{n}" for n in range(layers)], ("weight", "bias")):
        for own, parts in modules.items():
            rows = [found[f"{at}.{part}.{kind}"] for part in parts]
            ours[f"{at}.{own}.{kind}"] = torch.cat(rows)
    config = GraphormerConfig(
        layers=layers,
        width=len(token),
        ffn_width=len(found["layers.0.fc1.bias"]),
        heads=heads,
        norm="shared",
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        max_degree=6,
        max_distance=255,
        max_path_length=length,
        outputs=0,
    )
    return config, ours


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
    return features.astype(np.int64) + first + _STRIDE * np.arange(features.shape[1])
