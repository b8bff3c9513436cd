"""The number of threads of a run: fixed, recorded, and restored afterwards."""

from __future__ import annotations

import json

import pytest
import torch

from molsepnorm.devices import restored_threads, threads_of
from molsepnorm.training import train
from runs import outcome


@pytest.mark.parametrize(
    ("configured", "environment", "cores", "expected"),
    [(3, "2", 2, 3), (None, "6", 6, 6), (None, None, 2, 2), (None, None, 64, 4)],
)
def test_the_number_of_threads(monkeypatch, configured, environment, cores, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    assert threads_of(configured) == expected


def test_two_runs_are_equal_bit_for_bit(configure, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with restored_threads():
        torch.set_num_threads(2)
        for name in ("one", "two"):
            train(configure({"run.epochs": 1}), tmp_path / name)
            assert torch.get_num_threads() == 2
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")
    environment = json.loads((tmp_path / "one" / "environment.json").read_text())
    assert environment["threads"] == 2
