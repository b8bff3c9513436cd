"""The number of threads of a run: adaptive by default, recorded, and restored afterwards."""

from __future__ import annotations

import json

import pytest
import torch

from molsepnorm.devices.threads import ThreadChooser, restored_threads
from molsepnorm.training import train


@pytest.fixture
def choosers(monkeypatch):
    """Every chooser, with the number that it was resumed with; two threads are available."""
    made, initialise = [], ThreadChooser.__init__

    def spy(self, choices, threads=None):
        initialise(self, choices, threads)
        made.append((self, threads))

    monkeypatch.setattr(ThreadChooser, "__init__", spy)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with restored_threads():
        torch.set_num_threads(2)
        yield made


def test_a_run_chooses_its_number_of_threads_and_a_resumed_run_continues_with_it(
    choosers, configure, stop_at, rows_of, tmp_path
):
    train(configure({"run.epochs": 8}), tmp_path / "run", callback=stop_at(21))
    (first, _), *_ = choosers
    assert first.choices == (1, 2) and first.settled
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["adaptive_threads"]
    assert train(folder=tmp_path / "run", resume=True).finished
    last, resumed_with = choosers[-1]
    assert resumed_with == first.threads
    assert rows_of(tmp_path / "run" / "history.csv")[-1]["threads"] == str(last.threads)
    assert torch.get_num_threads() == 2


def test_a_fixed_number_of_threads_is_used_throughout(
    choosers, configure, rows_of, tmp_path, outcome
):
    for name in ("one", "two"):
        train(configure({"run.threads": 1}), tmp_path / name)
    assert {chooser.choices for chooser, _ in choosers} == {(1,)}
    assert {row["threads"] for row in rows_of(tmp_path / "one" / "history.csv")} == {"1"}
    assert not json.loads((tmp_path / "one" / "environment.json").read_text())["adaptive_threads"]
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")
    assert torch.get_num_threads() == 2
