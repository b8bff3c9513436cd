"""The machine description and the checks of `molsepnorm doctor`."""

from __future__ import annotations

import pytest
import torch

from molsepnorm import doctor
from molsepnorm.doctor import run_checks


def test_all_checks_pass_here():
    found = list(run_checks())
    assert [each.state for each in found] == ["ok"] * (1 + torch.cuda.device_count())
    assert all("outputs differ by" in each.said for each in found)


@pytest.mark.parametrize("difference", [0.01, float("nan")])
def test_wrong_results_fail_a_check(monkeypatch, difference):
    monkeypatch.setattr(doctor, "_apart", lambda *_: difference)
    assert {each.state for each in run_checks()} == {"failed"}
