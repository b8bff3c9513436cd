"""The file of the training molecules: written, read, joined, and damaged."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.model.training_molecules import TrainingFile, TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import packed_morgan


def molecules(*smiles: str, seed: int = 0) -> TrainingMolecules:
    rng = np.random.default_rng(seed)
    count = len(smiles)
    labels = rng.normal(size=(count, 2))
    labels[0, 1] = np.nan
    return TrainingMolecules(
        smiles,
        rng.integers(0, 256, (count, 256), dtype=np.uint8),
        labels,
        rng.integers(-1, 2, (count, 2)).astype(np.int8),
    )


def same(one: TrainingMolecules, other: TrainingMolecules) -> bool:
    return one.smiles == other.smiles and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        and getattr(one, name).dtype == getattr(other, name).dtype
        for name in ("fingerprints", "labels", "bounds")
    )


@pytest.mark.parametrize("smiles", [("CCO", "C µ", "", "c1ccccc1"), ("C",)])
def test_what_is_written_is_read(tmp_path, smiles):
    """Texts may have any characters."""
    own = molecules(*smiles)
    (tmp_path / "file").write_bytes(own.to_bytes())
    digest = hashlib.sha256(own.to_bytes()).hexdigest()
    assert same(TrainingFile(tmp_path / "file", digest).read(), own)


def test_a_changed_or_incomplete_file_is_refused(tmp_path):
    """Even if its digest matches, as that of a faulty program."""
    own = molecules("CCO", "CCN")
    content, path = own.to_bytes(), tmp_path / "file"
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match="file is damaged or belongs to another model"):
        TrainingFile(path, hashlib.sha256(content).hexdigest()).read()
    for odd in (b"", b"nonsense", content[:-5]):
        path.write_bytes(odd)
        with pytest.raises(ModelError, match="is damaged"):
            TrainingFile(path, hashlib.sha256(odd).hexdigest()).read()
    other = TrainingMolecules(own.smiles, own.fingerprints[:1], own.labels, own.bounds)
    with pytest.raises(ValueError, match="its arrays do not fit each other"):
        TrainingMolecules.from_bytes(other.to_bytes())


def test_the_union_has_equal_molecules_once():
    one, other = molecules("CCO", "CCN"), molecules("CCC", "CCO", seed=1)
    assert TrainingMolecules.joined([one], "none") is one
    assert same(TrainingMolecules.joined([one, one], "none"), one)
    both = TrainingMolecules.joined([one, other], "none")
    assert both.smiles == ("CCO", "CCN", "CCC", "CCO")  # with other labels
    assert (both.fingerprints[2:] == other.fingerprints).all()
    np.testing.assert_array_equal(both.labels[2:], other.labels)


def test_a_molecule_that_parts_write_differently_has_one_smiles():
    """So its labels of all parts are found, see `TrainingMolecules.measured`."""
    one, other = molecules("CCO", "CCN"), molecules("CCC", "OCC", seed=1)
    other.fingerprints[1] = one.fingerprints[0]
    one.labels[:], other.labels[:] = 1, 2
    both = TrainingMolecules.joined([one, other], "none")
    assert both.smiles == ("CCO", "CCN", "CCC", "CCO")
    labels, bounds, _ = both.measured
    assert labels[3].tolist() == labels[0].tolist() and bounds[3].tolist() == bounds[0].tolist()


def test_a_molecule_is_found_whatever_its_spelling():
    written, standard = ["C[N+](C)(C)C.[Cl-]", "OCC", "C[C@H](O)F"], ["C[N+](C)(C)C", "OCC"]
    known = molecules(*written)
    known = replace(known, fingerprints=packed_morgan([*standard, written[2]]))
    asked = ["CCO", "C[N+](C)(C)C", "C[C@@H](O)F", "CC(O)F", "CCN", "not read"]
    assert known.holds(asked, "salts").tolist() == [True, True, False, False, False, False]
    without = replace(
        known, fingerprints=np.zeros_like(known.fingerprints), smiles=("C", "CCO", "O")
    )
    assert without.holds(asked, "salts").tolist() == [True, *[False] * 5]


def test_the_shipped_network_of_assays_knows_its_molecules():
    known = PropertyModel.from_pretrained("molsepnorm-assays").training_molecules()
    aspirin, new = "O=C(O)c1ccccc1OC(C)=O", "CC(C)CC(=O)N1CC(F)C1[Si](C)(C)C"
    assert known.holds([aspirin, new], "none").tolist() == [True, False]
