"""`molsepnorm analyze` as a user sees it."""

from __future__ import annotations

import json
import shutil

import pytest

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, ok, tiny, write_table):
    """norms/, an ablation of two norms and two seeds on data.csv, and data.csv itself."""
    folder = tmp_path_factory.mktemp("analyze")
    table = write_table(folder / "data.csv", y=NUMBERS)
    arguments = ("--data", table, "--targets", "y", *tiny[2:], "--epochs", 1)
    vary = ("--vary", "norm=shared,sep", "--seeds", "0-1")
    ok("benchmark", *arguments, *vary, "-o", folder / "norms")
    return folder


def told(folder):
    return json.loads((folder / "geometry.json").read_text())


def test_an_ablation_is_summarised_by_variant(runs, ok, tmp_path):
    text = ok("analyze", "--model", runs / "norms", "-o", tmp_path / "out", "--split", "all")
    found = told(tmp_path / "out")
    assert found["molecules"] == 30
    names = [(run["name"], run["group"]) for run in found["runs"]]
    assert names == [
        *[("sep/seed-0", "sep"), ("sep/seed-1", "sep")],
        *[("shared/seed-0", "shared"), ("shared/seed-1", "shared")],
    ]
    for group in ("sep", "shared"):
        spread = found["summary"]["graph token"][group]["effective_rank"]
        assert f"{spread['mean']:.3g} ± {spread['sd']:.2g}" in text
    assert str(tmp_path / "out" / "geometry.png") in text.replace("\n", "")
    assert (tmp_path / "out" / "geometry.png").stat().st_size > 0


def test_the_molecules_are_the_run_s_validation_split_by_default(runs, ok, tmp_path):
    run = runs / "norms" / "sep" / "seed-0"
    rows = json.loads((run / "splits.json").read_text())[0]["val"]
    ok("analyze", "--model", run, "-o", tmp_path / "own")
    ok("analyze", "--model", run, "--data", runs / "data.csv", "-o", tmp_path / "same")
    assert told(tmp_path / "own") == told(tmp_path / "same")
    assert told(tmp_path / "own")["molecules"] == len(rows)
    ok("analyze", "--model", run, "--split", "train", "-o", tmp_path / "train")
    assert told(tmp_path / "train")["molecules"] == 24


def test_a_finished_run_counts_and_one_under_way_does_not(runs, ok, tmp_path):
    shutil.copytree(runs / "norms" / "sep", tmp_path / "replicates")
    (tmp_path / "replicates" / "seed-1" / "metrics.json").unlink()
    ok("analyze", "--model", tmp_path / "replicates", "-o", tmp_path / "out", "--split", "all")
    assert [run["name"] for run in told(tmp_path / "out")["runs"]] == ["seed-0"]
    assert [run["group"] for run in told(tmp_path / "out")["runs"]] == ["replicates"]


def test_errors_are_clear(runs, refused, tmp_path):
    run = runs / "norms" / "sep" / "seed-0"
    assert "neither a model nor finished runs" in refused("analyze", "--model", tmp_path, code=1)
    assert "is given twice" in refused("analyze", "--model", runs / "norms", run)
    shutil.copytree(run / "model", tmp_path / "alone")
    message = refused("analyze", "--model", tmp_path / "alone")
    assert "its data are unknown" in message and "--data" in message
    assert "are y, and not z" in refused("analyze", "--model", run, "--targets", "z")
