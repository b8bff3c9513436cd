"""Arrays that `encode` did not make are refused before anything is looked up in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import PathVocabulary
from molsepnorm.molecules.encodings.sound import require_sound

SPEC, ATOMS = EncodingSpec((3,), max_distance=5, max_path_length=3), featurize.SIZES["zinc"].atoms
SMILES = ["CCO", "c1ccccc1CCCCC", "C", "[Na+].[Cl-]"]


@pytest.fixture(scope="module")
def encoded():
    zinc = featurize.get("zinc")
    return encode(list(zinc.many(SMILES))[:3], SPEC, ATOMS)


def _with(array, place, value):
    changed = np.array(array)
    changed[place] = value
    return changed


@pytest.mark.parametrize("chosen", [SMILES, SMILES[:1], ["C"], []])
def test_the_result_of_encode_is_accepted(chosen):
    graphs = list(featurize.get("ogb").many(chosen))
    spec = EncodingSpec((5, 6, 2), max_distance=5, max_path_length=3)
    sizes = featurize.SIZES["ogb"].atoms
    made = encode(graphs, spec, sizes)
    if graphs:
        require_sound(made, spec, sizes)
        require_sound(made, replace(spec, max_distance=200, max_path_length=3), sizes)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("sizes", 0, 0, "the size of a molecule is out of range"),
        ("sizes", 0, 2, "the number of atoms or pairs does not match"),
        ("atoms", 0, 28, "an atom feature is out of range"),
        ("degrees", 2, 16, "a degree is out of range"),
        ("pairs", 5, 10_000, "a pair has a path that does not exist"),
    ],
)
def test_a_number_out_of_range_is_refused(encoded, name, place, value, message):
    changed = replace(encoded, **{name: _with(getattr(encoded, name), place, value)})
    with pytest.raises(ValueError, match=message):
        require_sound(changed, SPEC, ATOMS)


@pytest.mark.parametrize("name", ["atoms", "degrees", "pairs"])
def test_a_truncated_array_is_refused(encoded, name):
    paths = replace(encoded.paths, bonds=encoded.paths.bonds[:-1])
    with pytest.raises(ValueError, match="the numbers of parents, bonds"):
        require_sound(replace(encoded, paths=paths), SPEC, ATOMS)
    with pytest.raises(ValueError, match="the (number|size) of"):
        require_sound(replace(encoded, **{name: getattr(encoded, name)[:-1]}), SPEC, ATOMS)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("depths", 3, 1, "the distance of a path is out of range"),
        ("depths", 4, 3, "paths are not in the order of their distances"),
        ("parents", 4, -1, "a path extends one that does not exist"),
        ("parents", -1, 3, "a path extends one of another distance"),
        ("bonds", 4, 3, "the bond of a path is out of range"),
        ("bonds", -1, 0, "the bond of a path is out of range"),
    ],
)
def test_an_impossible_path_is_refused(encoded, name, place, value, message):
    parts = {each: getattr(encoded.paths, each) for each in ("parents", "bonds", "depths")}
    parts[name] = _with(parts[name], place, value)
    with pytest.raises(ValueError, match=message):
        require_sound(replace(encoded, paths=PathVocabulary(**parts)), SPEC, ATOMS)
