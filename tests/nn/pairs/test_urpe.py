"""The gates of URPE against the formula, in a loop over pairs."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from support import batch_of, far_from_initial
from torch import Tensor

from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.pairs.neighbours import PairTensors
from molsepnorm.nn.pairs.urpe import URPE

HEADS, MAX_DISTANCE, FEATURES = 4, 6, 3
SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "CCCCCCCCCC", "CC(=O)[O-].C[NH3+]", "C1CC2CCC1C2", "C")
SIZES_OGB = SIZES["ogb"]
CONFIG = GraphormerConfig(
    layers=2,
    width=16,
    ffn_width=16,
    heads=HEADS,
    max_distance=MAX_DISTANCE,
    max_path_length=3,
    atom_sizes=SIZES_OGB.atoms,
    bond_sizes=SIZES_OGB.bonds,
)


def graphs_of(smiles: tuple[str, ...] | list[str]) -> list[MolGraph]:
    return [featurize.get("ogb")(each) for each in smiles]


def some_gate(features: int = 0) -> URPE:
    """A float64 module with random parameters."""
    torch.manual_seed(1)
    gate = URPE(HEADS, MAX_DISTANCE, features).double()
    with torch.no_grad():
        for parameter in gate.parameters():
            parameter.normal_()
    return gate


def some_features(batch: GraphBatch) -> list[Tensor]:
    """Random features for every group."""
    torch.manual_seed(2)
    shapes = [(group.graphs, group.slots, group.slots, FEATURES) for group in batch.groups]
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def slow_gate(gate: URPE, graph: MolGraph, known: Tensor | None) -> Tensor:  # (H, S, S)
    """1 + c_D + w·f for each pair of a graph's slots, known (S, S, F)."""
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_atoms))
    network.add_edges_from(graph.bonds.tolist())
    distances = dict(nx.all_pairs_shortest_path_length(network))
    slots = graph.num_atoms + 1
    gates = torch.empty(len(gate.graph_token), slots, slots, dtype=torch.float64)
    gates[:, 0, :] = gates[:, :, 0] = 1 + gate.graph_token[:, None]
    for i in range(graph.num_atoms):
        for j in range(graph.num_atoms):
            pair = gates[:, 1 + i, 1 + j]
            if j not in distances[i]:
                pair[:] = 1 + gate.unreachable
                continue
            pair[:] = 1 + gate.spatial[min(distances[i][j], MAX_DISTANCE)]
            if known is not None and gate.features is not None:
                for feature, weight in zip(known[1 + i, 1 + j], gate.features, strict=True):
                    pair += feature * weight
    return gates


@pytest.mark.claim("URPE factors equal their formula and change nothing before training.")
@pytest.mark.parametrize("max_groups", [1, 3])
@pytest.mark.parametrize("features", [0, FEATURES])
@torch.no_grad()
def test_gates_equal_the_formula_for_every_pair(features: int, max_groups: int) -> None:
    """Including distances beyond the largest, fragments, the graph token and padding."""
    graphs = sorted(graphs_of(SMILES), key=lambda graph: graph.num_atoms)
    batch, gate = batch_of(graphs, CONFIG, max_groups), some_gate(features)
    known = some_features(batch) if features else None
    parts = gate(batch, known)
    assert [part.shape for part in parts] == [
        (HEADS, group.graphs, group.slots, group.slots) for group in batch.groups
    ]
    rows = [part[:, row] for part in parts for row in range(part.shape[1])]
    described = [row for part in known or () for row in part] or [None] * len(graphs)
    for graph, fast, own in zip(graphs, rows, described, strict=True):
        real = graph.num_atoms + 1
        slow = slow_gate(gate, graph, own)
        torch.testing.assert_close(fast[:, :real, :real], slow, rtol=1e-12, atol=1e-12)
        assert not fast[:, :real, real:].any()  # padding


@pytest.mark.parametrize("features", [0, FEATURES])
def test_a_new_gate_changes_no_bit_of_attention(features: int) -> None:
    """It is 1 for every pair of real slots."""
    model, batch = far_from_initial(CONFIG), batch_of(graphs_of(SMILES), CONFIG, 2)
    known = [part.float() for part in some_features(batch)] if features else None
    gates = URPE(HEADS, MAX_DISTANCE, features)(batch, known)
    x, bias = model.embedding(batch), model.pair_encoding.bias(batch)
    for gate, part in zip(gates, bias, strict=True):
        assert (gate == part.isfinite()).all()
    attention = model.layers[0].attention
    real = batch.mask.index_fill(0, batch.graph_token, True)
    with_gates, without = (
        attention(x, PairTensors(bias, given), batch.groups) for given in (gates, None)
    )
    assert torch.equal(with_gates[real], without[real])
