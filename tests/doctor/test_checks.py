"""The checks of `molsepnorm doctor`."""

from __future__ import annotations

import fast_paths
import numpy as np
import pytest
import torch

from molsepnorm.doctor import checks, describe, machine, run_checks
from molsepnorm.predict import Predictor
from molsepnorm.training import config, trial


def test_all_is_well_here():
    found = list(run_checks())
    assert [each for each in found if each.state != "ok"] == []
    assert len(found) >= 6
    assert all(each.said for each in found)


def test_what_is_missing_is_skipped(monkeypatch):
    """A package that is not installed; but not a module of our own."""

    def needs(name):
        def work():
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            yield

        return work

    names = ("rdkit.Chem", "molsepnorm.nn.nothing")
    monkeypatch.setattr(checks, "_checks", lambda: {name: needs(name) for name in names})
    first, second = run_checks()
    assert (first.state, first.said) == ("skipped", "needs rdkit, which is not installed")
    assert (second.state, second.name) == ("failed", "molsepnorm.nn.nothing")


def test_without_rdkit(monkeypatch):
    """The checks that need it are skipped, the others run."""
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "rdkit"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("smiles", "zinc", "sdf", "cxsmiles", "ogb", "rich", "scaffold"):
        monkeypatch.delitem(sys.modules, f"molsepnorm.molecules.featurize.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    states = {each.name: (each.state, each.said) for each in run_checks()}
    skipped = "skipped", "needs rdkit, which is not installed"
    assert states["prediction of an example"] == states["worker processes"] == skipped
    assert states["attention on the CPU"][0] == "ok"


def test_predictions_that_differ(monkeypatch):
    """Faults with two SMILES, with a batch and with workers."""
    plain = Predictor.predict

    def other(self, smiles):
        rows = plain(self, smiles)
        for row in rows[: len(rows) // 2 * (self.processes > 1 or smiles[0] == "OCC")]:
            row.values["y"] += 0.01
        return rows

    monkeypatch.setattr(Predictor, "predict", other)
    states = {each.name: each for each in run_checks()}
    assert states["prediction of an example"].state == "failed"
    assert "other SMILES: predictions differ by" in states["prediction of an example"].said
    assert states["worker processes"].state == "failed"


def test_predictions_that_fail_or_are_all_the_same(monkeypatch):
    model = checks._model()
    with pytest.raises(ValueError, match="RDKit"):
        checks._values(Predictor(model), ["C(C"])
    with pytest.raises(ValueError, match="all molecules have the same prediction"):
        checks._agree("alone", np.ones(3), np.ones(3))
    monkeypatch.setattr(checks, "_model", lambda: 1 / 0)
    (failed,) = [each for each in run_checks() if each.name == "worker processes"]
    assert (failed.state, failed.said) == ("failed", "ZeroDivisionError: division by zero")
    monkeypatch.undo()
    plain = Predictor.predict
    monkeypatch.setattr(
        Predictor,
        "predict",
        lambda self, texts: plain(self, [t if "not" not in t else "C" for t in texts]),
    )
    (failed,) = [each for each in run_checks() if each.name == "prediction of an example"]
    assert failed.said.endswith("ValueError: a text that is not a molecule got a prediction")


def test_a_gpu_s_fast_paths(tmp_path, monkeypatch):
    """On a CPU that takes itself for a GPU: verdicts and times in each precision."""
    fast_paths.gpu(monkeypatch, tmp_path)
    steps = {name: work for name, work in checks._on_gpu("cpu").items() if "fp32" in name}
    monkeypatch.setattr(
        checks,
        "_checks",
        lambda: {"against": checks._on_gpu("cpu")["cpu against the CPU"], **steps},
    )
    recipe, seconds = config.load_config, trial.step_seconds
    small = {"model.width": 16, "model.ffn_width": 16, "model.heads": 2}
    monkeypatch.setattr(
        config,
        "load_config",
        lambda name, overrides: recipe(name, overrides={**overrides, **small}),
    )
    monkeypatch.setattr(trial, "step_seconds", lambda *of: seconds(*of, steps=1))
    against, of_steps = run_checks()
    assert (against.state, of_steps.state) == ("ok", "ok"), of_steps.said
    assert "network: outputs differ by" in against.said
    for part in ("fused attention: ", "captured steps: ", "a step along the fast paths"):
        assert part in of_steps.said
    fast_paths.gpu(monkeypatch, tmp_path, fast_paths.wrong_gradients)
    assert next(iter(run_checks())).state == "failed"


def test_the_names_of_a_gpu_s_checks(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    names = [*checks._checks()][-4:]
    assert names == ["cuda:0 against the CPU", "cuda:0, fp32", "cuda:0, tf32", "cuda:0, bf16"]


def test_the_machine(monkeypatch, tmp_path):
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_PACKAGES", ("torch", "torch-nothing"))
    found = describe()
    assert found.versions["torch"] == torch.__version__
    assert found.versions["torch-nothing"] is None
    assert "GiB of memory" in found.devices["cpu"]
    assert found.folders["data"].startswith("not set")
    assert found.folders["cache"] == f"{tmp_path / 'cache'} (not there yet, writable)"
    (tmp_path / "cache").touch()
    assert describe().folders["cache"].endswith("(not writable)")


def test_a_gpu_is_described(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (2**30, 2**34))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "A GPU")
    said = describe().devices["cuda:0"]
    assert said.startswith("A GPU, 16.0 GiB of memory (1.0 GiB free), compute capability 9.0")
