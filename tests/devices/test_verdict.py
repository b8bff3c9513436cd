"""Verdicts: their text, and when they come from the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from molsepnorm.devices import verdict
from molsepnorm.devices.verdict import Verdict, apart, differences, judge, known, remembered
from molsepnorm.errors import MolsepnormError

CPU = torch.device("cpu")
GOOD = Verdict("captured steps", {"outputs": 1e-7}, 1e-4)
BAD = Verdict("captured steps", {"outputs": 1e-2, "weights": None, "losses": 1e-9}, 1e-4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for verdicts; this process has none in memory."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    monkeypatch.setattr(verdict, "_known", {})
    return tmp_path / "verdicts"


@pytest.fixture
def look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """`look({"heads": 8})` returns whether a new process runs the check."""

    def look(settings: dict | None = None, found: Verdict = GOOD, process: bool = True) -> bool:
        if process:
            monkeypatch.setattr(verdict, "_known", {})
        runs: list[int] = []

        def work():
            runs.append(1)
            return [found]

        assert remembered(CPU, settings or {}, work) == (found,)
        assert known()[-1] == found
        return bool(runs)

    return look


def test_a_verdict_is_taken_from_the_cache(look, folder):
    """The settings are its key, and failed ones are cached too."""
    assert look({"heads": 8}, BAD)
    assert not look({"heads": 8}, BAD)
    assert not look({"heads": 8}, BAD, process=False)
    assert look({"heads": 4})
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("name", ["device", "driver", "torch", "triton"])
def test_other_versions_are_checked_again(look, monkeypatch, name):
    assert look()
    about = {**verdict._identity(CPU), name: "another"}
    monkeypatch.setattr(verdict, "_identity", lambda device: about)
    assert look()
    assert not look()


def test_the_key_has_the_package_source():
    """A kernel that was edited has the same version number."""
    assert len(verdict._identity(CPU)["source"]) == 24


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: "[]",
        lambda text: "\xff",
        lambda text: text.replace('"bound"', '"limit"'),
    ],
)
def test_a_damaged_file_leads_to_another_check(look, folder, damage):
    assert look()
    (path,) = folder.iterdir()
    text = path.read_text()
    path.write_text(damage(text), encoding="latin-1")
    assert look()
    assert path.read_text() == text
    assert not look()


def test_a_cache_that_cannot_be_written_costs_another_check(look, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "file"))
    assert look()
    assert look()
    assert not look(process=False)


def test_a_lack_of_memory_is_not_cached(look):
    """A full GPU is not the fault of the path."""
    full = Verdict("captured steps", {}, 1e-4, "OutOfMemoryError: CUDA out of memory")
    assert look(found=full)
    assert look(found=full)


def test_an_unusable_device_is_an_error_once(folder, monkeypatch):
    """The next process reads the verdict, and does not use the path."""
    crashed = Verdict("captured steps", {}, 1e-4, "AcceleratorError: an illegal memory access")
    monkeypatch.setattr(verdict, "_works", lambda device: False)
    with pytest.raises(MolsepnormError, match="left cpu unusable .*run the same command again"):
        remembered(CPU, {}, lambda: [crashed])
    assert remembered(CPU, {}, lambda: pytest.fail("checked again")) == (crashed,)


def test_a_broken_device_is_detected(monkeypatch):
    assert verdict._works(CPU)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no")))
    assert not verdict._works(CPU)


def test_a_verdict_describes_the_differences():
    assert str(GOOD) == "outputs differ by 1.0e-07 (at most 1e-04 expected)"
    assert str(BAD) == "outputs differ by 1.0e-02, weights are not finite (at most 1e-04 expected)"
    assert GOOD.passed
    assert not BAD.passed
    assert not Verdict("nothing compared", {}, 1.0).passed
    assert not Verdict("not a number", {"outputs": math.nan}, 1.0).passed


def test_differences_are_relative_to_each_tensor():
    """Very small tensors are compared relative to a tenth of the largest."""
    large, small, tiny = torch.full((4,), 10.0), torch.full((4,), 2.0), torch.full((4,), 1e-6)
    assert apart([large, small], [large, small]) == 0
    assert apart([large, small * 1.01], [large, small]) == pytest.approx(0.01, rel=1e-4)
    assert apart([large, tiny * 2], [large, tiny]) == pytest.approx(1e-6, rel=1e-4)
    assert apart([small * 0], [small * 0]) == 0
    assert math.isnan(apart([small, large * torch.nan], [small, large]))
    assert not math.isfinite(apart([large * torch.inf, small], [large, small]))
    assert apart([large[:3]], [large]) == math.inf
    assert apart([large], [large, small]) == math.inf


def test_a_path_that_raises_an_error_fails():
    plain = {"outputs": [torch.ones(2)]}
    assert judge("a", 1e-4, lambda: differences(plain, plain)).passed
    assert judge("a", 1e-4, lambda: differences({}, plain)).error == "KeyError: 'outputs'"
    wrong = judge("a", 1e-4, lambda: {"outputs": math.nan})
    assert (wrong.figures, wrong.passed) == ({"outputs": None}, False)

    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge("a", 1e-4, stopped)


def test_the_driver_version_is_read(monkeypatch, tmp_path):
    assert isinstance(verdict.driver(), str)
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    assert verdict.driver() == "550.54.15"
