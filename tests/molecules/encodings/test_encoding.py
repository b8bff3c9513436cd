"""Sizes, degrees, bond labels, and the sizes an `EncodingSpec` accepts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.encoding import EncodingSpec, bond_labels, encode
from molsepnorm.molecules.molecule import MolGraph


@given(data=st.data(), largest=st.integers(1, 20))
def test_degrees_count_neighbours_up_to_the_largest(molgraphs, data, largest):
    graphs = data.draw(st.lists(molgraphs(max_atoms=30), min_size=1, max_size=3))
    expected = [
        min(largest, sum(atom in bond for bond in graph.bonds.tolist()))
        for graph in graphs
        for atom in range(graph.num_atoms)
    ]
    encoded = encode(graphs, EncodingSpec((3,), max_degree=largest))
    assert encoded.degrees.tolist() == expected
    assert encoded.degrees.dtype == np.uint8


@given(data=st.data())
def test_arrays_lie_molecule_after_molecule(molgraphs, data):
    graphs = data.draw(st.lists(molgraphs(max_atoms=30, atom_sizes=(9, 4)), min_size=1, max_size=4))
    encoded = encode(graphs, EncodingSpec((3,)))
    assert len(encoded) == len(graphs)
    assert encoded.sizes.tolist() == [graph.num_atoms for graph in graphs]
    assert encoded.sizes.dtype == np.int64
    np.testing.assert_array_equal(
        encoded.atoms, np.concatenate([graph.atom_features for graph in graphs])
    )
    assert encoded.atoms.dtype == np.uint8
    assert encoded.pairs.dtype == np.int32
    assert len(encoded.pairs) == sum(graph.num_atoms**2 for graph in graphs)


@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_bond_labels_number_every_combination_once(sizes):
    """All combinations of features, the first changing fastest: 0, 1, 2, … without a gap."""
    slowest_first = np.indices(sizes[::-1]).reshape(len(sizes), -1).T
    labels = bond_labels(slowest_first[:, ::-1].astype(np.uint8), tuple(sizes))
    assert labels.tolist() == list(range(EncodingSpec(tuple(sizes)).num_bond_labels))


def test_sizes_out_of_range_are_refused():
    for settings in (
        {"max_degree": 0},
        {"max_degree": 256},
        {"max_distance": 256},
        {"max_distance": 5, "max_path_length": 0},
        {"max_distance": 5, "max_path_length": 6},
    ):
        with pytest.raises(ConfigError, match="max_"):
            EncodingSpec((3,), **settings)
    EncodingSpec((3,), max_degree=255, max_distance=255, max_path_length=255)


def graph_of(atoms: list[list[int]], bond: list[int]) -> MolGraph:
    return MolGraph(np.array(atoms), np.array([[0, 1]]), np.array([bond]))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (graph_of([[0], [1]], [0, 0]), r"atom features do not fit the sizes \(9, 4\): 1 features"),
        (graph_of([[0, 3], [0, 4]], [0, 0]), r"the sizes \(9, 4\): 2 features, .* \[0, 4\]"),
        (graph_of([[0, 0], [0, 0]], [0]), r"bond features do not fit the sizes \(5, 3\): 1 feat"),
        (graph_of([[0, 0], [0, 0]], [0, 3]), r"the sizes \(5, 3\): 2 features, .* \[0, 3\]"),
    ],
)
def test_features_that_do_not_fit_are_told_with_the_molecule_s_number(odd, message):
    """A value beyond its feature's size would read the embedding of another feature."""
    good = graph_of([[8, 3], [0, 0]], [4, 2])
    encode([good, good], EncodingSpec((5, 3)), (9, 4))
    with pytest.raises(ConfigError, match=f"^molecule 2: .*{message}"):
        encode([good, good, odd, good], EncodingSpec((5, 3)), (9, 4))
    with pytest.raises(ConfigError, match=f"^molecule 70: .*{message}"):
        encode([good, odd], EncodingSpec((5, 3)), (9, 4), numbers=[60, 70])


@pytest.mark.parametrize("value", [Data(), "CCO"], ids=["data", "smiles"])
def test_other_values_than_graphs_are_refused(value):
    graph = graph_of([[0], [0]], [0])
    kind = type(value).__name__
    with pytest.raises(ConfigError, match=f"^molecule 1 must be a MolGraph; got {kind}: "):
        encode([graph, value], EncodingSpec((3,)))
    with pytest.raises(ConfigError, match="^graphs must be a list of MolGraph; got "):
        encode(value, EncodingSpec((3,)))
