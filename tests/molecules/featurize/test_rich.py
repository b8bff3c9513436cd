"""Ring membership against networkx, in any order of the atoms; and OGB's features as they are."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from support import spelling

from molsepnorm.molecules.featurize.ogb import OgbFeaturizer
from molsepnorm.molecules.featurize.rich import RichFeaturizer, smallest_rings

featurizer = RichFeaturizer()

CAGES = {
    "cubane": "C12C3C4C1C5C2C3C45",
    "norbornane": "C1CC2CCC1C2",
    "adamantane": "C1C2CC3CC1CC(C2)C3",
    "bicyclo[2.2.2]octane": "C1CC2CCC1CC2",
    "prismane": "C12C3C1C4C2C34",
    "tetrahedrane": "C12C3C1C23",
    "propellane": "C1CC23CCC2(C1)CC3",
    "cyclophane": "C1Cc2ccc(cc2)CCc2ccc1cc2",
    "a cage whose rings depended on the order of atoms in RDKit": "C1C2C3CCCC2C3CC1",
    "twistane": "C1CC2CC3CCC2CC13",
    "bicyclo[6.6.0]": "C1CCCC2CCCCCCC2CC1",
    "steroid": "CC12CCC3C(C1CCC2O)CCC4=CC(=O)CCC34C",
}
DRUGS = ("CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1", "OC1CN(CC1)C(=O)C1CC1", "CCO", "C.[Na+].C1CC1")


def _smallest(shape: nx.Graph, a: int, b: int) -> int:
    """Return the smallest ring through each bond by a search without it; 0 if there is none."""
    rest = nx.restricted_view(shape, [], [(a, b)])
    return nx.shortest_path_length(rest, a, b) + 1 if nx.has_path(rest, a, b) else 0


def _shape(smiles: str) -> nx.Graph:
    return nx.Graph(Chem.GetAdjacencyMatrix(Chem.MolFromSmiles(smiles)))


@pytest.mark.parametrize("smiles", [*CAGES.values(), *DRUGS], ids=[*CAGES, *DRUGS])
def test_sizes_are_those_of_the_smallest_ring_through_each_bond(smiles):
    graph, shape = featurizer(smiles), _shape(smiles)
    sizes = {(a, b): _smallest(shape, a, b) for a, b in shape.edges}
    index = {0: 0, **{size: size - 2 for size in range(3, 12)}}
    for atom in shape:
        of_atom = [size for bond, size in sizes.items() if atom in bond and size]
        found = [index.get(size, 10) for size in (min(of_atom, default=0), max(of_atom, default=0))]
        assert graph.atom_features[atom, 10:].tolist() == found
    for (a, b), (*_, within) in zip(graph.bonds.tolist(), graph.bond_features, strict=True):
        assert within == (sizes[min(a, b), max(a, b)] > 0)


def test_a_chelate_closes_no_ring():
    """Its dative bonds do not count, as they do not for OGB's feature."""
    graph = featurizer("C1CN->[Fe]<-N1")
    in_ring = graph.atom_features[:, 8]
    assert ((graph.atom_features[:, 9:] > 0) == in_ring[:, None]).all()


@pytest.mark.parametrize("smiles", [*CAGES.values(), *DRUGS], ids=[*CAGES, *DRUGS])
def test_every_order_of_the_atoms_gives_the_same_graph(smiles):
    def as_networkx(text: str) -> nx.Graph:
        graph, labelled = featurizer(text), nx.Graph()
        for atom, features in enumerate(graph.atom_features.tolist()):
            labelled.add_node(atom, features=features)
        for (a, b), features in zip(
            graph.bonds.tolist(), graph.bond_features.tolist(), strict=True
        ):
            labelled.add_edge(a, b, features=features)
        return labelled

    first = as_networkx(smiles)
    for seed in range(8):
        other = as_networkx(spelling(smiles, seed))
        assert nx.is_isomorphic(first, other, node_match=dict.__eq__, edge_match=dict.__eq__)


@given(st.integers(3, 14), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_smallest_rings_of_any_graph(atoms, chords, seed):
    """Also of such as no molecule has."""
    rng = np.random.default_rng(seed)
    shape = nx.cycle_graph(atoms)
    shape.add_edges_from(rng.choice(atoms, 2, replace=False).tolist() for _ in range(chords))
    bonds = rng.permuted(rng.permutation(np.array(shape.edges)), axis=1)
    expected = [min(_smallest(shape, a, b), 12) for a, b in bonds.tolist()]
    assert smallest_rings(3 * bonds).tolist() == expected


@pytest.mark.parametrize("smiles", [*CAGES.values(), *DRUGS, "C[C@H](N)/C=C/[O-]", "CN->[Pt]"])
def test_the_other_features_are_ogb_s(smiles):
    graph, ogb = featurizer(smiles), OgbFeaturizer()(smiles)
    assert graph.atom_features[:, :9].tolist() == ogb.atom_features.tolist()
    assert graph.bonds.tolist() == ogb.bonds.tolist()
    assert graph.bond_features[:, :3].tolist() == ogb.bond_features.tolist()
