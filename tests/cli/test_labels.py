"""Transforms, bounds and duplicates through the command line."""

from __future__ import annotations

import json

import pytest

ENDS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")


@pytest.fixture
def assay(tmp_path):
    """assay.csv: 24 molecules in two rows each, every fourth label a bound."""
    smiles = ["C" * length + end for length in range(1, 5) for end in ENDS] * 2
    cells = [f"{'>' * (i % 4 == 0)}{1.3**i:.4g}" for i in range(48)]
    path = tmp_path / "assay.csv"
    lines = ["smiles,ic50_nM", *map(",".join, zip(smiles, cells, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


SETTINGS = ("--targets", "ic50_nM", "--transform", "ic50_nM=pic50", "--duplicates", "mean")


def test_the_commands_say_how_labels_were_made(ok, assay, tiny, tmp_path):
    folder = tmp_path / "run"
    shown = ok("train", "--data", assay, *SETTINGS, *tiny[2:], "--epochs", 1, "--output", folder)
    assert "12 of 48 labels of ic50_nM are bounds, such as '>1'." in shown
    assert "Merged: 48 rows of 24 molecules with more than one row." in shown
    predicted = ok("predict", "--model", folder, "--smiles", "CCO")
    assert predicted.splitlines()[0] == "smiles,ic50_nM_pred,ic50_nM_pic50_pred,error"
    found = json.loads(ok("evaluate", "--model", folder, "--data", assay, "--json"))
    assert found["labels"]["ic50_nM"]["scale"] == "pic50 = 9 - log10(value in nM)"
    assert "bounds are not scored" in ok("evaluate", "--model", folder, "--data", assay)


def test_mistakes_are_shown_before_any_work(refused, assay, tiny, tmp_path):
    given = ("train", "--data", assay, *tiny, "--output", tmp_path / "run")
    message = refused(*given, "--transform", "ic5_nM=pic50")
    assert "has no column 'ic5_nM'. Did you mean 'ic50_nM'?" in message
    assay.write_text(assay.read_text() + "CCCCCCBr,0\n")
    message = refused(*given, *SETTINGS, code=1)
    assert "line 50, column 'ic50_nM': '0' has no logarithm" in message
    assert not (tmp_path / "run" / "history.csv").exists()
