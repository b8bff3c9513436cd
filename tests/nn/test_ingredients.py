"""Properties of the network that hold with every optional part."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.nn.config import NORMS
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.local import GINE
from molsepnorm.nn.parts import PLAIN
from molsepnorm.sepnorm.sepnorm import SepNorm
from support import SMALL, batch_of, far_from_initial, renumbered

SMILES = (
    "C1CC2CCC1C2",  # norbornane: bridged
    "C12C3C4C1C5C2C3C45",  # cubane: many shortest paths
    "C=C1C=CC(=O)C(C#N)=C1",  # an even ring whose two sides differ
    "CC(=O)[O-].C[NH3+]",  # a salt
    "CCCCCCCCC(C)(C)O",  # longer than the largest distance below
    "C",
)
INGREDIENTS: dict[str, dict] = {
    "GINE": {"local": "gine"},
    "RWSE": {"node_walks": 6},
    "RRWP": {"pair_walks": 6},
    "RRWP and RWSE": {"pair_walks": 3, "node_walks": 6},
    "mean": {"readout": "mean"},
    "sum": {"readout": "sum"},
    "token and mean": {"readout": "token+mean", "norm": "shared"},
    "token and sum, local": {"local": "gine", "readout": "token+sum"},
    "none": {},
    "batch norms": {"norm": "sep-bn"},
    "layer and batch norm": {"norm": "sep-ln-bn"},
    "RMS norm": {"norm": "sep-rms-bn"},
    "shared batch norm": {"norm": "shared-bn"},
}
each_ingredient = pytest.mark.parametrize("options", INGREDIENTS.values(), ids=INGREDIENTS)


def graphs() -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in SMILES]


def network(options: dict) -> Graphormer:
    return far_from_initial(GraphormerConfig(**SMALL | options)).double()


@pytest.mark.claim(
    "With every optional part, predictions do not depend on atom order or on the other "
    "molecules: 1e-9 in float64."
)
@each_ingredient
def test_atom_order_does_not_matter(options: dict) -> None:
    model, rng = network(options), np.random.default_rng(0)
    others = [renumbered(graph, rng) for graph in graphs()]
    expected = model(batch_of(graphs(), model.config))
    found = model(batch_of(others, model.config, max_groups=3))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert expected.std(0).min() > 1e-3


@each_ingredient
def test_other_molecules_of_a_batch_do_not_matter(options: dict) -> None:
    """An output is the same alone and in any batch, order and padded group."""
    model, order = network(options), [4, 0, 2, 5, 1, 3]
    expected = torch.cat([model(batch_of([graph], model.config)) for graph in graphs()])
    for max_groups in (1, 2, 4):
        found = model(batch_of([graphs()[i] for i in order], model.config, max_groups))
        torch.testing.assert_close(found, expected[order], rtol=1e-9, atol=1e-9)


@each_ingredient
@pytest.mark.parametrize("training", [True, False])
def test_fast_and_plain_networks_are_equal(options: dict, training: bool) -> None:
    """Outputs and gradients, from the same weights and without dropout."""
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    fast = network(options | still).train(training)
    plain = Graphormer(fast.config, PLAIN).double().train(training)
    plain.load_state_dict(fast.state_dict())
    batch = batch_of(graphs(), fast.config, max_groups=2)
    outputs = [model(batch) for model in (fast, plain)]
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-9)
    inputs = [[p for p in model.parameters() if p.requires_grad] for model in (fast, plain)]
    gradients = [
        torch.autograd.grad(y.square().sum(), parameters)
        for y, parameters in zip(outputs, inputs, strict=True)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)


# --- one molecule at a time, by the equations ----------------------------------------------------

ALL = {"local": "gine", "norm": "sep-bn", "node_walks": 6, "pair_walks": 3}


def slow_bias(model: Graphormer, graph: MolGraph) -> Tensor:  # (S, S, H)
    """The bias with networkx's shortest paths, the smallest bond sequence among them."""
    own, config, slots = model.pair_encoding.bias, model.config, graph.num_atoms + 1
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_atoms))
    for (a, b), (label,) in zip(graph.bonds.tolist(), graph.bond_features.tolist(), strict=True):
        network.add_edge(a, b, label=label)
    bias = own.graph_token.repeat(slots, slots, 1)
    for i in range(graph.num_atoms):
        for j in range(graph.num_atoms):
            if not nx.has_path(network, i, j):
                bias[1 + i, 1 + j] = own.unreachable
                continue
            labels = min(
                [network.edges[bond]["label"] for bond in nx.utils.pairwise(path)]
                for path in nx.all_shortest_paths(network, i, j)
            )
            kept = labels[: config.max_path_length]
            terms = [own.positions[k] @ own.bonds[0][label] for k, label in enumerate(kept)]
            spatial = own.spatial[min(len(labels), config.max_distance)]
            bias[1 + i, 1 + j] = spatial + sum(terms) / max(len(kept), 1)
    return bias


def slow_pairs(model: Graphormer, graph: MolGraph) -> dict[str, Tensor]:
    """The pair encoding of one molecule, from a dense matrix (S, S) of its bonds."""
    size, config, encoding = 1 + graph.num_atoms, model.config, model.pair_encoding
    bonded = torch.zeros(size, size, dtype=torch.float64)
    first, second = 1 + torch.from_numpy(graph.bonds.astype(np.int64)).T
    bonded[first, second] = bonded[second, first] = 1
    degrees = bonded.sum(1)
    atoms = torch.ones(size, dtype=torch.float64)
    atoms[0] = 0
    powers = [torch.diag(atoms)]
    for _ in range(max(config.node_walks, config.pair_walks)):
        powers.append((bonded / degrees.clamp(min=1)[:, None]) @ powers[-1])
    walks = torch.stack(powers, dim=-1)
    bias = slow_bias(model, graph)
    if encoding.pair_bias is not None:
        bias = bias + encoding.pair_bias.outer(walks[..., : config.pair_walks + 1])
    return {"degrees": degrees, "walks": walks, "bias": bias.permute(2, 0, 1)}


def slow_norm(site: nn.Module, x: Tensor) -> Tensor:  # (S, C), in evaluation
    if isinstance(site, SepNorm):
        return torch.cat([site.cls_norm(x[:1]), site.tok_norm(x[1:])])
    return site.norm(x)


def slow_attention(layer: GraphormerLayer, x: Tensor, given: dict[str, Tensor]) -> Tensor:
    """Attention of a layer, head by head."""
    attention, bias = layer.attention, given["bias"]
    heads = []
    by_head = attention.qkv(x).unflatten(1, (3, len(bias), -1)).unbind(2)
    for part, shift in zip(by_head, bias, strict=True):
        q, k, v = part.unbind(1)
        weights = (q @ k.T / q.shape[1] ** 0.5 + shift).softmax(1)
        heads.append(weights @ v)
    return attention.out(torch.cat(heads, dim=1))


def slow_local(layer: GraphormerLayer, x: Tensor, graph: MolGraph) -> Tensor:  # (S, C)
    """The local branch, bond by bond; 0 for the graph token."""
    gine, y = layer.local, (1 + layer.local.epsilon) * x
    for (a, b), (label,) in zip(graph.bonds.tolist(), graph.bond_features.tolist(), strict=True):
        for target, source in ((a, b), (b, a)):
            message = torch.relu(x[1 + source] + gine.bonds[0][label])
            y = y.index_add(0, torch.tensor([1 + target]), message[None])
    y = gine.mlp_out(F.gelu(gine.mlp_in(y)))
    return torch.cat([torch.zeros_like(y[:1]), y[1:]])


def slow_forward(model: Graphormer, graph: MolGraph) -> Tensor:  # (outputs,)
    """The equations of the network for one molecule, in evaluation."""
    config, given = model.config, slow_pairs(model, graph)
    embedding, degrees = model.embedding, given["degrees"][1:].long().clamp(max=config.max_degree)
    atoms = embedding.atoms[torch.from_numpy(graph.atom_features[:, 0].astype(np.int64))]
    atoms = atoms + embedding.degrees[degrees]
    if config.node_walks:
        returns = given["walks"].diagonal()[1 : config.node_walks + 1].T[1:]
        encoding = embedding.walk_encoding
        atoms = atoms + encoding.linear(returns * encoding.scale)
    x = torch.cat([embedding.graph_token[None], atoms])
    for layer in model.layers:
        h = slow_norm(layer.attention_norm, x)
        y = slow_attention(layer, h, given)
        if isinstance(layer.local, GINE):
            y = y + slow_local(layer, h, graph)
        x = x + y
        x = x + layer.ffn_out(F.gelu(layer.ffn_in(slow_norm(layer.ffn_norm, x))))
    x = slow_norm(model.last_norm, x)
    read = {"token": x[0], "mean": x[1:].mean(0), "sum": x[1:].sum(0) / 16}
    return model.head(torch.cat([read[part] for part in config.readout.split("+")]))


@pytest.mark.claim(
    "The whole network equals a plain forward pass that treats one molecule at a time, with every "
    "optional part (model.md), to 1e-9 in float64."
)
@pytest.mark.parametrize(
    "options",
    [
        *(ALL, ALL | {"readout": "token+sum"}),
        *(ALL | {"readout": "mean", "norm": "shared-bn"}, ALL | {"readout": "token+mean"}),
        *({"norm": name} for name in NORMS),
    ],
    ids=str,
)
@torch.no_grad()
def test_equals_an_independent_forward_pass(options: dict) -> None:
    """Molecule by molecule, by networkx's paths, without padding and tables of neighbours."""
    model = network(options)
    expected = torch.stack([slow_forward(model, graph) for graph in graphs()])
    found = model(batch_of(graphs(), model.config, max_groups=2))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
