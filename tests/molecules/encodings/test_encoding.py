"""Sizes, degrees, bond labels, and the sizes an `EncodingSpec` accepts."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from torch_geometric.data import Data

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.encoding import EncodingSpec, bond_labels, encode
from molsepnorm.molecules.encodings.paths import SELF
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


def test_a_degree_above_255_does_not_wrap(label):
    star = label(nx.star_graph(300))
    assert encode([star], EncodingSpec((3,), max_degree=255)).degrees.max() == 255


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


def test_single_atoms_alone_have_the_empty_path_only(label):
    atom = label(nx.empty_graph(1))
    encoded = encode([atom, atom], EncodingSpec((3,)))
    assert encoded.pairs.tolist() == [SELF, SELF]
    assert encoded.degrees.tolist() == [0, 0]
    assert len(encoded.paths) == SELF + 1


@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_bond_labels_number_every_combination_once(sizes):
    """All combinations of features, the first changing fastest: 0, 1, 2, … without a gap."""
    slowest_first = np.indices(sizes[::-1]).reshape(len(sizes), -1).T
    labels = bond_labels(slowest_first[:, ::-1].astype(np.uint8), tuple(sizes))
    assert labels.tolist() == list(range(EncodingSpec(tuple(sizes)).num_bond_labels))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[0, 3]], r"do not fit the sizes \(5, 3\): 2 features, the largest values \[0, 3\]"),
        ([[5, 0]], r"do not fit the sizes \(5, 3\): 2 features, the largest values \[5, 0\]"),
        ([[0]], r"do not fit the sizes \(5, 3\): 1 features"),
        ([[0, 0, 0]], r"do not fit the sizes \(5, 3\): 3 features"),
    ],
)
def test_bond_features_that_do_not_fit_are_named(features, message):
    graph = MolGraph(np.array([[0], [0]]), np.array([[0, 1]]), np.array(features))
    with pytest.raises(ConfigError, match=message):
        encode([graph], EncodingSpec((5, 3)))


def test_the_number_of_bond_features_is_checked_without_bonds_too():
    atom = MolGraph(np.array([[0]]), np.zeros((0, 2)), np.zeros((0, 2)))
    with pytest.raises(ConfigError, match=r"2 features, the largest values \[\]"):
        encode([atom], EncodingSpec((3,)))


@pytest.mark.parametrize(
    ("max_distance", "max_path_length"), [(0, 0), (5, 0), (5, 6), (256, 20), (-1, -1)]
)
def test_path_lengths_out_of_range_are_refused(max_distance, max_path_length):
    with pytest.raises(
        ConfigError, match=rf"max_path_length={max_path_length}, max_distance={max_distance}"
    ):
        EncodingSpec((3,), max_distance=max_distance, max_path_length=max_path_length)


@pytest.mark.parametrize("max_degree", [0, -1, 256])
def test_maximum_degrees_out_of_range_are_refused(max_degree):
    with pytest.raises(ConfigError, match=rf"max_degree must lie in 1 … 255; got {max_degree}"):
        EncodingSpec((3,), max_degree=max_degree)


def test_the_ends_of_the_ranges_are_allowed():
    EncodingSpec((3,), max_degree=255, max_distance=255, max_path_length=255)
    EncodingSpec((3,), max_degree=1, max_distance=1, max_path_length=1)


def test_bond_labels_beyond_the_vocabulary_s_integers_are_not_mangled():
    """256 × 256 values of two features are more than an int16 holds: refused, or kept right."""
    try:
        spec = EncodingSpec((256, 256))
    except ConfigError:
        return
    graph = MolGraph(np.array([[0], [0]]), np.array([[0, 1]]), np.array([[255, 254]]))
    encoded = encode([graph], spec)
    assert encoded.paths.bonds_along(encoded.pairs[1]) == [255 + 254 * 256]


def graph_of(atoms: list[list[int]], bond: list[int]) -> MolGraph:
    return MolGraph(np.array(atoms), np.array([[0, 1]]), np.array([bond]))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (graph_of([[0], [1]], [0, 0]), r"atom features do not fit the sizes \(9, 4\): 1 features"),
        (graph_of([[0, 3], [0, 4]], [0, 0]), r"the sizes \(9, 4\): 2 features, .* \[0, 4\]"),
        (graph_of([[9, 0], [0, 0]], [0, 0]), r"the sizes \(9, 4\): 2 features, .* \[9, 0\]"),
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


def test_molecules_must_have_equally_many_features():
    one, two = graph_of([[0], [1]], [0]), graph_of([[0, 0], [1, 1]], [0])
    with pytest.raises(ConfigError, match="^molecule 1: atom features do not fit the sizes"):
        encode([one, two], EncodingSpec((3,)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            Data(),
            r"Data: molsepnorm\.featurize\.pyg\.from_data\(data, bond_offset=…\) conv",
        ),
        (Chem.MolFromSmiles("C"), r"Mol: molsepnorm\.featurize\.get\(name\)\(Chem\.MolToSmiles\("),
        ("CCO", r"str: molsepnorm\.featurize\.get\(name\)\(smiles\) converts it to a MolGraph"),
        (None, "NoneType: None"),
    ],
    ids=["data", "mol", "smiles", "none"],
)
def test_other_values_than_graphs_are_refused_with_their_conversion(value, message):
    graph = graph_of([[0], [0]], [0])
    with pytest.raises(ConfigError, match=f"^molecule 1 must be a MolGraph; got {message}"):
        encode([graph, value], EncodingSpec((3,)))
    with pytest.raises(ConfigError, match=f"^graphs must be a list of MolGraph; got {message}"):
        encode(value, EncodingSpec((3,)))


def test_a_single_graph_is_refused():
    with pytest.raises(
        ConfigError, match=r"must be a list of MolGraph; got MolGraph: MolGraph\(2 "
    ):
        encode(graph_of([[0], [0]], [0]), EncodingSpec((3,)))
