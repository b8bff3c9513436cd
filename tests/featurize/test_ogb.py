"""OGB's features, entry by entry, against the `ogb` package."""

from __future__ import annotations

import csv
import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, rdBase

from molsepnorm.featurize.ogb import OgbFeaturizer
from molsepnorm.featurize.smiles import canonical_smiles

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
    "[Re]$[Re]",
    "[Mg+2]",
    "[Th+6]",  # beyond the charges of the table
    "[Og]",
    "[H]/N=C/C",  # hydrogen kept for the double bond's sake
    "O=[U]=O",
)


@pytest.fixture(scope="module")
def ogb_graph():
    return pytest.importorskip("ogb.utils.mol").smiles2graph


def assert_same(smiles, ogb_graph):
    ours = featurizer(smiles)
    with rdBase.BlockLogs():
        theirs = ogb_graph(canonical_smiles(smiles))
    np.testing.assert_array_equal(ours.atom_features, theirs["node_feat"], smiles)
    np.testing.assert_array_equal(ours.bonds, theirs["edge_index"].T[::2], smiles)
    np.testing.assert_array_equal(ours.bond_features, theirs["edge_feat"][::2], smiles)


@pytest.mark.parametrize("smiles", ODDITIES)
def test_oddities_equal_ogb(smiles, ogb_graph):
    assert_same(smiles, ogb_graph)


def test_the_oddities_reach_what_they_are_there_for():
    atoms = np.concatenate([featurizer(smiles).atom_features for smiles in ODDITIES])
    bonds = np.concatenate([featurizer(smiles).bond_features for smiles in ODDITIES])
    assert {118, 117} <= set(atoms[:, 0])
    assert set(atoms[:, 1]) == {0, 1, 2, 4}
    assert 11 in atoms[:, 3]
    assert set(atoms[:, 6]) == {0, 1, 2, 3, 4, 5}
    assert set(bonds[:, 0]) == {0, 1, 2, 3, 4}
    assert {0, 1, 2} <= set(bonds[:, 1])


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
        "import sys, molsepnorm.featurize.ogb as ours; ours.OgbFeaturizer()('CCO'); "
        "sys.exit('ogb' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@needs_data
@pytest.mark.parametrize("source", ["moleculenet/tox21.csv", "ogbg_molhiv/mapping/mol.csv.gz"])
def test_real_molecules_equal_ogb(source, ogb_graph):
    path = Path(DATA) / source
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as lines:
        rows = [row["smiles"] for row in csv.DictReader(lines)]
    tested = 0
    for smiles in random.Random(0).sample(rows, 600):
        with rdBase.BlockLogs():
            if Chem.MolFromSmiles(smiles) is None:
                continue
        assert_same(smiles, ogb_graph)
        tested += 1
    assert tested > 590
