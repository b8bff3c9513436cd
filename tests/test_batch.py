"""Batches cut with tensors, against batches put together molecule by molecule."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.batch import (
    GraphTensors,
    _block_ends,
    by_size,
    epoch_batches,
    largest_batch,
    num_batches,
    path_table,
)
from molsepnorm.codes import GRAPH_TOKEN, PADDING, SELF, UNREACHABLE
from molsepnorm.encodings.encode import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecule import MolGraph
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.store import GraphStore, StoreWriter

SPEC = EncodingSpec((3,), max_degree=3, max_distance=9, max_path_length=4)


def one_molecule(encoded: EncodedGraphs | GraphStore, graph: int, slots: int) -> tuple:
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


def check_batch(batch: GraphBatch, encoded: EncodedGraphs | GraphStore, asked: list[int]) -> None:
    """Every slot and every pair of every molecule, at the place the batch says."""
    assert len(batch) == len(asked)
    assert sum(block.graphs for block in batch.blocks) == len(asked)
    places = {}  # graph token's slot -> slots of the molecule, where its pairs begin
    slot = pair = 0
    for block in batch.blocks:
        for _ in range(block.graphs):
            places[slot] = (block.slots, pair)
            slot += block.slots
            pair += block.slots**2
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


@pytest.mark.parametrize("blocks", [1, 2, 5])
@given(data=st.data())
def test_a_batch_equals_one_built_slot_by_slot(molgraphs, blocks, data):
    """In any order, with molecules asked for twice, with more blocks than molecules."""
    graphs = data.draw(st.lists(molgraphs(12, (3,), (28, 4)), min_size=1, max_size=5))
    encoded = encode(graphs, SPEC)
    asked = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=8))
    batch = GraphTensors.of(encoded).cut(asked, blocks)
    check_batch(batch, encoded, asked)
    assert len(batch.blocks) <= min(blocks, len(asked))


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_a_large_molecule_among_small_ones(graphs, label, blocks):
    """222 atoms (molhiv's largest): only its own block is padded to it."""
    encoded = encode([*graphs, label(nx.path_graph(222)), *graphs], SPEC)
    asked = [3, 6, 1, 12, 5]
    batch = GraphTensors.of(encoded).cut(asked, blocks)
    check_batch(batch, encoded, asked)
    assert [block.slots for block in batch.blocks].count(223) == 1
    if blocks > 1:
        assert batch.padding < GraphTensors.of(encoded).cut(asked, 1).padding


@pytest.mark.parametrize("seed", range(40))
def test_blocks_are_cut_where_it_costs_least(seed):
    """No other cut of the sorted sizes into as many blocks costs less, by trying them all."""
    rng = np.random.default_rng(seed)
    slots = np.sort(rng.integers(2, 12, rng.integers(1, 11)))
    blocks = int(rng.integers(1, 6))

    def cost(ends):
        parts = np.split(slots, ends[:-1])
        return sum(len(part) * (part[-1] ** 2 + 32 * part[-1]) for part in parts)

    ends = _block_ends(slots, blocks)
    assert len(ends) <= blocks
    assert ends[-1] == len(slots)
    cuts = (
        [*cut, len(slots)]
        for number in range(min(blocks, len(slots)))
        for cut in itertools.combinations(range(1, len(slots)), number)
    )
    assert cost(ends) == min(map(cost, cuts))


def test_a_molecule_alone_has_no_padding(graphs):
    assert GraphTensors.of(encode(graphs, SPEC)).cut([3]).padding == 0


@given(data=st.data())
def test_every_slot_can_attend_to_something(molgraphs, data):
    """A row of padding alone would make a softmax of nothing, which is NaN."""
    graphs = data.draw(st.lists(molgraphs(12), min_size=2, max_size=5))
    batch = GraphTensors.of(encode(graphs, SPEC)).cut(range(len(graphs)))
    (block,) = batch.blocks
    codes = batch.pairs.reshape(block.graphs, block.slots, block.slots)
    assert (codes[:, :, 0] == GRAPH_TOKEN).all()
    mask = batch.mask.reshape(block.graphs, block.slots)
    attended = codes != PADDING
    assert (attended[:, :, 1:] == mask[:, None, 1:]).all()  # all atoms of one's own, no others
    # an atom sees paths or other fragments, and itself by the code of itself
    assert ((codes[:, 1:, 1:] == SELF).sum(2) == mask[:, 1:]).all()


def test_codes_above_32767_keep_their_value(tmp_path, wide_codes):
    """They are stored as uint16, which torch reads as int16 and wraps."""
    encoded = wide_codes(65_535)
    with StoreWriter(tmp_path / "a", SPEC, "zinc", ()) as writer:
        writer.append(encoded, np.zeros((2, 0)))
    store = GraphStore.open(tmp_path / "a")
    assert store.pairs.dtype == np.uint16
    check_batch(GraphTensors.of(store).cut([0, 1]), encoded, [0, 1])
    check_batch(GraphTensors.of(encoded).cut([0, 1]), encoded, [0, 1])


def test_a_store_gives_the_same_batches_without_a_copy(tmp_path, graphs):
    encoded = encode(graphs, SPEC)
    with StoreWriter(tmp_path / "a", SPEC, "zinc", ()) as writer:
        writer.append(encoded, np.zeros((len(graphs), 0)))
    store = GraphStore.open(tmp_path / "a")
    tensors = GraphTensors.of(store)
    assert tensors.pairs.data_ptr() == store.pairs.ctypes.data
    assert tensors.atoms.data_ptr() == store.atoms.ctypes.data
    check_batch(tensors.cut([5, 0, 3], 2), store, [5, 0, 3])
    check_batch(tensors.cut(np.array([5, 0, 3], dtype=np.int32), 2), encoded, [5, 0, 3])


def test_a_batch_owns_its_numbers(graphs):
    """Whoever writes into a batch does not change the data set."""
    encoded = encode(graphs, SPEC)
    tensors = GraphTensors.of(encoded)
    batch = tensors.cut([0])
    batch.pairs.zero_(), batch.atoms.zero_(), batch.degrees.zero_()
    check_batch(tensors.cut([0]), encoded, [0])


def test_the_vocabulary_as_the_network_reads_it(graphs):
    paths = encode(graphs, SPEC).paths
    table = path_table(paths)
    assert table.parents.tolist() == paths.parents.tolist()
    assert table.bonds.tolist() == [max(0, bond) for bond in paths.bonds.tolist()]
    assert table.level_starts == paths.level_starts
    assert table.parents.dtype == table.bonds.dtype == torch.int64


def test_a_molecule_that_is_not_there_is_refused(graphs):
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        GraphTensors.of(encode(graphs, SPEC)).cut([0, 6])


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


@pytest.mark.parametrize("batch_size", [2, 3, 4, 7, 32])
def test_no_batch_of_an_epoch_holds_a_single_molecule(batch_size):
    """A batch norm could not train on it."""
    wrong = [
        number
        for number in range(2, 130)
        if min(map(len, plain_batches(np.arange(number), batch_size, np.random.default_rng()))) < 2
    ]
    assert wrong == []


def test_a_batch_size_of_one_or_a_single_molecule_is_taken_at_its_word():
    rng = np.random.default_rng(0)
    assert [len(batch) for batch in plain_batches(np.arange(5), 1, rng)] == [1] * 5
    assert [batch.tolist() for batch in plain_batches(np.array([8]), 4, rng)] == [[8]]


def test_an_epoch_is_shuffled_well():
    """Over many epochs every molecule is in the first batch about equally often."""
    rng = np.random.default_rng(0)
    counts = np.zeros(20)
    for _ in range(2000):
        counts[plain_batches(np.arange(20), 10, rng)[0]] += 1
    assert counts.min() > 900
    assert counts.max() < 1100


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
        "blocks": st.integers(1, 4),
        "max_pairs": st.one_of(st.integers(1, 500), st.integers(500, 20_000)),
        "seed": st.integers(0, 2**32 - 1),
    }
)


def epoch(tensors: GraphTensors, graphs, batch_size, blocks, max_pairs, seed) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return epoch_batches(np.array(graphs), tensors.sizes, batch_size, rng, blocks, max_pairs)


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(asked=epochs)
def test_a_bounded_epoch_loses_no_molecule_and_keeps_to_its_limits(chains, asked):
    """The pairs are those of the batch that is really cut, padding included. A batch of two or
    three stays, however large, as a half of it would be a molecule alone."""
    batches = epoch(chains, **asked)
    assert sorted(np.concatenate(batches).tolist()) == sorted(asked["graphs"])
    for batch in batches:
        pairs = len(chains.cut(batch, asked["blocks"]).pairs)
        assert pairs <= asked["max_pairs"] or len(batch) < 4
        assert len(batch) <= max(asked["batch_size"], 3)
        assert len(batch) > 1 or asked["batch_size"] == 1 or len(asked["graphs"]) == 1
    assert as_lists(epoch(chains, **asked)) == as_lists(batches)


@given(asked=epochs)
def test_only_batches_that_are_too_large_are_halved(chains, asked):
    """In the order drawn, and no oftener than need be: the epoch by a plain recursion on the
    batches as they are cut."""

    def halved(batch: list[int]) -> list[list[int]]:
        pairs = len(chains.cut(batch, asked["blocks"]).pairs)
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
    graphs, blocks = np.array(asked["graphs"]), asked["blocks"]
    bound = largest_batch(graphs, chains.sizes, asked["batch_size"])
    batches = epoch(chains, **asked | {"max_pairs": bound})
    assert max(len(chains.cut(batch, blocks).pairs) for batch in batches) <= bound
    assert len(batches) == num_batches(len(graphs), asked["batch_size"])
    assert as_lists(batches) == as_lists(epoch(chains, **asked | {"max_pairs": 10**9}))


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_batch_of_just_as_many_pairs_stays(chains, blocks):
    """One pair less allowed, and it is halved."""
    (graphs,) = epoch(chains, np.arange(40), 40, blocks, 10**9, 0)
    pairs = len(chains.cut(graphs, blocks).pairs)
    assert len(epoch(chains, np.arange(40), 40, blocks, pairs, 0)) == 1
    assert len(epoch(chains, np.arange(40), 40, blocks, pairs - 1, 0)) > 1


def test_molecules_that_are_not_drawn_bound_nothing():
    """One giant of the validation split costs the training batches nothing."""
    sizes = np.full(101, 9)
    sizes[100] = 5_000
    assert largest_batch(np.arange(100), sizes, 10) == 11 * 100
    batches = epoch_batches(np.arange(100), sizes, 10, np.random.default_rng(0), max_pairs=1100)
    assert [len(batch) for batch in batches] == [10] * 10


def test_one_giant_makes_small_its_own_batch_only():
    """With blocks of like size it stays, as only its own block is padded to it."""
    sizes = np.full(100, 9)
    sizes[40] = 99
    counts = {}
    for blocks in (1, 2):
        rng = np.random.default_rng(0)
        batches = epoch_batches(np.arange(100), sizes, 20, rng, blocks, max_pairs=30_000)
        counts[blocks] = sorted(map(len, batches))
        (own,) = (batch for batch in batches if 40 in batch)
        assert len(own) == {1: 3, 2: 20}[blocks]
    assert counts == {1: [2, 3, 5, 10, 20, 20, 20, 20], 2: [20] * 5}


@pytest.mark.parametrize("max_pairs", [10**9, 3000])
def test_the_seed_decides_the_order_of_an_epoch(max_pairs):
    def order(seed: int) -> list[list[int]]:
        rng = np.random.default_rng(seed)
        return as_lists(epoch_batches(np.arange(100), np.arange(100), 7, rng, max_pairs=max_pairs))

    assert order(1) == order(1)
    assert order(1) != order(2)


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
    batches = list(by_size(np.array(asked, dtype=int), all_sizes, batch_size, max_pairs))
    flat = [int(graph) for batch in batches for graph in batch]
    assert sorted(flat) == sorted(asked)
    assert [sizes[graph] for graph in flat] == sorted(sizes[graph] for graph in asked)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        pairs = len(batch) * (all_sizes[batch].max() + 1) ** 2
        assert pairs <= max_pairs or len(batch) == 1


def test_batches_by_size_are_full_where_nothing_limits_them():
    batches = list(by_size(np.arange(10), np.full(10, 30), batch_size=4))
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_limit_of_pairs_halves_a_batch_at_most_as_often_as_needed():
    """No batch is less than half of what would fit."""
    sizes = np.full(100, 9)
    batches = list(by_size(np.arange(100), sizes, batch_size=64, max_pairs=30 * 100))
    assert min(len(batch) for batch in batches[:-1]) >= 15
