"""Faulty fast paths are found before training, and correct ones are kept."""

from __future__ import annotations

import json
import re

import fast_paths
import pytest
import torch
from support import Recorder
from tape import record

from molsepnorm.devices import network
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.training import TrainConfig, train
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.steps import trial

CPU = torch.device("cpu")
WORLD = DistributedContext()


def settle(config: TrainConfig, world: DistributedContext = WORLD) -> tuple[str, list[str]]:
    """Return the kind of steps, and the notes."""
    notes: list[str] = []
    return trial.settled(config, CPU, world, notes.append).run.step, notes


def faulty_from_the_third(work, state):
    """A recording whose third replay leaves a weight 1 % too large."""
    again, count = record(work, state), iter(range(100))

    def replay() -> None:
        again()
        if next(count) == 2:
            with torch.no_grad():
                for tensor in state():
                    if tensor.is_floating_point() and tensor.requires_grad:
                        tensor.mul_(1.01)

    return replay


def replays_nothing(work, state):
    record(work, state)
    return lambda: None


def same_masks(work, state):
    """A recording that draws the same random numbers in every replay."""
    again = record(work, state)

    def replay() -> None:
        torch.manual_seed(5)
        again()

    return replay


def crashes(work, state):
    raise RuntimeError("CUDA error: unspecified launch failure")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_correct_paths_are_kept(configure, tmp_path, monkeypatch, precision):
    fast_paths.gpu(monkeypatch, tmp_path)
    config = configure({"run.precision": precision, "optim.ema": None})
    assert settle(config) == ("auto", [])
    assert {"cpu"} == fused.DEVICES
    paths = [each.path for each in trial.compared(config, CPU)]
    first = [] if precision == "fp32" else ["bf16"]
    assert paths == [*first, "fused attention", "fused attention's dropout", "captured steps"]


@pytest.mark.parametrize(
    "fault, said",
    [
        (fast_paths.by_one_percent, "outputs differ by .*e-03, gradients by "),
        (fast_paths.not_a_number, "outputs are not finite, gradients are not finite"),
        (
            fast_paths.raising,
            "it failed with RuntimeError: an illegal memory access was encountered",
        ),
        (fast_paths.wrong_gradients, "its gradients differ by "),
    ],
)
def test_a_faulty_attention_is_replaced(configure, tmp_path, monkeypatch, fault, said):
    """Steps stay captured, with PyTorch's attention."""
    fast_paths.gpu(monkeypatch, tmp_path, fault)
    name, notes = settle(configure({"model.attention_dropout": 0.0}))
    assert name == "auto"
    (note,) = notes
    assert note.startswith("PyTorch's attention replaces the fused one on cpu: compared with it ")
    assert re.search(said, note), note
    assert not fused.DEVICES


@pytest.mark.parametrize(
    "fault, said",
    [
        (faulty_from_the_third, "their weights differ by "),
        (replays_nothing, "their weights differ by "),
        (same_masks, "they failed with ValueError: every step drops the same activations"),
        (crashes, "they failed with RuntimeError: CUDA error: unspecified launch failure"),
    ],
)
@pytest.mark.parametrize("asked", ["auto", "captured"])
def test_faulty_captured_steps_are_replaced(configure, tmp_path, monkeypatch, fault, said, asked):
    """Eager ones replace them unless `run.step` names them; the line appears in both cases."""
    fast_paths.gpu(monkeypatch, tmp_path, record_there=fault)
    still = {} if fault is same_masks else {"model.dropout": 0.0, "model.attention_dropout": 0.0}
    name, notes = settle(configure({"run.step": asked, **still}))
    (note,) = notes
    assert f"compared with eager ones {said}" in note
    if asked == "auto":
        assert name == "eager"
        assert note.startswith("Steps on cpu are taken eagerly, not captured: ")
    else:
        assert name == "captured"
        assert note.startswith("Steps on cpu are captured, as configured, but ")
    assert {"cpu"} == fused.DEVICES


def test_a_configured_precision_is_used_with_a_warning(configure, tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(
        "molsepnorm.devices.network.BOUNDS", {"fp32": 5e-4, "tf32": 1e-2, "bf16": 1e-6}
    )
    _, notes = settle(configure({"run.precision": "bf16"}))
    assert any(note.startswith("bf16 is used on cpu as configured, but ") for note in notes)


def test_dropout_of_the_fused_attention_is_checked(configure, tmp_path, monkeypatch):
    """The function under test has another mask in its backward pass."""

    def other_mask(qkv, bias, dropped=0, scale=1.0):
        y = fast_paths.attend(qkv, bias, dropped, scale)
        torch.manual_seed(7)
        other = fast_paths.attend(qkv, bias, dropped, scale)
        return y.detach() + other - other.detach()

    fast_paths.gpu(monkeypatch, tmp_path, other_mask)
    _, notes = settle(configure({"model.attention_dropout": 0.0, "model.dropout": 0.0}))
    assert notes == []
    _, notes = settle(configure({"model.attention_dropout": 0.1, "model.dropout": 0.0}))
    assert any("its gradients differ" in note for note in notes)
    assert not fused.DEVICES


def test_several_processes_and_eager_steps_capture_nothing(configure, tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path, record_there=crashes)
    assert settle(configure(), DistributedContext(0, 2, 0, 2)) == ("auto", [])
    assert settle(configure({"run.step": "eager"})) == ("eager", [])


def test_verdicts_are_cached_by_the_settings_that_matter(configure, tmp_path, monkeypatch):
    """A new process reads them from the cache folder."""
    fast_paths.gpu(monkeypatch, tmp_path, fast_paths.by_one_percent)
    checks: list[str] = []
    of_network, of_steps = network.compare, trial.compare_captured
    monkeypatch.setattr(network, "compare", lambda *of: checks.append("network") or of_network(*of))
    monkeypatch.setattr(
        trial, "compare_captured", lambda *of: checks.append("steps") or of_steps(*of)
    )
    first = settle(configure())[1]
    assert checks == ["network", "steps"]
    for settings in ({}, {"optim.lr": 0.1, "run.epochs": 7, "run.batch_size": 9}):
        fast_paths.new_process(monkeypatch)
        fused.DEVICES.add("cpu")
        assert settle(configure(settings))[1] == first
        assert not fused.DEVICES
    assert len(checks) == 2
    for settings, expected in (
        ({"model.heads": 4}, ["network", "steps"]),
        ({"model.width": 32}, ["network", "steps"]),
        ({"model.dropout": 0.0, "model.attention_dropout": 0.0}, ["network", "steps"]),
        ({"run.precision": "bf16"}, ["network", "steps"]),
        ({"run.precision": "bf16", "run.step": "eager"}, []),
        ({"optim.clip_norm": None}, ["steps"]),
    ):
        fused.DEVICES.add("cpu")
        checks.clear()
        settle(configure(settings))
        assert checks == expected, settings


def test_a_run_warns_and_trains_along_the_plain_path(configure, tmp_path, monkeypatch, outcome):
    """It equals an eager run to the bit, and environment.json has the verdicts."""

    with monkeypatch.context() as patched:
        fast_paths.gpu(patched, tmp_path / "cache", record_there=crashes)
        patched.setattr(fused, "DEVICES", set())
        notes = Recorder()
        found = train(configure({"run.step": "auto"}), tmp_path / "auto", callback=notes)
        train(configure({"run.step": "eager"}), tmp_path / "eager")
    assert found.finished
    assert len(notes.warnings) == 1
    assert "not captured" in notes.warnings[0]
    assert outcome(tmp_path / "auto") == outcome(tmp_path / "eager")
    environment = json.loads((tmp_path / "auto" / "environment.json").read_text())
    (said,) = environment["fast_paths"]
    assert (said["path"], said["passed"]) == ("captured steps", False)
    assert said["said"].startswith("failed with RuntimeError: CUDA error")


def test_checks_do_not_change_the_random_state(configure, tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    settle(configure())
    assert torch.equal(torch.rand(4), expected)
