"""Forward passes of the other Graphormers, to check an import.

`reference_inputs` prepares molecules as the reference does: shortest paths by Floyd and Warshall
(ties are broken by the order of the atoms) and shifted indices. `v1_outputs` is a slow version of
the first release, one molecule at a time; `hf_tokens` runs the network of transformers, if it is
installed. All are in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.molecules.molecule import MolGraph

__all__ = ["MOLECULES", "hf_network", "hf_tokens", "reference_inputs", "v1_outputs"]

_LONG = "N#CC(F)(Cl)C=C" + 18 * "C" + "Br"
_SALT = "CC(=O)[O-].C[NH3+]"
MOLECULES = {
    "zinc": ("C", "CCO", "CC1CCCC1C(=O)S", _LONG, "OC1CC1C(C)(C)NCI", _SALT),
    "ogb": ("C", "CCO", "CC1CCCC1C(=O)S", _LONG, "O[SiH]1CC1P(C)N[SeH]", _SALT),
}
"""Molecules without even rings, so that all shortest paths are unique."""

_UNREACHABLE = 510
_PAD_ATOMS = {"graphormer-v1": 1, "hf": 2}


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
        bonds = _single_embedding(graph.bond_features.astype(np.int64) + (featurizer == "zinc"))
        types = np.zeros((n, n, num_features), dtype=np.int64)
        for (a, b), features in zip(graph.bonds.tolist(), bonds + 1, strict=True):
            types[a, b] = types[b, a] = features
        adjacent = types[:, :, 0] > 0
        distance, between = _floyd_warshall(adjacent)
        edges = np.full((n, n, length, num_features), -1)
        for i, j in zip(*np.nonzero((distance > 0) & (distance < _UNREACHABLE)), strict=True):
            path = [i, *_atoms_between(between, i, j), j]
            for k, (a, b) in enumerate(list(pairwise(path))[:length]):
                edges[i, j, k] = types[a, b]
        atoms = _single_embedding(graph.atom_features.astype(np.int64)) + _PAD_ATOMS[source]
        for name, value in (
            ("input_nodes", atoms),
            ("in_degree", adjacent.sum(axis=1) + 1),
            ("spatial_pos", distance + 1),
            ("input_edges", edges + 1),
            ("attn_edge_type", types),
        ):
            corner = tuple(slice(size) for size in value.shape)
            batch[name][index][corner] = torch.from_numpy(value)
    bias = torch.zeros(len(graphs), max_atoms + 1, max_atoms + 1)
    return {**batch, "out_degree": batch["in_degree"], "attn_bias": bias}


def _single_embedding(features: np.ndarray) -> np.ndarray:
    """Return the features of atoms or bonds as rows of one table, 512 rows per feature."""
    return features + 1 + 512 * np.arange(features.shape[1])


def _floyd_warshall(adjacent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distances (N, N), and an atom between each pair, −1 if there is none."""
    distance = np.where(adjacent, 1, _UNREACHABLE)
    np.fill_diagonal(distance, 0)
    between = np.full(adjacent.shape, -1)
    for k in range(len(adjacent)):
        through = distance[:, k, None] + distance[None, k]
        shorter = through < distance
        distance = np.where(shorter, through, distance)
        between[shorter] = k
    return distance, between


def _atoms_between(between: np.ndarray, i: int, j: int) -> list[int]:
    k = between[i, j]
    if k < 0:
        return []
    return [*_atoms_between(between, i, k), k, *_atoms_between(between, k, j)]


def v1_outputs(
    weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
) -> Tensor:  # (B, outputs)
    """Return the outputs of a graphormer-v1 network.

    Args:
        weights: the state dict, with rel_pos_encoder and downstream_out_proj by these names.
        inputs: the result of `reference_inputs`, with the network's multi_hop_max_dist as length.
    """
    return torch.cat([_v1_output(weights, inputs, i) for i in range(len(inputs["in_degree"]))])


def _v1_output(w: Mapping[str, Tensor], inputs: Mapping[str, Tensor], index: int) -> Tensor:
    size = int((inputs["in_degree"][index] > 0).sum())
    atoms, degree = inputs["input_nodes"][index, :size], inputs["in_degree"][index, :size]
    nodes = w["atom_encoder.weight"][atoms].sum(dim=1)
    nodes = nodes + w["in_degree_encoder.weight"][degree] + w["out_degree_encoder.weight"][degree]
    x = torch.cat([w["graph_token.weight"], nodes])
    spatial = inputs["spatial_pos"][index, :size, :size]
    bias = _v1_bias(w, spatial, inputs["input_edges"][index, :size, :size])  # (S, S, H)

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    layer = 0
    while (at := f"layers.{layer}") + ".ffn.layer1.weight" in w:
        h = norm(f"{at}.self_attention_norm", x)
        q, k, v = (linear(f"{at}.self_attention.linear_{part}", h) for part in "qkv")
        heads = []
        for b, *qkv in zip(
            bias.unbind(-1), *(part.chunk(bias.shape[-1], dim=1) for part in (q, k, v)), strict=True
        ):
            logits = qkv[0] @ qkv[1].T / qkv[0].shape[1] ** 0.5 + b
            heads.append(logits.softmax(dim=1) @ qkv[2])
        x = x + linear(f"{at}.self_attention.output_layer", torch.cat(heads, dim=1))
        h = F.gelu(linear(f"{at}.ffn.layer1", norm(f"{at}.ffn_norm", x)))
        x = x + linear(f"{at}.ffn.layer2", h)
        layer += 1
    return linear("downstream_out_proj", norm("final_ln", x[:1]))


def _v1_bias(w: Mapping[str, Tensor], spatial: Tensor, edges: Tensor) -> Tensor:  # (S, S, H)
    """Return the bias for the shifted distances (N, N) and edges (N, N, L, F) of a molecule."""
    heads = w["edge_encoder.weight"].shape[1]
    matrices = w["edge_dis_encoder.weight"].reshape(-1, heads, heads)
    total = torch.zeros(*spatial.shape, heads, dtype=matrices.dtype)
    for k in range(edges.shape[2]):
        total = total + w["edge_encoder.weight"][edges[:, :, k]].mean(dim=2) @ matrices[k]
    bonds = (spatial - 1).clamp(1, edges.shape[2])[:, :, None]
    pairs = w["rel_pos_encoder.weight"][spatial] + total / bonds
    token = w["graph_token_virtual_distance.weight"][0]
    bias = token.repeat(len(spatial) + 1, len(spatial) + 1, 1)
    bias[1:, 1:] = pairs
    return bias


def hf_network(weights: Mapping[str, Tensor], **settings: Any) -> Any:
    """Return transformers' network with these weights in its encoder.

    Args:
        weights: the weights of the encoder, which determine its sizes.
        settings: other hyper-parameters, such as multi_hop_max_dist.

    Raises:
        ImportError: transformers is not installed, or too new to have Graphormer.
    """
    home = "transformers.models.deprecated.graphormer"
    make_config = import_module(f"{home}.configuration_graphormer").GraphormerConfig
    network = import_module(f"{home}.modeling_graphormer").GraphormerForGraphClassification
    size = {name: tensor.shape for name, tensor in weights.items()}
    heads = size["graph_attn_bias.graph_token_virtual_distance.weight"][1]
    of_weights = {
        "num_atoms": size["graph_node_feature.atom_encoder.weight"][0] - 1,
        "num_edges": size["graph_attn_bias.edge_encoder.weight"][0] - 1,
        "num_in_degree": size["graph_node_feature.in_degree_encoder.weight"][0],
        "num_out_degree": size["graph_node_feature.out_degree_encoder.weight"][0],
        "num_spatial": size["graph_attn_bias.spatial_pos_encoder.weight"][0],
        "num_edge_dis": size["graph_attn_bias.edge_dis_encoder.weight"][0] // heads**2,
        "num_hidden_layers": sum(name.endswith("fc1.bias") for name in size),
        "embedding_dim": size["graph_node_feature.graph_token.weight"][1],
        "ffn_embedding_dim": size["layers.0.fc1.bias"][0],
        "num_attention_heads": heads,
        "pre_layernorm": True,
    }
    made = network(make_config(**settings, **of_weights))
    made.encoder.graph_encoder.load_state_dict(weights, strict=False)  # the head is not used
    return made.eval()


def hf_tokens(network: Any, inputs: Mapping[str, Tensor]) -> Tensor:  # (B, C)
    """Return the graph token of transformers' network after the last layer."""
    names = ("input_nodes", "input_edges", "attn_bias", "in_degree", "out_degree", "spatial_pos")
    read = {name: inputs[name] for name in (*names, "attn_edge_type")}
    read["attn_bias"] = read["attn_bias"].to(network.dtype)  # the dtype of the bias
    return network.encoder.graph_encoder(**read, last_state_only=True)[1]
