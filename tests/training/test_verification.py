"""Comparison of models and checkpoints with their digests."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from molsepnorm.training.run_folder.verification import verify


@pytest.fixture
def run(copied) -> Path:
    """A run folder."""
    return copied({"run.epochs": 1})


def _status(folder: Path) -> dict[str, str]:
    return {each.file: each.status for each in verify(folder)}


def test_any_changed_byte_of_a_file_with_a_digest_is_found(run):
    """In 30 positions of each file. White space in config.json is no content."""
    rng = np.random.default_rng(0)
    before = _status(run)
    named = [name for name, status in before.items() if status == "intact"]
    assert {"model/config.json", "model/model.safetensors"} < set(named)
    assert "checkpoints/last.safetensors" in named
    for name in named:
        path = run / name
        content = path.read_bytes()
        for position in rng.integers(len(content), size=30).tolist():
            if chr(content[position]).isspace():
                continue
            changed = bytearray(content)
            changed[position] ^= 1
            path.write_bytes(changed)
            found = [each.file for each in verify(run) if each.status != "intact"]
            assert name in found, (name, position)
        path.write_bytes(content)
    assert _status(run) == before


def test_a_file_that_is_left_out_of_a_shared_copy_is_no_damage(run, tmp_path):
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / "training_molecules.gz").unlink()
    states = _status(tmp_path / "model")
    assert states.pop("training_molecules.gz") == "left out"
    assert "damaged" not in states.values()
