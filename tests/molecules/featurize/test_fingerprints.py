"""Fingerprints: the bits that RDKit sets, for every spelling of a molecule."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from molsepnorm.molecules.featurize import fingerprints
from molsepnorm.molecules.featurize.fingerprints import (
    BITS,
    morgan_matrix,
    nearest,
    nearest_molecules,
    packed_morgan,
    tanimoto,
    with_one_text,
)
from molsepnorm.molecules.featurize.standardize import standardized
from support import similarities

SMILES = ["CCO", "C[C@H](N)C(=O)O", "c1ccc2[nH]ccc2c1", "[Na+].[Cl-]", "[13CH4]"]


def test_the_bits_are_those_of_rdkit():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    expected = [generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in SMILES[:-1]]
    matrix = morgan_matrix(SMILES[:-1])
    assert (matrix.shape, matrix.dtype) == ((4, BITS), np.float32)
    assert (matrix.toarray() == expected).all()
    assert morgan_matrix([]).shape == (0, BITS)


TEXTS = ["CCO", "CCCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "Cc1ccccc1", "OCC", "[Na+].[Cl-]"]


@pytest.mark.parametrize(
    ("queries", "others", "frequent"), [(256, 4096, 128), (2, 3, 1), (1, 1, 0)]
)
def test_the_nearest_molecule_is_that_of_rdkit(monkeypatch, queries, others, frequent):
    """The first of equally similar ones; also if not all pairs fit into one block."""
    for name, value in (("_QUERIES", queries), ("_OTHERS", others), ("_FREQUENT", frequent)):
        monkeypatch.setattr(fingerprints, name, value)
    expected, bits = similarities(TEXTS, TEXTS), packed_morgan(TEXTS)
    matrix = morgan_matrix(TEXTS)
    np.testing.assert_allclose(tanimoto(matrix, matrix), expected)
    index, similarity = nearest(bits, bits[2:])
    assert index.tolist() == expected[:, 2:].argmax(axis=1).tolist()
    assert similarity.tolist() == expected[:, 2:].max(axis=1).tolist()


def test_nothing_is_near_without_molecules():
    bits = packed_morgan(TEXTS)
    assert [each.shape for each in nearest(bits[:0], bits)] == [(0,), (0,)]
    assert nearest(bits, bits[:0])[1].tolist() == [-1] * len(TEXTS)


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


def test_a_known_molecule_is_its_own_nearest_one_at_any_level():
    """Enantiomers and long alkanes have equal fingerprints."""
    known = [
        *("C[C@H](N)c1ccccc1.Cl", "C[C@@H](N)c1ccccc1.Cl"),
        *("CCCCCCCCCCCCN.Cl", "CCCCCCCCCCCCCCN.Cl", "CCO"),
    ]
    for level in ("none", "parent", "tautomer"):
        forms = standardized(known, level)
        index, similarity, errors = nearest_molecules(forms, known, packed_morgan(forms), level)
        assert index[:, 0].tolist() == [0, 1, 2, 3, 4]
        assert (similarity == 1).all() and errors == [None] * 5
    index, similarity, _ = nearest_molecules(["CCCO"], known, packed_morgan(known))
    assert index.tolist() == [[4]] and 0 < similarity[0, 0] < 1
    assert np.isnan(nearest_molecules(["C1CC"], known, packed_morgan(known))[1]).all()


def test_a_target_is_compared_with_its_labelled_molecules_only():
    """The molecule itself if it has a label, and otherwise its enantiomer before other ones."""
    known = ["C[C@H](N)c1ccccc1", "C[C@@H](N)c1ccccc1", "CCO", "CCN"]
    labelled = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]], dtype=bool)
    found = nearest_molecules(known, known, packed_morgan(known), labelled=labelled)[:2]
    assert found[0].tolist() == [[0, 1, 3], [1, 1, 3], [2, 2, 3], [3, 2, 3]]
    for target in range(3):
        rows = np.flatnonzero(labelled[:, target])
        similarity = nearest(packed_morgan(known), packed_morgan(known)[rows])[1]
        assert found[1][:, target].tolist() == similarity.tolist()


def test_rows_of_a_molecule_get_the_text_of_the_first():
    smiles = ["OCC", "CCO", "C[C@H](N)O", "C[C@@H](N)O", "CCO.Cl", "N[C@@H](C)O", "CCO"]
    for level, salt in (("none", "CCO.Cl"), ("salts", "OCC")):
        bits = packed_morgan(standardized(smiles, level))
        expected = ["OCC", "OCC", "C[C@H](N)O", "C[C@@H](N)O", salt, "C[C@H](N)O", "OCC"]
        assert with_one_text(smiles, bits, level) == expected
