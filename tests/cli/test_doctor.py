"""`molsepnorm doctor`: what it prints, and its status."""

from __future__ import annotations

import json

import pytest

from molsepnorm import doctor
from molsepnorm.doctor import Check

FOUND = {
    "ok": Check("attention on the CPU", "ok", "outputs differ by 1.0e-07", 0.2),
    "failed": Check("bf16 on the CPU", "failed", f"{'it differs very much, ' * 9}", 1.0),
    "skipped": Check("worker processes", "skipped", "needs rdkit, which is not installed", 0.0),
}


@pytest.mark.parametrize("states", [("ok",), ("ok", "skipped"), ("ok", "failed", "skipped")])
def test_status_and_states(run, monkeypatch, states):
    """Status 1 where a check failed."""
    monkeypatch.setattr(doctor, "run_checks", lambda: iter([FOUND[each] for each in states]))
    result = run("doctor")
    assert result.exit_code == ("failed" in states)
    lines = result.stdout.splitlines()
    assert lines[-1] == ", ".join(
        f"1 {'FAILED' if each == 'failed' else each}" for each in FOUND if each in states
    )
    assert "  ok      attention on the CPU (0.2 s)" in lines
    as_json = run("doctor", "--json")
    assert as_json.exit_code == result.exit_code
    content = json.loads(as_json.stdout)
    assert content["passed"] == ("failed" not in states)
    assert [each["state"] for each in content["checks"]] == list(states)
    assert content["versions"]["torch"]
    assert content["devices"]["cpu"]
    assert set(content["folders"]) == {"data", "cache"}
