"""The fast paths of a forward pass are checked by whoever runs a network first."""

from __future__ import annotations

import subprocess
import sys
import warnings

import fast_paths
import numpy as np
import pytest
import torch

from molsepnorm.devices import network
from molsepnorm.devices.network import Way, compare, outputs, small
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.predict.inference import infer

CPU = torch.device("cpu")
CONFIG = GraphormerConfig(layers=3, width=16, ffn_width=16, heads=2)


def run(precision: str = "fp32") -> torch.Tensor:
    """A network's outputs, as every command gets them."""
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
    """With a warning the first time, with the right outputs; and so in the next process."""
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


def test_a_right_one_is_kept(tmp_path, monkeypatch):
    """And checked once."""
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
    monkeypatch.setattr(network, "_BOUNDS", {"fp32": 5e-4, "bf16": 1e-6})
    with pytest.warns(UserWarning, match="The precision is bf16 on cpu, as asked for, but "):
        run("bf16")


def test_networks_without_a_fast_path_are_not_checked(tmp_path, monkeypatch):
    fast_paths.gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(network, "compare", lambda *_: pytest.fail("checked"))
    for each in (GraphormerConfig(urpe=True), GraphormerConfig(pair_width=8)):
        assert network.settle(each, CPU, "fp32") == []


def test_a_plain_path_that_fails_leaves_no_fast_path(monkeypatch):
    """A path that cannot be compared is not used."""

    def results(way: Way):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(fused, "DEVICES", {"cpu"})
    found = list(compare(CONFIG, Way("bf16", True, True), CPU, results))
    assert [each.path for each in found] == ["bf16", "fused attention", "captured steps"]
    assert all(each.error.startswith("the plain path's RuntimeError: no kernel") for each in found)


def test_paths_are_added_one_by_one():
    """A part that failed is left out of what comes after it."""
    seen: list[Way] = []

    def results(way: Way):
        seen.append(way)
        return {"outputs": [torch.tensor([1.1 if way.fused else 1.0])]}

    found = list(compare(CONFIG, Way("bf16", True, True), CPU, results))
    assert [each.passed for each in found] == [True, False, True]
    ways = [Way(), Way("bf16"), Way("bf16", True), Way("bf16", False, True)]
    assert seen == ways


def test_precisions_and_kinds_of_network_are_within_their_bounds():
    """On a CPU bf16 is the precision there is; pair vectors magnify rounding."""
    for extra in ({}, {"local": "gine", "node_walks": 8, "urpe": True}, {"pair_width": 8}):
        config = small(GraphormerConfig(**extra))
        (verdict,) = compare(config, Way("bf16"), CPU, lambda way, c=config: outputs(c, way, CPU))
        assert verdict.passed, str(verdict)
        assert verdict.figures["outputs"] > 1e-4  # it was bf16


def test_every_tile_of_the_kernels_has_a_molecule():
    tiles = {max(16, 1 << size.bit_length()) for size in network.SIZES}
    assert tiles == {16, 32, 64, 128}


def test_a_cpu_loads_no_check():
    """Predicting on a CPU neither checks nor imports what checks."""
    code = (
        "import sys, numpy as np, molsepnorm.predict, molsepnorm.predict.inference, molsepnorm.nn; "
        "print({'molsepnorm.devices.network', 'molsepnorm.devices.verdict'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_caller_is_not_disturbed():
    """Random numbers stay; gradients are on within, whatever they are outside."""
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
