"""Fingerprints: the bits that RDKit sets, for every spelling of a molecule."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from support import spelling

from molsepnorm.molecules.featurize import fingerprints
from molsepnorm.molecules.featurize.fingerprints import (
    BITS,
    morgan_matrix,
    nearest,
    packed_morgan,
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


TEXTS = ["CCO", "CCCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "Cc1ccccc1", "OCC", "[Na+].[Cl-]"]


def rdkit_similarities(texts) -> np.ndarray:
    """The similarity of each molecule to each, by RDKit."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in texts]
    return np.array([DataStructs.BulkTanimotoSimilarity(each, prints) for each in prints])


@pytest.mark.parametrize(
    ("queries", "others", "frequent"), [(256, 4096, 128), (2, 3, 1), (1, 1, 0)]
)
def test_the_nearest_molecule_is_that_of_rdkit(monkeypatch, queries, others, frequent):
    """The first of equally similar ones; also if not all pairs fit into one block."""
    for name, value in (("_QUERIES", queries), ("_OTHERS", others), ("_FREQUENT", frequent)):
        monkeypatch.setattr(fingerprints, name, value)
    expected, bits = rdkit_similarities(TEXTS), packed_morgan(TEXTS)
    matrix = morgan_matrix(TEXTS)
    np.testing.assert_allclose(tanimoto(matrix, matrix), expected)
    index, similarity = nearest(bits, bits[2:])
    assert index.tolist() == expected[:, 2:].argmax(axis=1).tolist()
    assert similarity.tolist() == expected[:, 2:].max(axis=1).tolist()
    np.fill_diagonal(expected, -1)
    index, similarity = nearest(bits, bits, itself=np.arange(len(TEXTS)))
    assert index.tolist() == expected.argmax(axis=1).tolist()
    assert similarity.tolist() == expected.max(axis=1).tolist()


def test_nothing_is_near_without_molecules():
    bits = packed_morgan(TEXTS)
    assert [each.shape for each in nearest(bits[:0], bits)] == [(0,), (0,)]
    assert nearest(bits, bits[:0])[1].tolist() == [-1] * len(TEXTS)
    assert nearest(bits[:1], bits[:1], itself=np.array([0]))[1].tolist() == [-1]


def test_random_fingerprints_are_compared_exactly():
    """In float32, as in whole numbers; of dense fingerprints, too."""
    rng = np.random.default_rng(0)
    bits = np.packbits(rng.random((300, BITS)) < rng.random((300, 1)), axis=1)
    index, similarity = nearest(bits[:40], bits[40:])
    for row, one in enumerate(bits[:40]):
        shares = [
            np.unpackbits(one & other).sum(dtype=int) / np.unpackbits(one | other).sum(dtype=int)
            for other in bits[40:]
        ]
        assert similarity[row] == max(shares) and index[row] == np.argmax(shares)
