"""The machine description and the checks of `molsepnorm doctor`."""

from __future__ import annotations

import pytest
import torch

from molsepnorm import doctor
from molsepnorm.doctor import describe, run_checks


def test_all_checks_pass_here():
    found = list(run_checks())
    assert [each.state for each in found] == ["ok"] * (1 + torch.cuda.device_count())
    assert all("outputs differ by" in each.said for each in found)


@pytest.mark.parametrize("difference", [0.01, float("nan")])
def test_wrong_results_fail_a_check(monkeypatch, difference):
    monkeypatch.setattr(doctor, "_apart", lambda *_: difference)
    assert {each.state for each in run_checks()} == {"failed"}


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
