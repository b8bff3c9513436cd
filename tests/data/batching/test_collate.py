"""Batches cut with tensors, against batches put together molecule by molecule."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.batching.collate import GraphTensors, path_table
from molsepnorm.data.store import GraphStore
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, UNREACHABLE
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.batch import GraphBatch, PaddedGroup

SPEC = EncodingSpec((3,), max_degree=3, max_distance=9, max_path_length=4)


def one_molecule(encoded: EncodedGraphs, graph: int, slots: int) -> tuple:
    """Atoms, degrees, mask and codes of one molecule in so many slots, written out slot by slot."""
    size = int(encoded.sizes[graph])
    first = sum(int(other) for other in encoded.sizes[:graph])
    first_pair = sum(int(other) ** 2 for other in encoded.sizes[:graph])
    atoms, degrees, mask, codes = [], [], [], []
    for i in range(slots):
        here = 1 <= i <= size
        mask.append(here)
        atoms.append((encoded.atoms[first + i - 1] if here else encoded.atoms[0] * 0).tolist())
        degrees.append(int(encoded.degrees[first + i - 1]) if here else 0)
        for j in range(slots):
            if j > size:
                codes.append(PADDING)
            elif i == 0 or j == 0:
                codes.append(GRAPH_TOKEN)
            elif i > size:
                codes.append(UNREACHABLE)
            else:
                codes.append(int(encoded.pairs[first_pair + (i - 1) * size + j - 1]))
    return atoms, degrees, mask, codes


def check_batch(batch: GraphBatch, encoded: EncodedGraphs, asked: list[int]) -> None:
    """Every slot and every pair of every molecule, at the place the batch says."""
    assert len(batch) == len(asked)
    assert sum(group.graphs for group in batch.groups) == len(asked)
    places = {}  # graph token's slot -> slots of the molecule, where its pairs begin
    slot = pair = 0
    for group in batch.groups:
        for _ in range(group.graphs):
            places[slot] = (group.slots, pair)
            slot += group.slots
            pair += group.slots**2
    assert len(batch.atoms) == len(batch.degrees) == len(batch.mask) == slot
    assert len(batch.pairs) == pair
    assert sorted(batch.graph_token.tolist()) == sorted(places)
    for graph, slot in zip(asked, batch.graph_token.tolist(), strict=True):
        slots, pair = places[slot]
        atoms, degrees, mask, codes = one_molecule(encoded, graph, slots)
        assert batch.atoms[slot : slot + slots].tolist() == atoms
        assert batch.degrees[slot : slot + slots].tolist() == degrees
        assert batch.mask[slot : slot + slots].tolist() == mask
        assert batch.pairs[pair : pair + slots**2].tolist() == codes
    assert batch.atoms.dtype == batch.degrees.dtype == batch.pairs.dtype == torch.int64
    assert batch.mask.dtype == torch.bool


@pytest.fixture(scope="module")
def graphs(label) -> list[MolGraph]:
    shapes = [nx.path_graph(5), nx.empty_graph(1), nx.cycle_graph(6), nx.cubical_graph()]
    shapes += [nx.path_graph(2), nx.disjoint_union(nx.path_graph(3), nx.empty_graph(1))]
    return [label(shape, seed) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("max_groups", [1, 2, 5])
@given(data=st.data())
def test_a_batch_equals_one_built_slot_by_slot(molgraphs, max_groups, data):
    """Molecules may be in any order and repeated, with more padded groups than molecules."""
    graphs = data.draw(st.lists(molgraphs(12, (3,), (28, 4)), min_size=1, max_size=5))
    encoded = encode(graphs, SPEC)
    asked = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=8))
    batch = GraphTensors.of(encoded).cut(asked, max_groups)
    check_batch(batch, encoded, asked)
    assert len(batch.groups) <= min(max_groups, len(asked))


def test_codes_above_32767_keep_their_value(tmp_path, wide_codes):
    """They are stored as uint16, which torch reads as int16 and wraps."""
    encoded = wide_codes(65_535)
    rows = np.arange(len(encoded))
    store = GraphStore.of([(encoded, rows)], (), SPEC, "zinc")
    assert store.pairs.dtype == np.uint16
    check_batch(GraphTensors.of(store).cut([0, 1]), encoded, [0, 1])
    check_batch(GraphTensors.of(encoded).cut([0, 1]), encoded, [0, 1])


def test_a_store_gives_the_same_batches_without_a_copy(tmp_path, graphs):
    encoded = encode(graphs, SPEC)
    rows = np.arange(len(encoded))
    store = GraphStore.of([(encoded, rows)], (), SPEC, "zinc")
    tensors = GraphTensors.of(store)
    assert tensors.pairs.data_ptr() == store.pairs.ctypes.data
    assert tensors.atoms.data_ptr() == store.atoms.ctypes.data
    check_batch(tensors.cut([5, 0, 3], 2), store, [5, 0, 3])
    check_batch(tensors.cut(np.array([5, 0, 3], dtype=np.int32), 2), encoded, [5, 0, 3])


def test_the_vocabulary_as_the_network_reads_it(graphs):
    """Every path's bonds by place and label, how many they are, and its distance."""
    paths = encode(graphs, SPEC).paths
    table = path_table(paths)
    dense = table.to("meta")
    assert not dense.bonds.is_sparse_csr
    assert dense.bonds.shape == table.bonds.shape
    marked = table.bonds.to_dense()
    assert torch.equal(table.bonds_transposed.to_dense(), marked.T)
    for code in range(len(paths)):
        bonds = paths.bonds_along(code)
        columns = [place * table.labels + bond for place, bond in enumerate(bonds)]
        assert marked[code].nonzero().flatten().tolist() == columns
        assert marked[code].sum() == len(bonds)
        assert table.lengths[code] == max(1, len(bonds))
        assert table.distances[code] == max(0, paths.depths[code])
    assert table.distances.max() > 1


@pytest.mark.claim(
    "Fixed shapes hold random batches, and a batch in a fixed shape is the same batch."
)
def test_a_batch_in_a_given_plan_equals_one_built_slot_by_slot(graphs):
    """Rectangles wider than their graphs, graphs in the order given."""
    encoded = encode(graphs, SPEC)
    tensors = GraphTensors.of(encoded)
    asked = sorted([4, 0, 3], key=lambda graph: encoded.sizes[graph])
    widest = int(encoded.sizes.max()) + 1
    plan = (PaddedGroup(2, int(encoded.sizes[asked[1]]) + 2), PaddedGroup(1, widest + 3))
    batch = tensors.gather(torch.tensor(asked), plan)
    assert batch.groups == plan
    check_batch(batch, encoded, asked)
