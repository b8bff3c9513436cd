"""`molsepnorm doctor`: what it prints, and its status."""

from __future__ import annotations

import json

import pytest

from molsepnorm import doctor
from molsepnorm.doctor import Check


@pytest.mark.parametrize("state", ["ok", "failed"])
def test_the_status_is_1_where_a_check_failed(run, monkeypatch, state):
    check = Check("network on cpu", state, "outputs differ by 1.0e-07", 0.2)
    monkeypatch.setattr(doctor, "run_checks", lambda: iter([check]))
    result = run("doctor")
    assert result.exit_code == (state == "failed")
    assert f"network on cpu: {state} (0.2 s)" in result.stdout
    as_json = run("doctor", "--json")
    assert as_json.exit_code == result.exit_code
    content = json.loads(as_json.stdout)
    assert content["passed"] == (state == "ok")
    assert [each["state"] for each in content["checks"]] == [state]
    assert content["versions"]["torch"]
    assert content["devices"]["cpu"]
    assert set(content["folders"]) == {"data", "cache"}
