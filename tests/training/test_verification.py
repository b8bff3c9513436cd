"""Comparison of models and checkpoints with their digests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from molsepnorm.training.run_folder.verification import verify


@pytest.fixture
def run(copied) -> Path:
    """A run folder."""
    return copied({"run.epochs": 1})


def test_any_changed_byte_of_a_file_with_a_digest_is_found(run):
    """In 30 positions of each file. White space in config.json is no content."""
    rng = np.random.default_rng(0)
    checks = verify(run)
    assert {"model", "checkpoints/last.safetensors"} <= {each.path for each in checks}
    assert not any(each.problem for each in checks)
    names = "model/config.json", "model/model.safetensors", "model/training_molecules.gz"
    for name in (*names, "checkpoints/last.safetensors"):
        path = run / name
        content = path.read_bytes()
        for position in rng.integers(len(content), size=30).tolist():
            if chr(content[position]).isspace():
                continue
            changed = bytearray(content)
            changed[position] ^= 1
            path.write_bytes(changed)
            (damaged,) = (each for each in verify(run) if each.problem)
            assert Path(name).is_relative_to(damaged.path), (name, position)
            assert path.name in damaged.problem
        path.write_bytes(content)
    assert verify(run) == checks
