"""Descriptors and fingerprints of a data set: computed once, and then read from the cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from rdkit import Chem

from molsepnorm.molecules.featurize.descriptors import (
    COUNTS,
    DESCRIPTORS,
    describe,
    morgan_counts,
)
from molsepnorm.tasks import ExtraInputs
from molsepnorm.training import inputs
from molsepnorm.training.inputs import structure_features

SMILES = [f"{'C' * length}{end}" for length in range(1, 6) for end in ("O", "N", "F", "[Na]", "Br")]
READS = ExtraInputs(morgan=COUNTS, descriptors=DESCRIPTORS)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def small_tasks(monkeypatch):
    """Four molecules in each task, so that a few molecules have several tasks."""
    monkeypatch.setattr(inputs, "_TASK", 4)


def refuse(*_):
    raise AssertionError("was computed")


def test_the_targets_are_those_of_each_molecule(own_cache, small_tasks):
    """Compared with a loop, in the order of the molecules, with the progress."""
    calls = []
    found = structure_features(SMILES, READS, lambda done, of: calls.append((done, of)))
    assert found["descriptors"].shape == (25, len(DESCRIPTORS))
    assert found["counts"].shape == (25, COUNTS)
    for row, text in enumerate(SMILES):
        mol = Chem.MolFromSmiles(text)
        np.testing.assert_allclose(found["descriptors"][row], describe(mol), rtol=1e-6)
        assert np.array_equal(found["counts"][row], morgan_counts(mol))
    assert calls == [*((done, 25) for done in range(4, 25, 4)), (25, 25)]


def test_they_are_read_from_the_cache_the_second_time(own_cache, monkeypatch):
    first = structure_features(SMILES, READS)
    paths = {path.suffix[1:]: path for path in own_cache.iterdir()}
    assert {*paths} == {*first}
    monkeypatch.setattr(inputs, "_write", refuse)
    second = structure_features(SMILES, READS, refuse)
    for name, values in first.items():
        np.testing.assert_array_equal(second[name], values)
        base = second[name]
        while not isinstance(base, np.memmap):
            base = base.base  # of a view
        assert base.filename == paths[name]
    with pytest.raises(AssertionError, match="was computed"):
        structure_features(SMILES[::-1], READS)
    with pytest.raises(AssertionError, match="was computed"):
        structure_features(SMILES[1:], READS)
    monkeypatch.setattr(inputs.descriptors, "RDKIT_VERSION", "another")
    with pytest.raises(AssertionError, match="was computed"):
        structure_features(SMILES, READS)


@pytest.mark.parametrize("damage", ["cut", "emptied", "of counts"])
def test_a_damaged_file_is_made_anew(own_cache, damage):
    first = {name: values.copy() for name, values in structure_features(SMILES, READS).items()}
    whole, path = sorted(own_cache.iterdir())
    content = path.read_bytes()
    damaged = {"cut": content[: len(content) // 2], "emptied": b"", "of counts": whole.read_bytes()}
    path.write_bytes(damaged[damage])
    for name, values in structure_features(SMILES, READS).items():
        np.testing.assert_array_equal(values, first[name])
    assert path.read_bytes() == content


KILLED = f"""
import os, signal
from molsepnorm.tasks import ExtraInputs
from molsepnorm.training import inputs
inputs._TASK = 4
reads = inputs.ExtraInputs(morgan={COUNTS}, descriptors={DESCRIPTORS})
kill = lambda done, of: os.kill(os.getpid(), signal.SIGKILL) if done > 8 else None
inputs.structure_features({SMILES!r}, reads, kill)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_what_a_killed_process_left_is_removed_by_the_next(own_cache):
    ended = subprocess.run([sys.executable, "-c", KILLED], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert any(path.name.startswith(".") for path in own_cache.iterdir())
    structure_features(SMILES, READS)
    assert {path.suffix for path in own_cache.iterdir()} == {".descriptors", ".counts"}
