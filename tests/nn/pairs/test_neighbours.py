"""Tables of neighbours against the molecules' bonds."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from molsepnorm.data.batching import GraphTensors
from molsepnorm.data.store import GraphStore
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.pairs.neighbours import hop_distances, neighbours_of
from support import batch_of

CONFIG = GraphormerConfig(max_degree=2, max_distance=3, max_path_length=2)
"""Degrees and distances are clipped, which must not lose bonds."""
SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "c1ccc2ccccc2c1")


def graphs() -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in SMILES]


def some_batch(max_groups: int) -> GraphBatch:
    return batch_of(graphs(), CONFIG, max_groups)


def expected_bonds(batch: GraphBatch) -> dict[int, dict[int, int]]:
    """Slot -> slot of a neighbour -> label of the bond."""
    found: dict[int, dict[int, int]] = {slot: {} for slot in range(len(batch.mask))}
    for token, graph in zip(batch.graph_token.tolist(), graphs(), strict=True):
        for (a, b), (label,) in zip(graph.bonds.tolist(), graph.bond_features, strict=True):
            found[token + 1 + a][token + 1 + b] = int(label)
            found[token + 1 + b][token + 1 + a] = int(label)
    return found


@pytest.mark.parametrize("max_groups", [1, 3])
def test_tables_list_every_bond_at_both_ends(max_groups: int) -> None:
    """With its label, in increasing order, and nothing else."""
    batch = some_batch(max_groups)
    table = neighbours_of(batch)
    assert table.slots.shape == (len(batch.mask), 4)  # tert-butyl's carbon
    for slot, bonds in expected_bonds(batch).items():
        real = table.bonds[slot] > 0
        assert table.slots[slot][real].tolist() == sorted(bonds)
        assert (table.bonds[slot][real] - 1).tolist() == [bonds[key] for key in sorted(bonds)]
        assert (table.slots[slot][~real] == slot).all()


@pytest.mark.parametrize("max_groups", [1, 3])
def test_the_reverse_is_the_same_bond(max_groups: int) -> None:
    """It refers from the neighbour to the atom, and its own reverse is the entry itself."""
    table = neighbours_of(some_batch(max_groups))
    rows = torch.arange(len(table.slots))[:, None].expand_as(table.slots)
    assert torch.equal(table.slots.flatten()[table.reverse], rows)
    assert torch.equal(rows.flatten()[table.reverse], table.slots)
    assert torch.equal(table.reverse.flatten()[table.reverse], table.entries)
    assert torch.equal(table.bonds.flatten()[table.reverse], table.bonds)


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_the_width_of_the_tables_is_that_of_the_store(tmp_path: Path, chunk: int) -> None:
    """Shapes are equal for chunks of any size and any batch."""
    spec = encoding_of(CONFIG)
    chunks = (
        (encode(graphs()[first : first + chunk], spec), np.arange(len(SMILES))[first:][:chunk])
        for first in range(0, len(SMILES), chunk)
    )
    tensors = GraphTensors.of(GraphStore.of(chunks, (), spec, "zinc"))
    for molecule in range(len(SMILES)):
        batch = tensors.cut([molecule])
        assert neighbours_of(batch).slots.shape == (len(batch.mask), 4)


def test_hop_distances_equal_those_of_networkx() -> None:
    """Clipped, for atoms of one fragment; 0 elsewhere."""
    batch = some_batch(1)
    (hops,) = hop_distances(batch)
    (codes,) = batch.by_group(batch.pairs)
    assert hops.shape == codes.shape
    for place, graph in zip(batch.order.tolist(), graphs(), strict=True):
        molecule = nx.empty_graph(graph.num_atoms)
        molecule.add_edges_from(graph.bonds.tolist())
        lengths = dict(nx.all_pairs_shortest_path_length(molecule))
        for i in range(hops.shape[1]):
            for j in range(hops.shape[1]):
                known = lengths.get(i - 1, {}).get(j - 1, 0)
                assert hops[place, i, j] == min(known, CONFIG.max_distance)
