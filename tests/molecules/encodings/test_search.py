"""The search for canonical shortest paths, against a slow one that follows the definition."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import SELF, UNREACHABLE, PathMerger
from molsepnorm.molecules.molecule import MolGraph

LENGTHS = [(1, 1), (2, 1), (3, 2), (3, 3), (7, 2), (39, 20)]
"""Pairs (max_distance, max_path_length)."""

Meaning = tuple[int, tuple[int, ...]] | None
"""Distance and bonds of a path; None where there is none."""


def spec_of(lengths: tuple[int, int], bond_sizes: tuple[int, ...] = (3,)) -> EncodingSpec:
    return EncodingSpec(bond_sizes, max_distance=lengths[0], max_path_length=lengths[1])


def slow_meanings(graph: MolGraph, spec: EncodingSpec) -> list[list[Meaning]]:
    """Return the shortest path with the smallest bonds, cut to the maximum length.

    Comparing whole paths before cutting gives the smallest beginning, too: of sequences of one
    length the smallest has the smallest beginning.
    """
    bonds = nx.Graph()
    bonds.add_nodes_from(range(graph.num_atoms))
    for (a, b), features in zip(graph.bonds.tolist(), graph.bond_features.tolist(), strict=True):
        label, place = 0, 1
        for value, size in zip(features, spec.bond_sizes, strict=True):
            label, place = label + value * place, place * size
        bonds.add_edge(a, b, label=label)
    meanings: list[list[Meaning]] = [[None] * graph.num_atoms for _ in range(graph.num_atoms)]
    for start in bonds:
        paths = nx.single_source_all_shortest_paths(bonds, start)
        for end, ways in paths:
            sequences = (
                tuple(bonds.edges[step]["label"] for step in pairwise(way)) for way in ways
            )
            best = min(sequences)
            distance = min(len(best), spec.max_distance)
            meanings[start][end] = (distance, best[: spec.max_path_length])
    return meanings


def meanings(encoded: EncodedGraphs) -> list[list[list[Meaning]]]:
    """Return the paths of each molecule, decoded with the vocabulary."""
    words: list[Meaning] = [None] * SELF
    for code in range(SELF, len(encoded.paths)):
        bonds = tuple(encoded.paths.bonds_along(code))
        words.append((int(encoded.paths.depths[code]), bonds))
    return [[[words[code] for code in row] for row in matrix.tolist()] for matrix in split(encoded)]


def split(encoded: EncodedGraphs) -> list[np.ndarray]:
    """Each molecule's matrix of codes."""
    parts = np.split(encoded.pairs, np.cumsum(encoded.sizes**2)[:-1])
    return [part.reshape(size, size) for part, size in zip(parts, encoded.sizes, strict=True)]


def assert_same_paths(one, other) -> None:
    for name in ("parents", "bonds", "depths"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_fast_search_equals_the_definition(molgraphs, lengths, data):
    """Every ordered pair of several molecules encoded at once."""
    graphs = data.draw(st.lists(molgraphs(max_atoms=20), min_size=1, max_size=4))
    spec = spec_of(lengths)
    assert meanings(encode(graphs, spec)) == [slow_meanings(graph, spec) for graph in graphs]


@pytest.mark.parametrize(
    "shape",
    [
        nx.path_graph(120),
        nx.hypercube_graph(4),
        nx.grid_2d_graph(4, 5),
        nx.dodecahedral_graph(),
        nx.complete_graph(25),
        nx.complete_bipartite_graph(6, 7),
        nx.disjoint_union_all([nx.path_graph(n) for n in (1, 2, 3, 1)]),
    ],
    ids=["chain", "tesseract", "grid", "dodecahedrane", "complete", "bipartite", "salt"],
)
def test_shapes_with_many_shortest_paths_or_long_ones(label, shape):
    """With two bond labels, so that many paths tie and the first difference comes late."""
    graph = label(shape, seed=3, variety=2)
    for lengths in [(39, 20), (4, 2)]:
        spec = spec_of(lengths)
        assert meanings(encode([graph], spec)) == [slow_meanings(graph, spec)]


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("lengths", [(39, 20), (3, 2)])
def test_renumbering_the_atoms_renumbers_the_codes(molgraphs, lengths, data, seed):
    """The vocabulary does not change at all, and the matrix of codes is permuted exactly."""
    graph = data.draw(molgraphs(max_atoms=60, bond_sizes=(3, 2)))
    rng = np.random.default_rng(seed)
    new_number = rng.permutation(graph.num_atoms)
    bond_order = rng.permutation(graph.num_bonds)
    renumbered = MolGraph(
        graph.atom_features[np.argsort(new_number)],
        rng.permuted(new_number[graph.bonds[bond_order]], axis=1),
        graph.bond_features[bond_order],
    )
    spec = spec_of(lengths, (3, 2))
    before, after = encode([graph], spec), encode([renumbered], spec)
    assert_same_paths(before.paths, after.paths)
    np.testing.assert_array_equal(split(after)[0][np.ix_(new_number, new_number)], split(before)[0])
    np.testing.assert_array_equal(after.degrees[new_number], before.degrees)
    np.testing.assert_array_equal(after.atoms[new_number], before.atoms)


@given(data=st.data())
@pytest.mark.parametrize("lengths", [(39, 20), (4, 3), (1, 1)])
def test_molecules_one_at_a_time_give_what_they_give_together(molgraphs, lengths, data):
    graphs = data.draw(st.lists(molgraphs(max_atoms=60), min_size=1, max_size=5))
    spec = spec_of(lengths)
    together = encode(graphs, spec)
    alone = [encode([graph], spec) for graph in graphs]
    merger = PathMerger()
    provisional = [merger.add(part.paths)[part.pairs] for part in alone]
    paths, final = merger.finish()
    assert_same_paths(paths, together.paths)
    np.testing.assert_array_equal(final[np.concatenate(provisional)], together.pairs)
    for name in ("sizes", "atoms", "degrees"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(part, name) for part in alone]), getattr(together, name)
        )


@given(data=st.data())
def test_the_vocabulary_holds_what_occurs_and_nothing_twice(molgraphs, data):
    graphs = data.draw(st.lists(molgraphs(), min_size=1, max_size=4))
    encoded = encode(graphs, spec_of((12, 5)))
    used = set(np.unique(encoded.pairs).tolist()) - {UNREACHABLE}
    assert used == set(range(SELF, len(encoded.paths)))
    paths = {(encoded.paths.depths[code], *encoded.paths.bonds_along(code)) for code in used}
    assert len(paths) == len(used)


@pytest.mark.claim("Distances, canonical paths and degrees equal networkx's and the definition.")
@given(data=st.data())
def test_distances_are_true_and_fragments_are_apart(molgraphs, data):
    check_distances(data.draw(molgraphs()))


def check_distances(graph: MolGraph) -> None:
    """Distances equal networkx's both ways; UNREACHABLE stands between fragments and only there."""
    plain = nx.Graph(graph.bonds.tolist())
    plain.add_nodes_from(range(graph.num_atoms))
    known = np.full((graph.num_atoms, graph.num_atoms), -1)
    for start, ends in nx.all_pairs_shortest_path_length(plain):
        known[start, list(ends)] = list(ends.values())
    encoded = encode([graph], spec_of((255, 1)))
    codes = split(encoded)[0]
    np.testing.assert_array_equal(encoded.paths.depths[codes], known)
    np.testing.assert_array_equal(codes == UNREACHABLE, known == -1)
