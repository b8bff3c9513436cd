"""A plain forward pass of the other Graphormers, in evaluation mode, to check an import.

`reference_inputs` prepares molecules as the reference does, if their shortest paths are unique (the
reference chooses among several by the order of the atoms). `v1_outputs` is the first release; the
encoder of transformers computes the same with other names, see `v1_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.molecules.molecule import MolGraph

__all__ = ["MOLECULES", "reference_inputs", "v1_outputs", "v1_tokens"]

_LONG = "N#CC(F)(Cl)C=C" + 18 * "C" + "Br"
_SALT = "CC(=O)[O-].C[NH3+]"
MOLECULES = {
    "zinc": ("C", "CCO", "CC1CCCC1C(=O)S", _LONG, "OC1CC1C(C)(C)NCI", _SALT),
    "ogb": ("C", "CCO", "CC1CCCC1C(=O)S", _LONG, "O[SiH]1CC1P(C)N[SeH]", _SALT),
}
"""Molecules without even rings, so that all shortest paths are unique."""

_FIRST_ATOM_ROW = {"graphormer-v1": 2, "hf": 3}
_UNREACHABLE = 510


def reference_inputs(
    graphs: Sequence[MolGraph], source: str, featurizer: str, length: int
) -> dict[str, Tensor]:
    """Return the inputs of the other network, named as in transformers.

    Args:
        graphs: B molecules with up to N atoms.
        source: "graphormer-v1" or "hf", which differ in the rows of atoms.
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
            ("input_nodes", _rows(graph.atom_features, _FIRST_ATOM_ROW[source])),
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


def v1_outputs(w: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Tensor:  # (B, outputs)
    """Return the outputs of a graphormer-v1 network.

    Args:
        w: the weights by the names in `.formats`.
        inputs: the result of `reference_inputs`, with the network's multi_hop_max_dist as length.
    """
    return _linear(w, "downstream_out_proj", _norm(w, "final_ln", v1_tokens(w, inputs)))


def v1_tokens(w: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Tensor:  # (B, C)
    """Return the graph token of a graphormer-v1 network after the last layer."""
    degree = inputs["in_degree"]
    nodes = w["atom_encoder.weight"][inputs["input_nodes"]].sum(dim=2)
    nodes = nodes + w["in_degree_encoder.weight"][degree] + w["out_degree_encoder.weight"][degree]
    x = torch.cat([w["graph_token.weight"].expand(len(nodes), 1, -1), nodes], dim=1)  # (B, S, C)
    padding = F.pad(degree == 0, (1, 0))[:, None, None]
    bias = _v1_bias(w, inputs).masked_fill(padding, -torch.inf)  # (B, H, S, S)
    layer = 0
    while (at := f"layers.{layer}") + ".ffn.layer1.weight" in w:
        h = _norm(w, f"{at}.self_attention_norm", x)
        q, k, v = (
            _linear(w, f"{at}.self_attention.linear_{part}", h)
            .unflatten(2, (bias.shape[1], -1))
            .transpose(1, 2)
            for part in "qkv"
        )
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        attended = attended.transpose(1, 2).flatten(2)
        x = x + _linear(w, f"{at}.self_attention.output_layer", attended)
        h = F.gelu(_linear(w, f"{at}.ffn.layer1", _norm(w, f"{at}.ffn_norm", x)))
        x = x + _linear(w, f"{at}.ffn.layer2", h)
        layer += 1
    return x[:, 0]


def _linear(w: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def _norm(w: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


def _v1_bias(w: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Tensor:  # (B, H, S, S)
    spatial, edges = inputs["spatial_pos"], inputs["input_edges"]
    token = w["graph_token_virtual_distance.weight"][0]
    heads, length = len(token), edges.shape[3]
    matrices = w["edge_dis_encoder.weight"].reshape(-1, heads, heads)[:length]
    bonds = w["edge_encoder.weight"][edges].mean(dim=4)  # (B, N, N, L, H)
    path = torch.einsum("bijlh,lhk->bijk", bonds, matrices)
    distance = (spatial - 1).clamp(1, length)[..., None]
    pairs = w["spatial_pos_encoder.weight"][spatial] + path / distance
    bias = token.repeat(len(spatial), *(size + 1 for size in spatial.shape[1:]), 1)
    bias[:, 1:, 1:] = pairs
    return bias.permute(0, 3, 1, 2)
