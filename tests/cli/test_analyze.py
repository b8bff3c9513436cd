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
    ok("ablate", *arguments, "--vary", "norm=shared,sep", "--seeds", "0-1", "-o", folder / "norms")
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
    assert str(tmp_path / "out" / "index.html") in text.replace("\n", "")
    assert (tmp_path / "out" / "measures.png").stat().st_size > 0
    assert ">CO, 2 atoms, y 0.5<" in (tmp_path / "out" / "index.html").read_text()


def test_the_molecules_are_the_run_s_validation_split_by_default(runs, ok, tmp_path):
    run = runs / "norms" / "sep" / "seed-0"
    rows = json.loads((run / "splits.json").read_text())[0]["val"]
    ok("analyze", "--model", run, "-o", tmp_path / "own")
    ok("analyze", "--model", run, "--data", runs / "data.csv", "-o", tmp_path / "same")
    assert told(tmp_path / "own") == told(tmp_path / "same")
    assert told(tmp_path / "own")["molecules"] == len(rows)
    ok("analyze", "--model", run, "--split", "train", "-o", tmp_path / "train")
    assert told(tmp_path / "train")["molecules"] == 24
    ok("analyze", "--model", run, "--split", "train", "--molecules", 7, "-o", tmp_path / "some")
    assert told(tmp_path / "some")["molecules"] == 7


def test_runs_and_models_can_be_mixed(runs, ok, tmp_path):
    """Folders may follow the first one, as when a shell expands runs/*."""
    shutil.copytree(runs / "norms" / "shared" / "seed-0" / "model", tmp_path / "alone")
    run = runs / "norms" / "sep" / "seed-0"
    text = ok(
        *("analyze", "--model", run, tmp_path / "alone", "--data", runs / "data.csv"),
        *("--split", "all", "-o", tmp_path / "out", "--json"),
    )
    assert json.loads(text) == told(tmp_path / "out")
    assert [each["group"] for each in told(tmp_path / "out")["runs"]] == ["seed-0", "alone"]


def test_molecules_need_no_labels(runs, ok, tmp_path):
    """Measures that need no labels are equal with and without them."""
    lines = (runs / "data.csv").read_text().splitlines()
    (tmp_path / "bare.csv").write_text("\n".join(line.split(",")[0] for line in lines) + "\n")
    shutil.copy(runs / "data.csv", tmp_path / "copy.csv")
    for name in ("bare", "copy"):
        table = tmp_path / f"{name}.csv"
        ok("analyze", "--model", runs / "norms", "--data", table, "-o", tmp_path / name)
    bare, copy = (told(tmp_path / name) for name in ("bare", "copy"))
    assert bare["molecules"] == copy["molecules"] == 30
    for one, other in zip(bare["runs"], copy["runs"], strict=True):
        for cloud, labelled in zip(one["statistics"], other["statistics"], strict=True):
            assert cloud["correlations"].pop("y") is None
            assert labelled["correlations"].pop("y") is not None
            assert cloud == labelled
    assert ">CO, 2 atoms<" in (tmp_path / "bare" / "index.html").read_text()


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
    assert "predicts y, and not z" in refused("analyze", "--model", run, "--targets", "z")
    (tmp_path / "index.html").write_text("mine")
    assert "is not a report of analyze" in refused("analyze", "--model", run, "-o", tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"
