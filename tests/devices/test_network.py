"""The fast paths of a forward pass are checked before their first use."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import fast_paths
import numpy as np
import pytest
import torch

from molsepnorm.devices import network
from molsepnorm.devices.network import Way, compare
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.predict.inference import infer

CPU = torch.device("cpu")
CONFIG = GraphormerConfig(layers=3, width=16, ffn_width=16, heads=2)


def run(precision: str = "fp32") -> torch.Tensor:
    """Return a network's outputs, as all commands compute them."""
    tensors = network.tensors(CONFIG, CPU)
    torch.manual_seed(0)
    return infer(Graphormer(CONFIG), tensors, np.arange(len(network.SIZES)), precision=precision)


@pytest.mark.parametrize(
    "fault, said",
    [
        (fast_paths.by_one_percent, r"its outputs differ by \d.*e-03"),
        (fast_paths.not_a_number, "its outputs are not finite"),
        (fast_paths.raising, "it failed with RuntimeError: an illegal memory access"),
    ],
)
def test_a_faulty_attention_is_replaced(tmp_path, monkeypatch, fault, said):
    """It warns once for each process, and the outputs are correct."""
    expected = run()
    fast_paths.gpu(monkeypatch, tmp_path, fault)
    for _ in range(2):
        fast_paths.new_process(monkeypatch)
        fused.DEVICES.add("cpu")
        with pytest.warns(UserWarning, match=f"PyTorch's attention replaces the fused.*{said}"):
            found = run()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(run(), expected)
        assert not fused.DEVICES


def test_a_correct_attention_is_kept(tmp_path, monkeypatch):
    """It is checked once."""
    expected = run()
    fast_paths.gpu(monkeypatch, tmp_path)
    count: list[int] = []
    plain = network.compare
    monkeypatch.setattr(network, "compare", lambda *of: count.append(1) or plain(*of))
    for _ in range(3):
        torch.testing.assert_close(run(), expected)
    assert len(count) == 1
    assert {"cpu"} == fused.DEVICES


def test_a_precision_that_is_off_is_used_with_a_warning(tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(network, "BOUNDS", {"fp32": 5e-4, "bf16": 1e-6})
    with pytest.warns(UserWarning, match="bf16 is used on cpu as configured, but "):
        run("bf16")


def test_networks_without_a_fast_path_are_not_checked(tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(network, "compare", lambda *_: pytest.fail("checked"))
    assert network.settle(GraphormerConfig(urpe=True), CPU, "fp32") == []


def test_a_plain_path_that_fails_leaves_no_fast_path(monkeypatch):
    def broken(*_):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    monkeypatch.setattr(fused, "_runs_on", lambda device: True)
    monkeypatch.setattr(network, "results", broken)
    found = list(compare(CONFIG, "bf16", CPU))
    assert [each.path for each in found] == ["bf16", "fused attention"]
    assert all(each.error.startswith("RuntimeError: no kernel image") for each in found)


@pytest.mark.parametrize("right", [True, False])
def test_the_fused_attention_is_compared_in_the_precision_if_that_passes(monkeypatch, right):
    seen: list[Way] = []

    def results(config, way, device):
        seen.append(way)
        return {"outputs": [torch.tensor([1.0 if right or way.precision == "fp32" else 2.0])]}

    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    monkeypatch.setattr(fused, "_runs_on", lambda device: True)
    monkeypatch.setattr(network, "results", results)
    found = list(compare(replace(CONFIG, attention_dropout=0.0), "bf16", CPU))
    assert [each.passed for each in found] == [right, True]
    assert seen == [Way("bf16"), Way(), Way("bf16" if right else "fp32", fused=True)]


def test_precisions_and_kinds_of_network_are_within_their_bounds():
    """A CPU has bf16 only."""
    for extra in ({}, {"local": "gine", "node_walks": 8, "urpe": True}):
        (verdict,) = compare(GraphormerConfig(**extra), "bf16", CPU)
        assert verdict.passed, str(verdict)
        assert verdict.figures["outputs"] > 1e-4  # it was bf16


def test_every_tile_of_the_kernels_has_a_molecule():
    tiles = {max(16, 1 << size.bit_length()) for size in network.SIZES}
    assert tiles == {16, 32, 64, 128}


def test_a_cpu_loads_no_check():
    """Prediction on a CPU does not import the checks."""
    code = (
        "import sys, numpy as np, molsepnorm.predict, molsepnorm.predict.inference, molsepnorm.nn; "
        "print({'molsepnorm.devices.network', 'molsepnorm.devices.verdict'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_caller_is_not_disturbed():
    """The random state is restored, and gradients are enabled within."""
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with torch.inference_mode(), network.undisturbed(CPU):
        torch.manual_seed(9)
        assert torch.is_grad_enabled()
        assert torch.ones(1, requires_grad=True).mul(2).requires_grad
    assert torch.equal(torch.rand(3), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {"cuda"} == fused.DEVICES
