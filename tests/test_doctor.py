"""The machine description and the checks of `molsepnorm doctor`."""

from __future__ import annotations

import torch

from molsepnorm import doctor
from molsepnorm.doctor import describe, run_checks
from molsepnorm.predict import Predictor


def test_all_checks_pass_here():
    found = list(run_checks())
    assert [each for each in found if each.state != "ok"] == []
    assert len(found) >= 3
    assert all(each.said for each in found)


def test_a_check_whose_package_is_missing_is_skipped(monkeypatch):
    """A missing module of this package fails instead."""

    def needs(name):
        def work():
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            yield

        return work

    names = ("rdkit.Chem", "molsepnorm.nn.nothing")
    monkeypatch.setattr(doctor, "_checks", lambda: {name: needs(name) for name in names})
    first, second = run_checks()
    assert (first.state, first.said) == ("skipped", "needs rdkit, which is not installed")
    assert (second.state, second.name) == ("failed", "molsepnorm.nn.nothing")


def test_different_predictions_fail_a_check(monkeypatch):
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


def test_the_machine_is_described(monkeypatch, tmp_path):
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "_PACKAGES", ("torch", "torch-nothing"))
    found = describe()
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["torch-nothing"] is None
    assert "cores, PyTorch threads: " in found["devices"]["cpu"]
    assert found["folders"]["data"].startswith("not set")
    assert found["folders"]["cache"] == f"{tmp_path / 'cache'} (does not exist yet, writable)"
    (tmp_path / "cache").touch()
    assert describe()["folders"]["cache"].endswith("(not writable)")


def test_a_gpu_is_described(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (2**30, 2**34))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "A GPU")
    said = describe()["devices"]["cuda:0"]
    assert said.startswith("A GPU, 16.0 GiB of memory (1.0 GiB free), compute capability 9.0")
