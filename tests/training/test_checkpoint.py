"""Checkpoints restore the state exactly, and damaged ones are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from molsepnorm.errors import ModelError, StorageError
from molsepnorm.files.digests import BLANK, write_sealed
from molsepnorm.training.config import OptimConfig
from molsepnorm.training.objectives import Objective
from molsepnorm.training.run_folder import checkpoint
from molsepnorm.training.run_folder.checkpoint import Progress
from molsepnorm.training.steps.optim import WeightAverage, make_optimizer

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


def _step(objective, optimizer, average) -> float:
    loss_sum, count = objective.train()(torch.randn(8, 4), None)
    optimizer.zero_grad()
    (loss_sum / count).backward()
    optimizer.step()
    average.update(objective, torch.tensor(0.1))
    return float(loss_sum.detach())


def save_checkpoint(path, progress, objective, optimizer, average) -> None:
    """Save with the state of torch's generator."""
    random = {"cpu": torch.get_rng_state()}
    checkpoint.save_checkpoint(path, progress, objective, optimizer, average, random)


def load_checkpoint(path, objective, optimizer, average) -> Progress:
    """Load and restore the state of torch's generator."""
    progress, random, _ = checkpoint.load_checkpoint(path, objective, optimizer, average)
    torch.set_rng_state(random["cpu"])
    return progress


def test_training_continues_with_exactly_the_same_steps(tmp_path):
    """Weights, moments, average, random states and progress are restored: five steps are equal."""
    parts = _parts()
    for _ in range(4):
        _step(*parts)
    save_checkpoint(tmp_path / "last", PROGRESS, *parts)
    losses = [_step(*parts) for _ in range(5)]
    fresh = _parts(seed=1)
    assert load_checkpoint(tmp_path / "last", *fresh) == PROGRESS
    assert [_step(*fresh) for _ in range(5)] == losses
    for kind in (0, 2):
        there, here = parts[kind].state_dict(), fresh[kind].state_dict()
        assert there.keys() == here.keys()
        assert all(torch.equal(there[name], here[name]) for name in there)


def test_a_checkpoint_before_the_first_step_has_no_moments(tmp_path):
    """A run may be stopped there, too."""
    parts = _parts()
    save_checkpoint(tmp_path / "last", Progress(), *parts)
    losses = [_step(*parts) for _ in range(3)]
    fresh = _parts(seed=1)
    assert load_checkpoint(tmp_path / "last", *fresh) == Progress()
    assert [_step(*fresh) for _ in range(3)] == losses


def test_a_checkpoint_without_an_average_loads(tmp_path):
    objective, optimizer, _ = _parts()
    save_checkpoint(tmp_path / "last", PROGRESS, objective, optimizer, None)
    other, its_optimizer, _ = _parts(seed=1)
    load_checkpoint(tmp_path / "last", other, its_optimizer, None)
    assert torch.equal(objective.head.weight, other.head.weight)
    assert torch.equal(objective.network[0].weight, other.network[0].weight)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-50])


def _cut_header(path):
    path.write_bytes(path.read_bytes()[:20])


def _strip_metadata(path):
    from safetensors.torch import load_file, save_file

    save_file(load_file(path), path)


def _strip_random(path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del tensors["random/cpu"]
    save_file(tensors, path, metadata=about)


@pytest.mark.parametrize(
    "damage",
    [
        _truncate,
        _cut_header,
        _strip_metadata,
        _strip_random,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0" * 500),
    ],
    ids=["truncated", "header cut", "no metadata", "no random state", "empty", "zeros"],
)
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    damage(path)
    with pytest.raises(ModelError, match="last is damaged or belongs to another configuration"):
        load_checkpoint(path, *_parts())


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    save_checkpoint(tmp_path / "last", PROGRESS, *_parts())
    with pytest.raises(ModelError, match="belongs to another configuration"):
        load_checkpoint(tmp_path / "last", *_parts(width=7))


def test_a_checkpoint_without_the_configured_average_is_refused(tmp_path):
    objective, optimizer, _ = _parts()
    save_checkpoint(tmp_path / "last", PROGRESS, objective, optimizer, None)
    with pytest.raises(ModelError, match="belongs to another configuration"):
        load_checkpoint(tmp_path / "last", *_parts())


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SCHEMA", 99)
    save_checkpoint(tmp_path / "last", PROGRESS, *_parts())
    monkeypatch.undo()
    with pytest.raises(ModelError, match=r"another version of molsepnorm \(schema 99, and this"):
        load_checkpoint(tmp_path / "last", *_parts())


@pytest.mark.parametrize("history", [b"", b"epoch,step\n1,\xc3\xa9\n"])
def test_the_history_is_saved_and_loaded(tmp_path, history):
    """It is equal byte by byte."""
    path, random = tmp_path / "last", {"cpu": torch.get_rng_state()}
    checkpoint.save_checkpoint(path, PROGRESS, *_parts(), random, history)
    assert checkpoint.load_checkpoint(path, *_parts())[2] == history


def test_a_missing_checkpoint_is_reported(tmp_path):
    with pytest.raises((StorageError, ModelError), match="none"):
        load_checkpoint(tmp_path / "none", *_parts())


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
    for place in rng.integers(begin, end, 150).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelError, match="last (is damaged or belongs|was written by another)"):
            load_checkpoint(path, *_parts())


def _rewrite(path, change) -> None:
    """Change the progress of a checkpoint."""
    with safe_open(path, framework="pt") as file:
        content = json.loads(file.metadata()["molsepnorm"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    change(content["progress"])
    metadata = {"molsepnorm": json.dumps(content), "sha256": BLANK}
    write_sealed(path, [save(tensors, metadata=metadata)])


def test_a_current_checkpoint_without_its_digest_is_refused(tmp_path):
    path = tmp_path / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    with safe_open(path, framework="pt") as file:
        metadata = {"molsepnorm": file.metadata()["molsepnorm"]}
    path.write_bytes(save(load_file(path), metadata=metadata))
    with pytest.raises(ModelError, match="last is damaged .*: it holds no digest"):
        load_checkpoint(path, *_parts())


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"epoch": 10**9}, "epoch must not be above epochs, nor best_epoch above epoch"),
        ({"best_epoch": 3}, "epoch must not be above epochs, nor best_epoch above epoch"),
        ({"loss_sum": float("nan")}, "loss_sum and best_score must be finite"),
        ({"best_score": float("-inf")}, "loss_sum and best_score must be finite"),
        ({"epoch": -1}, "epoch must be a number from 0 on; got -1"),
        ({"epoch": 1.5}, "epoch: .*valid integer; got 1.5"),
        ({"epoch": "1"}, "epoch: .*valid integer; got '1'"),
        ({"epoch": None}, "epoch: .*valid integer; got None"),
        ({"step": [1]}, "step: .*valid integer"),
        ({"epochs": 10**400}, "epochs must be a number from 0 on; got 1000"),
        ({"seconds": float("nan")}, "seconds must be a number from 0 on; got nan"),
        ({"graphs": True}, "graphs: .*valid integer"),
        ({"best_score": "x"}, "best_score: .*valid number"),
    ],
)
def test_impossible_progress_is_refused(tmp_path, entries, message):
    path = tmp_path / "last"
    save_checkpoint(path, PROGRESS, *_parts())
    _rewrite(path, lambda progress: progress.update(entries))
    with pytest.raises(
        ModelError, match=f"last is damaged .* configuration: progress: {message}"
    ) as caught:
        load_checkpoint(path, *_parts())
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{}", "[" * 100_000, '{"schema": 3, "progress": []}']
)
def test_foreign_metadata_are_refused(tmp_path, text):
    path = tmp_path / "last"
    path.write_bytes(save({"a": torch.zeros(1)}, metadata={"molsepnorm": text}))
    with pytest.raises(ModelError, match="last is damaged or belongs to another configuration"):
        load_checkpoint(path, *_parts())
