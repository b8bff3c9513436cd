"""Checkpoints restore the state exactly, and damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from molsepnorm.errors import ModelError, StorageError
from molsepnorm.training.config import OptimConfig
from molsepnorm.training.objectives import Objective
from molsepnorm.training.run_folder import checkpoint
from molsepnorm.training.run_folder.checkpoint import Progress
from molsepnorm.training.step import WeightAverage, make_optimizer

PROGRESS = Progress(2, 3, 17, 0.1 + 0.2, 5, 40, 1 / 3, 2.5, 9, 1e-17, 1)


class _Objective(Objective):
    """A network and a head without data."""

    def __init__(self, network: nn.Module, head: nn.Module) -> None:
        nn.Module.__init__(self)
        self.network, self.head = network, head

    def forward(self, batch, graphs):
        return self.head(self.network(batch)).square().sum(), torch.tensor(8.0)


def _parts(seed: int = 0, width: int = 6):
    """A network with batch norm and dropout and its head, their optimiser and their average."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Dropout(0.3))
    objective = _Objective(network, nn.Linear(width, 1))
    return objective, make_optimizer(objective, OptimConfig(lr=0.01)), WeightAverage(objective, 0.9)


def save_checkpoint(path, progress, objective, optimizer, average) -> None:
    """Save with the state of torch's generator."""
    random = {"cpu": torch.get_rng_state()}
    checkpoint.save_checkpoint(path, progress, objective, optimizer, average, random, {})


def load_checkpoint(path, objective, optimizer, average) -> Progress:
    """Load and restore the state of torch's generator."""
    progress, random, _ = checkpoint.load_checkpoint(path, objective, optimizer, average)
    torch.set_rng_state(random["cpu"])
    return progress


@pytest.mark.parametrize("damage", ["cut", "no metadata", "of another"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    with safe_open(path, framework="pt") as file:
        metadata = {"molsepnorm": file.metadata()["molsepnorm"]}
    if damage == "of another":
        metadata = {"molsepnorm": f'{{"schema": {checkpoint.SCHEMA}, "progress": []}}'}
    content = {"cut": path.read_bytes()[:-50], "empty": b""}
    told = None if damage == "no metadata" else metadata
    path.write_bytes(content.get(damage, save(load_file(path), metadata=told)))
    with pytest.raises(ModelError, match="last is damaged or belongs to another configuration"):
        load_checkpoint(path, *_parts())


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SCHEMA", 99)
    save_checkpoint(tmp_path / "last", PROGRESS, *_parts())
    monkeypatch.undo()
    with pytest.raises(ModelError, match=r"another version of molsepnorm \(schema 99, and this"):
        load_checkpoint(tmp_path / "last", *_parts())


def test_a_full_disk_keeps_the_last_checkpoint(small_disk):
    """On a disk that is really full; safetensors raises its own error there."""
    path = small_disk / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    before = path.read_bytes()
    with pytest.raises(StorageError, match="cannot write .*last: the disk is full"):
        save_checkpoint(path, PROGRESS, *_parts(width=4000))
    assert path.read_bytes() == before
    assert [entry.name for entry in small_disk.iterdir()] == ["last"]


@pytest.mark.parametrize("part", ["length", "header", "data"])
def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path, part):
    path = tmp_path / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    begin, end = {"length": (0, 8), "header": (8, header), "data": (header, len(content))}[part]
    rng = np.random.default_rng(0)
    for place in rng.integers(begin, end, 60).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelError, match="last (is damaged or belongs|was written by another)"):
            load_checkpoint(path, *_parts())
