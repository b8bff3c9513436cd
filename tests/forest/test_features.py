"""The inputs of a forest."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from molsepnorm.errors import InvalidMolecule
from molsepnorm.forest.features import forest_features
from molsepnorm.molecules.featurize.descriptors import COUNTS, DESCRIPTORS, describe

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "C" * 40, "[Na+].[Cl-]", "N[C@@H](C)C(=O)O"]


def test_counts_and_descriptors_are_those_of_rdkit():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    found = forest_features(SMILES)
    assert (found.shape, found.dtype) == ((4, COUNTS + len(DESCRIPTORS)), np.float32)
    for row, text in zip(found, SMILES, strict=True):
        mol = Chem.MolFromSmiles(text)
        assert row[:COUNTS].tolist() == list(generator.GetCountFingerprint(mol).ToList())
        np.testing.assert_allclose(row[COUNTS:], describe(mol), rtol=1e-6)
    assert found[1, :COUNTS].max() == 38  # CH2 groups
    assert np.isnan(found).any() and not np.isinf(found).any()


def test_known_descriptors_are_used():
    known = np.arange(4 * len(DESCRIPTORS), dtype=np.float32).reshape(4, -1)
    found = forest_features(SMILES, known)
    np.testing.assert_array_equal(found[:, COUNTS:], known)
    np.testing.assert_array_equal(found[:, :COUNTS], forest_features(SMILES)[:, :COUNTS])


def test_an_invalid_smiles_is_refused():
    with pytest.raises(InvalidMolecule, match="cannot"):
        forest_features(["CCO", "C1CC"])
    assert forest_features([]).shape == (0, COUNTS + len(DESCRIPTORS))
