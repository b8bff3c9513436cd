"""Fingerprints: the bits that RDKit sets, for every spelling of a molecule."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from support import spelling

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize import fingerprints
from molsepnorm.molecules.featurize.fingerprints import (
    BITS,
    morgan_matrix,
    nearest_similarity,
    tanimoto,
)

SMILES = ["CCO", "C[C@H](N)C(=O)O", "c1ccc2[nH]ccc2c1", "[Na+].[Cl-]", "[13CH4]"]


def test_the_bits_are_those_of_rdkit():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    expected = [generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in SMILES[:-1]]
    matrix = morgan_matrix(SMILES[:-1])
    assert (matrix.shape, matrix.dtype) == ((4, BITS), np.float32)
    assert (matrix.toarray() == expected).all()
    assert morgan_matrix([]).shape == (0, BITS)


@pytest.mark.parametrize("smiles", SMILES)
def test_every_spelling_has_the_same_bits(smiles):
    texts = [smiles, *(spelling(smiles, seed) for seed in range(5))]
    assert len({row.tobytes() for row in morgan_matrix(texts).toarray()}) == 1


def test_an_invalid_smiles_has_no_fingerprint():
    with pytest.raises(InvalidMolecule, match="unclosed ring"):
        morgan_matrix(["CC", "C1CC"])


@pytest.mark.parametrize("pairs", [1 << 20, 7, 1])
def test_similarities_are_those_of_rdkit(monkeypatch, pairs):
    """Also if not all pairs fit into one block."""
    monkeypatch.setattr(fingerprints, "_PAIRS", pairs)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    texts = ["CCO", "CCCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "Cc1ccccc1", "OCC", "[Na+].[Cl-]"]
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in texts]
    expected = np.array(
        [DataStructs.BulkTanimotoSimilarity(each, prints[2:]) for each in prints[:5]]
    )
    matrix = morgan_matrix(texts)
    np.testing.assert_allclose(tanimoto(matrix[:5], matrix[2:]), expected)
    nearest = nearest_similarity(matrix[:5], matrix[2:])
    np.testing.assert_allclose(nearest, expected.max(axis=1))
    assert nearest_similarity(matrix[:0], matrix).shape == (0,)
