"""The molecules of a batch, and batches that are cut, against those built molecule by molecule."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.batching import (
    GraphTensors,
    epoch_batches,
    max_batch_pairs,
    num_batches,
    path_table,
    size_sorted_batches,
    tight_layout,
)
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, UNREACHABLE
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn.batch import GraphBatch

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


@pytest.mark.parametrize("asked", [[True, False], np.array([False, True]), [0.0, 1.0]])
def test_a_mask_is_no_list_of_molecules(wide_codes, asked):
    with pytest.raises(ConfigError, match="indices"):
        GraphTensors.of(wide_codes(65_535)).cut(asked)


@pytest.mark.parametrize("asked", [[1, 0], np.array([0, 1, 0], dtype=np.int32)])
def test_a_store_gives_the_same_batches_without_a_copy(wide_codes, asked):
    """Codes above 32,767 are stored as uint16, which torch reads as int16 and wraps."""
    encoded = wide_codes(65_535)
    store = GraphStore.of([(encoded, np.arange(len(encoded)))], (), SPEC, "zinc")
    tensors = GraphTensors.of(store)
    assert tensors.pairs.data_ptr() == store.pairs.ctypes.data
    assert tensors.atoms.data_ptr() == store.atoms.ctypes.data
    check_batch(tensors.cut(asked, 2), encoded, list(asked))
    check_batch(GraphTensors.of(encoded).cut(asked), encoded, list(asked))


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


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_cut_where_it_costs_least(seed):
    """No other cut of the sorted sizes into as many groups costs less, by trying them all."""
    rng = np.random.default_rng(seed)
    slots = np.sort(rng.integers(2, 12, rng.integers(1, 11)))
    max_groups = int(rng.integers(1, 6))

    def cost(ends):
        parts = np.split(slots, ends[:-1])
        return sum(len(part) * (part[-1] ** 2 + 32 * part[-1]) for part in parts)

    def ends_of(layout):
        return np.cumsum([group.graphs for group in layout])

    layout = tight_layout(slots, max_groups)
    assert len(layout) <= max_groups
    assert ends_of(layout)[-1] == len(slots)
    assert [group.slots for group in layout] == slots[ends_of(layout) - 1].tolist()
    cuts = (
        [*cut, len(slots)]
        for number in range(min(max_groups, len(slots)))
        for cut in itertools.combinations(range(1, len(slots)), number)
    )
    assert cost(ends_of(layout)) == min(map(cost, cuts))


def plain_batches(graphs: np.ndarray, batch_size: int, rng: np.random.Generator) -> list:
    """An epoch of molecules so small that no batch is too large."""
    return epoch_batches(graphs, np.ones(int(graphs.max()) + 1, dtype=np.int64), batch_size, rng)


@given(number=st.integers(1, 200), batch_size=st.integers(2, 64), seed=st.integers(0, 2**32 - 1))
def test_an_epoch_is_every_molecule_once_in_batches_of_like_size(number, batch_size, seed):
    graphs = np.arange(number) * 3 + 5
    batches = plain_batches(graphs, batch_size, np.random.default_rng(seed))
    assert sorted(np.concatenate(batches).tolist()) == graphs.tolist()
    assert len(batches) == num_batches(number, batch_size)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= max(batch_size, 3)  # a pair and one left over go together
    assert min(sizes) > 1 or number == 1  # a batch norm could not train on a single molecule
    other = plain_batches(graphs, batch_size, np.random.default_rng(seed + 1))
    assert number < 20 or as_lists(other) != as_lists(batches)


@pytest.fixture(scope="module")
def chains(label) -> GraphTensors:
    """150 molecules: many of 1 to 6 atoms, some of 16, few of 30."""
    sizes = [*range(1, 7)] * 22 + [16] * 14 + [30] * 4
    sizes = np.random.default_rng(0).permutation(sizes).tolist()
    return GraphTensors.of(encode([label(nx.path_graph(size)) for size in sizes], SPEC))


epochs = st.fixed_dictionaries(
    {
        "graphs": st.lists(st.integers(0, 149), min_size=1, max_size=150, unique=True),
        "batch_size": st.integers(1, 40),
        "max_groups": st.integers(1, 4),
        "max_pairs": st.one_of(st.integers(1, 500), st.integers(500, 20_000)),
        "seed": st.integers(0, 2**32 - 1),
    }
)


def epoch(
    tensors: GraphTensors, graphs, batch_size, max_groups, max_pairs, seed
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return epoch_batches(np.array(graphs), tensors.sizes, batch_size, rng, max_groups, max_pairs)


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(asked=epochs)
def test_only_batches_that_are_too_large_are_halved(chains, asked):
    """In the order drawn, and no oftener than need be: the epoch by a plain recursion on the
    batches as they are cut."""

    def halved(batch: list[int]) -> list[list[int]]:
        pairs = len(chains.cut(batch, asked["max_groups"]).pairs)
        if pairs <= asked["max_pairs"] or len(batch) < 4:
            return [batch]
        middle = (len(batch) + 1) // 2
        return halved(batch[:middle]) + halved(batch[middle:])

    plain = epoch(chains, **asked | {"max_pairs": 10**9})
    expected = [part for batch in plain for part in halved(batch.tolist())]
    assert as_lists(epoch(chains, **asked)) == expected


@given(asked=epochs)
def test_no_batch_is_larger_than_the_largest(chains, asked):
    """So where the largest fits, `num_batches` is how many there are."""
    graphs, max_groups = np.array(asked["graphs"]), asked["max_groups"]
    bound = max_batch_pairs(graphs, chains.sizes, asked["batch_size"])
    batches = epoch(chains, **asked | {"max_pairs": bound})
    assert max(len(chains.cut(batch, max_groups).pairs) for batch in batches) <= bound
    assert len(batches) == num_batches(len(graphs), asked["batch_size"])
    assert as_lists(batches) == as_lists(epoch(chains, **asked | {"max_pairs": 10**9}))


@pytest.mark.parametrize("min_size", [2, 3, 8])
def test_halving_stops_where_processes_would_get_none(min_size):
    sizes, rng = np.full(64, 40), np.random.default_rng(0)
    batches = epoch_batches(np.arange(64), sizes, 32, rng, max_pairs=100, min_size=min_size)
    assert min(map(len, batches)) >= min_size
    assert max(map(len, batches)) < 2 * min_size
    assert sorted(np.concatenate(batches)) == list(range(64))


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=80),
    batch_size=st.integers(1, 20),
    max_pairs=st.integers(1, 8000),
    data=st.data(),
)
def test_batches_by_size_keep_to_both_limits(sizes, batch_size, max_pairs, data):
    """Each molecule once, small ones first; a molecule above `max_pairs` goes alone."""
    asked = data.draw(st.lists(st.integers(0, len(sizes) - 1), unique=True))
    all_sizes = np.array(sizes)
    batches = list(
        size_sorted_batches(np.array(asked, dtype=int), all_sizes, batch_size, max_pairs)
    )
    flat = [int(graph) for batch in batches for graph in batch]
    assert sorted(flat) == sorted(asked)
    assert [sizes[graph] for graph in flat] == sorted(sizes[graph] for graph in asked)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        pairs = len(batch) * (all_sizes[batch].max() + 1) ** 2
        assert pairs <= max_pairs or len(batch) == 1
