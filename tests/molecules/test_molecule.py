"""`MolGraph` accepts, converts and refuses arrays."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.molecule import MolGraph


def three_atoms(bonds, features=None, atoms=((1,), (2,), (3,))) -> MolGraph:
    features = [[0]] * len(bonds) if features is None else features
    return MolGraph(np.array(atoms), np.array(bonds), np.array(features))


def test_arrays_are_converted_to_small_integers():
    graph = three_atoms([[0, 1], [2, 1]], [[0, 5], [255, 1]])
    assert [graph.atom_features.dtype, graph.bonds.dtype, graph.bond_features.dtype] == [
        np.uint8,
        np.int32,
        np.uint8,
    ]
    assert graph.atom_features.tolist() == [[1], [2], [3]]
    assert graph.bonds.tolist() == [[0, 1], [2, 1]]
    assert graph.bond_features.tolist() == [[0, 5], [255, 1]]
    assert (graph.num_atoms, graph.num_bonds) == (3, 2)
    assert repr(graph) == "MolGraph(3 atoms, 2 bonds)"


def test_a_single_atom_without_bonds_is_a_molecule():
    for empty in (np.zeros((0, 2)), np.zeros((0, 2), dtype=np.int64)):
        graph = MolGraph(np.array([[7]]), empty, np.zeros((0, 3)))
        assert (graph.num_atoms, graph.num_bonds) == (1, 0)
        assert graph.bonds.dtype == np.int32
        assert graph.bond_features.shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 3]],), "bonds name atoms 0 … 3, but the molecule's atoms are 0 … 2"),
        (([[-1, 0]],), "bonds must lie in 0 … 2147483647; found -1 … 0"),
        (([[0, 1], [2, 2]],), "atom 2 is bonded to itself"),
        (([[0, 1], [1, 0]],), "a bond is given twice"),
        (([[0, 1, 2]],), r"bonds must have shape \[M, 2\].*got \[1, 3\] and \[1, 1\]"),
        (([[0, 1]], [[0.5]]), r"bond_features must be .* integers; got shape \[1, 1\] of float64"),
        (([[0, 1]], [[256]]), "bond_features must lie in 0 … 255; found 256 … 256"),
        (([[0, 1]], None, [1, 2, 3]), r"atom_features must be a two-dimensional .* shape \[3\]"),
    ],
)
def test_invalid_arrays_are_refused_with_the_reason(arguments, message):
    with pytest.raises(InvalidMolecule, match=message):
        three_atoms(*arguments)
