"""Fingerprints: the bits that RDKit sets, for every spelling of a molecule."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from support import spelling

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.fingerprints import BITS, morgan_matrix

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
