"""The order of an epoch, and the rectangles of its batches."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.batching.bucketing import (
    epoch_batches,
    max_batch_pairs,
    num_batches,
    size_sorted_batches,
    tight_layout,
)
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.molecules.encodings.encoding import EncodingSpec, encode

SPEC = EncodingSpec((3,), max_degree=3, max_distance=9, max_path_length=4)


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
