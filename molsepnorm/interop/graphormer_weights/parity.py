"""The other Graphormers' own forward passes, to check an import against.

`reference_inputs` prepares molecules as their preprocessing does: Floyd and Warshall's shortest
paths, which of several equal ones keeps what the order of the atoms gives, and shifted indices.
`v1_outputs` is the first release written out slowly, one molecule at a time; `hf_tokens` runs the
network of transformers itself, where it is installed. All in evaluation mode.
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
"""Molecules without even rings, so that every shortest path is the only one."""

_UNREACHABLE = 510
_PAD_ATOMS = {"graphormer-v1": 1, "hf": 2}


def reference_inputs(
    graphs: Sequence[MolGraph], source: str, featurizer: str, length: int
) -> dict[str, Tensor]:
    """A batch as the other network reads it, under the names of transformers.

    Args:
        graphs: molecules, B of them with up to N atoms.
        source: "graphormer-v1" or "hf", which differ in the rows of atoms.
        featurizer: of the molecules; ZINC's bonds are counted from 1 there.
        length: the bonds that paths are cut or padded to, L.

    Returns:
        input_nodes (B, N, A), in_degree and out_degree (B, N), spatial_pos (B, N, N),
        input_edges (B, N, N, L, F), attn_bias (B, N + 1, N + 1), attn_edge_type (B, N, N, F).
    """
    most = max(graph.num_atoms for graph in graphs)
    num_features = graphs[0].bond_features.shape[1]
    shapes = {
        "input_nodes": (most, graphs[0].atom_features.shape[1]),
        "in_degree": (most,),
        "spatial_pos": (most, most),
        "input_edges": (most, most, length, num_features),
        "attn_edge_type": (most, most, num_features),
    }
    batch = {
        name: torch.zeros(len(graphs), *shape, dtype=torch.int64) for name, shape in shapes.items()
    }
    for place, graph in enumerate(graphs):
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
            batch[name][place][corner] = torch.from_numpy(value)
    bias = torch.zeros(len(graphs), most + 1, most + 1)
    return {**batch, "out_degree": batch["in_degree"], "attn_bias": bias}


def _single_embedding(features: np.ndarray) -> np.ndarray:
    """All features of an atom or a bond as rows of one table, 512 for each."""
    return features + 1 + 512 * np.arange(features.shape[1])


def _floyd_warshall(adjacent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances (N, N), and an atom between each pair, −1 where there is none."""
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
    """What a graphormer-v1 network gives for molecules prepared by `reference_inputs`.

    Args:
        weights: its state dict, with rel_pos_encoder and downstream_out_proj by these names.
        inputs: the molecules; their paths are padded to its multi_hop_max_dist.
    """
    return torch.cat([_v1_output(weights, inputs, i) for i in range(len(inputs["in_degree"]))])


def _v1_output(w: Mapping[str, Tensor], inputs: Mapping[str, Tensor], place: int) -> Tensor:
    size = int((inputs["in_degree"][place] > 0).sum())
    atoms, degree = inputs["input_nodes"][place, :size], inputs["in_degree"][place, :size]
    nodes = w["atom_encoder.weight"][atoms].sum(dim=1)
    nodes = nodes + w["in_degree_encoder.weight"][degree] + w["out_degree_encoder.weight"][degree]
    x = torch.cat([w["graph_token.weight"], nodes])
    spatial = inputs["spatial_pos"][place, :size, :size]
    bias = _v1_bias(w, spatial, inputs["input_edges"][place, :size, :size])  # (S, S, H)

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
    """The bias for one molecule's distances (N, N) and edges (N, N, L, F), as shifted."""
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
    """transformers' network with these weights in its encoder.

    Args:
        weights: the encoder's, by their names within it; they tell its sizes.
        settings: what no tensor tells, such as multi_hop_max_dist.

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
    made.encoder.graph_encoder.load_state_dict(weights, strict=False)  # its head is not read
    return made.eval()


def hf_tokens(network: Any, inputs: Mapping[str, Tensor]) -> Tensor:  # (B, C)
    """The graph token of transformers' network after the last layer."""
    names = ("input_nodes", "input_edges", "attn_bias", "in_degree", "out_degree", "spatial_pos")
    read = {name: inputs[name] for name in (*names, "attn_edge_type")}
    read["attn_bias"] = read["attn_bias"].to(network.dtype)  # in which it adds up the whole bias
    return network.encoder.graph_encoder(**read, last_state_only=True)[1]
