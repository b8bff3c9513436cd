"""OGB's features, entry by entry, against the `ogb` package."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.ogb import OgbFeaturizer
from molsepnorm.molecules.featurize.smiles import canonical_smiles

DATA = os.environ.get("MOLSEPNORM_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="MOLSEPNORM_DATA does not name the data folder")

featurizer = OgbFeaturizer()

ODDITIES = (
    "C[C@H](N)C(=O)[O-]",
    "C[C@@H](F)Cl",
    "F/C=C/F",
    "F/C=C\\F",
    "c1ccc2[nH]ccc2c1",
    "CC#N",
    "C",
    "[H][H]",
    "[H]",
    "*C",  # atomic number 0: the last element entry
    "[Na+].[Cl-]",
    "[CH3]",  # a radical
    "[C]",
    "F[Pt@SP1](Cl)(Br)I",  # a square plane: the last chirality entry
    "FS(F)(F)(F)(F)F",  # SP3D2
    "FP(F)(F)(F)F",  # SP3D
    "CN->[Pt]",  # a dative bond: the last bond type
    "CN(C)->B(C)C",  # and one without brackets
    "B<-N",
    "[Re]$[Re]",
    "[Mg+2]",
    "[Th+6]",  # beyond the charges of the table
    "[Og]",
    "O=[U]=O",
)


@pytest.fixture(scope="module")
def ogb_graph():
    return pytest.importorskip("ogb.utils.mol").smiles2graph


def assert_same(smiles, ogb_graph):
    """Equal to OGB's on the text as it stands; on its canonical form where a centre is marked."""
    ours = featurizer(smiles)
    with rdBase.BlockLogs():
        theirs = ogb_graph(canonical_smiles(smiles) if "@" in smiles else smiles)
    np.testing.assert_array_equal(ours.atom_features, theirs["node_feat"], smiles)
    np.testing.assert_array_equal(ours.bonds, theirs["edge_index"].T[::2], smiles)
    np.testing.assert_array_equal(ours.bond_features, theirs["edge_feat"][::2], smiles)


@pytest.mark.parametrize("smiles", ODDITIES)
def test_oddities_equal_ogb(smiles, ogb_graph):
    assert_same(smiles, ogb_graph)


def test_the_odd_molecules_cover_all_rare_values():
    atoms = np.concatenate([featurizer(smiles).atom_features for smiles in ODDITIES])
    bonds = np.concatenate([featurizer(smiles).bond_features for smiles in ODDITIES])
    assert {118, 117} <= set(atoms[:, 0])
    assert set(atoms[:, 1]) == {0, 1, 2, 4}
    assert 11 in atoms[:, 3]
    assert set(atoms[:, 6]) == {0, 1, 2, 3, 4, 5}
    assert set(bonds[:, 0]) == {0, 1, 2, 3, 4}
    assert {0, 1, 2} <= set(bonds[:, 1])


def test_a_hydrogen_that_marks_a_double_bond_is_implicit(ogb_graph):
    """It is an atom in OGB's graph."""
    assert featurizer("[H]/N=C/C").num_atoms == featurizer("N=CC").num_atoms == 3
    assert len(ogb_graph("[H]/N=C/C")["node_feat"]) == 4


def test_sizes_equal_ogb():
    features = pytest.importorskip("ogb.utils.features")
    assert list(featurizer.atom_sizes) == features.get_atom_feature_dims()
    assert list(featurizer.bond_sizes) == features.get_bond_feature_dims()


@pytest.mark.parametrize("smiles", ODDITIES)
def test_features_fit_the_tables(smiles):
    graph = featurizer(smiles)
    assert (graph.atom_features < np.array(featurizer.atom_sizes)).all()
    assert (graph.bond_features < np.array(featurizer.bond_sizes)).all()


def test_the_ogb_package_is_not_imported():
    code = (
        "import sys, molsepnorm.molecules.featurize.ogb as ours; ours.OgbFeaturizer()('CCO'); "
        "sys.exit('ogb' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.claim(
    "OGB features equal smiles2graph on every molecule of Tox21 and BACE and every fourth of "
    "molhiv, if RDKit reads it. With a stereocentre, they equal that of the canonical SMILES,"
    " since chirality tags depend on the order of writing."
)
@needs_data
@pytest.mark.parametrize(
    ("source", "unreadable"),
    [
        ("moleculenet/tox21.csv", 8),
        ("moleculenet/bace.csv", 0),
        ("ogbg_molhiv/mapping/mol.csv.gz", 7),
    ],
)
def test_every_real_molecule_equals_ogb(source, unreadable, ogb_graph):
    """The SMILES that RDKit refuses are refused; their number depends on its release."""
    path = Path(DATA) / source
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as lines:
        rows = [row["smiles"] for row in csv.DictReader(lines)]
    rows = rows[:: 4 if len(rows) > 20_000 else 1]
    refused = 0
    for smiles in rows:
        try:
            assert_same(smiles, ogb_graph)
        except InvalidMolecule:
            refused += 1
            with rdBase.BlockLogs():
                assert Chem.MolFromSmiles(smiles) is None
    assert refused <= unreadable + 5


@pytest.mark.parametrize("smiles", ["N[C@@H](C)C(=O)O", "F/C=C\\Cl", "[2H]C(O)C", "OC(C)[13CH3]"])
def test_the_order_of_writing_changes_no_feature(smiles):
    """Renumbering a molecule renumbers its graph, chirality and double bonds included."""
    mol = Chem.MolFromSmiles(smiles)
    wanted = sorted(map(tuple, featurizer(smiles).atom_features.tolist()))
    bonds = sorted(map(tuple, featurizer(smiles).bond_features.tolist()))
    for seed in range(20):
        text = Chem.MolToSmiles(mol, doRandom=True, canonical=False) if seed else smiles
        graph = featurizer(text)
        assert sorted(map(tuple, graph.atom_features.tolist())) == wanted
        assert sorted(map(tuple, graph.bond_features.tolist())) == bonds
