"""`molsepnorm data` as a user sees it."""

from __future__ import annotations

import csv
import json
import shlex
from functools import partial

import pandas as pd
import pytest

from .conftest import fail, invoke, succeed

ROWS = [("C" * length, 0.5 * length, length % 2) for length in range(2, 42)]
BAD = [("OCC", 1, 1), ("CCO", 2, 1), ("C1CC", 3, 0)]
TINY = ("--set", "model.max_path_length=2", "--set", "model.layers=1", "--epochs", "1")


@pytest.fixture
def table(tmp_path):
    """`table(*rows)` makes my.csv of forty alkanes and these rows."""

    def make(*rows, header="smiles,y,active"):
        path = tmp_path / "my.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([header.split(","), *ROWS, *rows])
        return path

    return make


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


_ok, _error = partial(succeed, "data"), partial(fail, "data")


# --- check ----------------------------------------------------------------------------------------


def test_strict_sets_the_exit_status(table):
    assert "No problem found." in _ok("check", table(), "--targets", "y", "--strict")
    result = invoke("data", "check", table(*BAD), "--targets", "y", "--strict")
    assert result.exit_code == 1
    assert "unclosed ring" in result.stdout
    assert result.stderr == ""


def test_check_prints_json(table):
    printed = json.loads(_ok("check", table(*BAD), "--targets", "y,active", "--json"))
    assert (printed["rows"], printed["readable"], printed["molecules"]) == (43, 42, 41)
    found = {finding["kind"]: finding for finding in printed["findings"]}
    assert found["unreadable"]["problem"]
    assert found["unreadable"]["groups"][0]["places"][0]["where"] == "line 44"
    assert [target["name"] for target in printed["targets"]] == ["y", "active"]
    assert "fixed" not in printed


def test_fix_writes_a_cleaned_copy(table, tmp_path):
    path, copy = table(*BAD), tmp_path / "clean.csv"
    given = ("--targets", "y,active")
    text = _ok("check", path, *given, "--fix", copy)
    assert f"{copy}: 41 rows; 2 removed, 1 changed" in text
    assert "mean" in text
    assert str(tmp_path / "clean.removed.csv") in text
    assert "No problem found." in _ok("check", copy, *given, "--strict")
    printed = json.loads(_ok("check", path, *given, "--fix", copy, "--force", "--json"))["fixed"]
    listed = str(tmp_path / "clean.removed.csv")
    assert printed == {"copy": str(copy), "list": listed, "removed": 2, "changed": 1}


def test_fix_never_replaces_the_table(table, tmp_path):
    path = table(*BAD)
    before = path.read_bytes()
    assert "never overwritten" in _error("check", path, "--fix", path, code=2)
    assert "should end in .csv" in _error("check", path, "--fix", tmp_path / "clean.txt", code=2)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["my.csv"]


def test_fix_replaces_no_file_and_the_advice_names_none(table, tmp_path, monkeypatch):
    """A cleaned copy may be the table of a run."""
    monkeypatch.chdir(tmp_path)
    path, copy = table(*BAD), tmp_path / "my_clean.csv"
    copy.write_text("kept")
    assert "replace it with --force" in _error("check", path, "--fix", copy, code=2)
    assert copy.read_text() == "kept"
    assert "--fix my_clean_2.csv" in _ok("check", path, "--targets", "y")
    folds = ("--targets", "y", "--folds", 3, "--no-test")
    assert "--targets y --folds 3 --no-test --fix" in _ok("check", path, *folds)
    training = ("train", "--data", str(table(("CCO", "high", 1))), "--targets", "y")
    assert "--fix my_clean_2.csv" in invoke(*training).stderr
    assert "41 rows" in _ok("check", table(*BAD), "--fix", copy, "--force")


# --- commands, scales, forms and tables -----------------------------------------------------------


def _assay(path, *rows, header="smiles,ic50_nM"):
    """An assay over five powers of ten, every tenth result a bound, and these rows."""
    cells = [f"{'>' * (i % 10 == 0)}{2 ** (0.4 * i):.3g}" for i in range(1, 41)]
    numbers = zip((smiles for smiles, *_ in ROWS), cells, strict=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *numbers, *rows])
    return path


def _commands(text):
    """The commands in the lines of an output."""
    lines = [line for line in text.splitlines() if ": molsepnorm " in line]
    return [shlex.split(line.partition(": molsepnorm ")[2]) for line in lines]


@pytest.mark.parametrize(
    ("rows", "header", "options", "expected"),
    [
        ((), "my smiles,IC 50", ("--smiles-column", "my smiles"), ["--transform", "IC 50=log10"]),
        (
            (("CC(=O)[O-].[Na+]", 5), ("CC(=O)O", 7), ("CCCC1CC", 1), ("OCC", ">3"), ("CCO", 4)),
            "smiles,ic50_nM",
            ("--targets", "ic50_nM"),
            ["--transform", "ic50_nM=pic50", "--standardize", "parent"],
        ),
        (
            (("Oc1ccccn1", 6), ("O=c1cccc[nH]1", 7), ("CCOC", "12 uM")),
            "smiles,ic50_nM",
            ("--targets", "ic50_nM"),
            ["--transform", "ic50_nM=pic50", "--standardize", "tautomer"],
        ),
    ],
)
def test_the_commands_that_are_shown_work(
    tmp_path, monkeypatch, empty_cache, rows, header, options, expected
):
    """The one that cleans the table, and then the one that trains."""
    monkeypatch.chdir(tmp_path)
    text = _ok("check", _assay(tmp_path / "my assay.csv", *rows, header=header), *options)
    *cleaning, training = _commands(text) if expected else [*_commands(text), None]
    for words in cleaning:
        assert words[:2] == ["data", "check"]
        fixed = succeed(*words)
        copy = pd.read_csv("my assay_clean.csv", dtype=str)
        assert copy.iloc[:, 1].str.startswith(">").sum() == 4
        training = training or _commands(fixed)[-1]
    assert bool(cleaning) == bool(rows)
    if expected:
        assert training[-len(expected) :] == expected
    small = ("--from", "none", "--no-baseline", "--threads", "1", "-o", "run", *TINY)
    succeed(*training, *small, "--set", "model.width=8")


def test_a_name_with_a_comma_is_quoted_in_the_commands_that_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [("C" * (i + 1), i, -i) for i in range(12)]
    with open("my.csv", "w", newline="") as file:
        csv.writer(file).writerows([("smiles", "IC50, total", "y"), *rows, rows[0]])
    (command,) = _commands(_ok("check", "my.csv", "--targets", '"IC50, total",y'))
    succeed(*command)
    assert pd.read_csv("my_clean.csv")["IC50, total"].tolist() == [*range(12)]


def test_a_molecule_in_two_named_splits_is_cleaned(tmp_path, monkeypatch):
    """The copy has no leak, and no other command is printed for it."""
    monkeypatch.chdir(tmp_path)
    parts = ["train"] * 12 + ["val"] * 4 + ["test"] * 4
    rows = [(f"{'C' * (i + 2)}F", i / 2, part) for i, part in enumerate(parts)]
    with open("my.csv", "w", newline="") as file:
        csv.writer(file).writerows([("smiles", "y", "part"), *rows, ("CCF", 0.5, "test")])
    (command, *_) = _commands(_ok("check", "my.csv", "--targets", "y", "--splits-column", "part"))
    assert "--fix" in command
    succeed(*command)
    table = pd.read_csv("my_clean.csv")
    assert table[table["smiles"] == "CCF"].to_numpy().tolist() == [["CCF", 0.5, "test"]]
    checked = _ok("check", "my_clean.csv", "--targets", "y", "--splits-column", "part")
    assert "--fix" not in checked and "leakage" not in checked


# --- list -----------------------------------------------------------------------------------------


def test_list_shows_which_files_are_present(empty_cache, datasets):
    printed = json.loads(_ok("list", "--json", "--data-dir", datasets))
    zinc = next(each for each in printed if each["name"] == "zinc")
    assert (zinc["raw"], zinc["folder"]) == ("here", str(datasets / "ZINC" / "raw"))
    assert "here" in _ok("list", "--data-dir", datasets)
