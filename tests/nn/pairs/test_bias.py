"""The attention bias against the paper's formula, in a loop over atom pairs."""

from __future__ import annotations

from math import prod

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from molsepnorm.data.batching import GraphTensors
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch
from molsepnorm.nn.pairs.bias import AttentionBias

HEADS = 4
ZINC = (
    "CC(=O)Oc1ccccc1C(=O)O",  # branches, an even ring
    "C1CC2CCC1C2",  # norbornane, bridged
    "C12C3C4C1C5C2C3C45",  # cubane, many shortest paths
    "C=C1C=CC2=CC=CC=C12",  # fused, single and double bonds
    "CC#CCC=CCCC(=O)NCC",  # a long chain
    "CC(=O)[O-].C[NH3+]",  # a salt
    "C",  # a single atom
)
OGB = ("[Na+].[Cl-]", "[Na+].[Na+].[O-]C(=O)c1ccc(/C=C/C#N)cc1", "C1CC2CCC1C2", "O")


def batch_of(graphs: list[MolGraph], spec: EncodingSpec, max_groups: int = 1) -> GraphBatch:
    return GraphTensors.of(encode(graphs, spec)).cut(list(range(len(graphs))), max_groups)


def bias_for(spec: EncodingSpec) -> AttentionBias:
    """A float64 module with random parameters."""
    module = AttentionBias(HEADS, spec.bond_sizes, spec.max_distance, spec.max_path_length).double()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def smallest_path(graph: MolGraph, sizes: tuple[int, ...], i: int, j: int) -> list[int] | None:
    """The smallest bond labels of all shortest paths from i to j; None if there is no path."""
    factors = [prod(sizes[:feature]) for feature in range(len(sizes))]
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_atoms))
    for (a, b), features in zip(graph.bonds.tolist(), graph.bond_features.tolist(), strict=True):
        network.add_edge(a, b, label=sum(f * p for f, p in zip(features, factors, strict=True)))
    if not nx.has_path(network, i, j):
        return None
    return min(
        [network.edges[bond]["label"] for bond in nx.utils.pairwise(path)]
        for path in nx.all_shortest_paths(network, i, j)
    )


def slow_pair(module: AttentionBias, spec: EncodingSpec, labels: list[int] | None) -> Tensor:
    """b_ij (H,) for the bonds along the path: s_D + 1/D' Σ_k W_k emb(e_k)."""
    if labels is None:
        return module.unreachable
    distance = len(labels)
    bias = module.spatial[min(distance, spec.max_distance)].clone()
    kept = labels[: spec.max_path_length]
    for k, label in enumerate(kept):
        embedding = torch.zeros(HEADS, dtype=torch.float64)
        for table, size in zip(module.bonds, spec.bond_sizes, strict=True):
            label, feature = divmod(label, size)
            embedding += table[feature] / len(spec.bond_sizes)
        for head in range(HEADS):
            bias[head] += module.positions[k, head] @ embedding / len(kept)
    return bias


def slow_bias(
    module: AttentionBias, spec: EncodingSpec, graph: MolGraph, slots: int
) -> Tensor:  # (H, S, S)
    """A graph's bias in a rectangle of `slots`; NaN in rows of padding, which mean nothing."""
    bias = torch.full((HEADS, slots, slots), torch.nan, dtype=torch.float64)
    real = graph.num_atoms + 1
    bias[:, :real, real:] = -torch.inf
    bias[:, 0, :real] = bias[:, :real, 0] = module.graph_token[:, None]
    for i in range(graph.num_atoms):
        for j in range(graph.num_atoms):
            labels = smallest_path(graph, spec.bond_sizes, i, j)
            bias[:, 1 + i, 1 + j] = slow_pair(module, spec, labels)
    return bias


def assert_equals_loop(graphs: list[MolGraph], spec: EncodingSpec, max_groups: int) -> None:
    batch = batch_of(graphs, spec, max_groups)
    module = bias_for(spec)
    parts = module(batch)
    assert [part.shape for part in parts] == [
        (HEADS, group.graphs, group.slots, group.slots) for group in batch.groups
    ]
    size_sorted_batches = sorted(
        graphs, key=lambda graph: graph.num_atoms
    )  # groups hold graphs of similar size
    rows = [(part[:, row], part.shape[-1]) for part in parts for row in range(part.shape[1])]
    with torch.no_grad():
        for graph, (fast, slots) in zip(size_sorted_batches, rows, strict=True):
            slow = slow_bias(module, spec, graph, slots)
            meant = ~slow.isnan()
            torch.testing.assert_close(fast[meant], slow[meant], rtol=1e-12, atol=1e-12)
            # a padding row is finite except for −∞ at padding, so its softmax is finite
            assert (fast[:, graph.num_atoms + 1 :, : graph.num_atoms + 1]).isfinite().all()


@pytest.mark.claim("Spatial and edge bias equal the formula, pair by pair.")
@pytest.mark.parametrize("lengths", [(39, 20), (5, 5), (4, 2), (3, 1), (1, 1)])
@pytest.mark.parametrize(("name", "smiles"), [("zinc", ZINC), ("ogb", OGB)])
def test_bias_equals_the_formula_for_every_pair(
    name: str, smiles: tuple[str, ...], lengths: tuple[int, int]
) -> None:
    """Also beyond the longest path and the largest distance. Embeddings of OGB's bond features are
    averaged; fragments are unreachable."""
    featurizer = featurize.get(name)
    spec = EncodingSpec(featurizer.bond_sizes, max_distance=lengths[0], max_path_length=lengths[1])
    assert_equals_loop([featurizer(text) for text in smiles], spec, max_groups=2)


@pytest.mark.parametrize("seed", range(4))
def test_bias_equals_the_formula_for_random_graphs(seed: int) -> None:
    """Two bond features; most graphs have rings and several fragments."""
    rng = np.random.default_rng(seed)
    spec = EncodingSpec((3, 2), max_distance=4, max_path_length=3)
    graphs = []
    for _ in range(4):
        atoms = int(rng.integers(2, 10))
        every = np.array([(i, j) for i in range(atoms) for j in range(i)])
        bonds = every[rng.random(len(every)) < 1.6 / atoms]
        graphs.append(
            MolGraph(
                np.zeros((atoms, 1), dtype=np.uint8),
                bonds.reshape(-1, 2),
                np.stack([rng.integers(0, size, len(bonds)) for size in (3, 2)], axis=1),
            )
        )
    assert_equals_loop(graphs, spec, max_groups=1)


@pytest.mark.claim("Gradients of every hand-written operation pass gradcheck in float64.")
def test_gradcheck_of_the_table() -> None:
    """Gradients of every parameter equal finite differences."""
    spec = EncodingSpec((2, 2), max_distance=3, max_path_length=2)
    features = np.array([[0, 1], [1, 0], [1, 1], [0, 0]], dtype=np.uint8)
    chain = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    batch = batch_of([MolGraph(np.zeros((5, 1), dtype=np.uint8), chain, features)], spec)
    module = bias_for(spec)
    parameters = tuple(module.parameters())
    assert torch.autograd.gradcheck(lambda *_: module.table(batch.paths)[1:], parameters)
