"""The most similar molecules, and molecules that are among the known ones."""

import numpy as np

from molsepnorm.molecules.featurize.fingerprints import packed_morgan
from molsepnorm.molecules.featurize.nearest import nearest_molecules, with_one_text
from molsepnorm.molecules.featurize.standardize import standardized


def test_a_known_molecule_is_its_own_nearest_one_at_any_level():
    """Enantiomers and long alkanes have equal fingerprints."""
    known = [
        *("C[C@H](N)c1ccccc1.Cl", "C[C@@H](N)c1ccccc1.Cl"),
        *("CCCCCCCCCCCCN.Cl", "CCCCCCCCCCCCCCN.Cl", "CCO"),
    ]
    for level in ("none", "parent", "tautomer"):
        forms = standardized(known, level)
        index, similarity, errors = nearest_molecules(forms, known, packed_morgan(forms), level)
        assert index.tolist() == [0, 1, 2, 3, 4]
        assert (similarity == 1).all() and errors == [None] * 5
    index, similarity, _ = nearest_molecules(["CCCO"], known, packed_morgan(known))
    assert index.tolist() == [4] and 0 < similarity[0] < 1
    assert np.isnan(nearest_molecules(["C1CC"], known, packed_morgan(known))[1]).all()


def test_rows_of_a_molecule_get_the_text_of_the_first():
    smiles = ["OCC", "CCO", "C[C@H](N)O", "C[C@@H](N)O", "CCO.Cl", "N[C@@H](C)O", "CCO"]
    for level, salt in (("none", "CCO.Cl"), ("salts", "OCC")):
        bits = packed_morgan(standardized(smiles, level))
        expected = ["OCC", "OCC", "C[C@H](N)O", "C[C@@H](N)O", salt, "C[C@H](N)O", "OCC"]
        assert with_one_text(smiles, bits, level) == expected
