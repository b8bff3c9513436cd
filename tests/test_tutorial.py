"""The commands of docs/tutorial-assay.md, in their order, as a reader would paste them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pandas as pd
import pytest
from examples import examples, run

TOP = Path(__file__).parents[1]
MOLECULES = 60  # of data/demo.csv that are predicted


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that looks like the checkout, with a short demo.csv to predict."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "make_assay.py").write_text((TOP / "data" / "make_assay.py").read_text())
    demo = (TOP / "data" / "demo.csv").read_text()
    (tmp_path / "data" / "demo.csv").write_text(demo)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_work_in_their_order(checkout):
    given = examples(TOP / "docs" / "tutorial-assay.md")
    assert sum(example.language == "bash" for example in given) == 10
    printed = {}
    for example, output in zip(given, run(given), strict=True):
        printed[" ".join(example.code.split()[:2])] = output.text
        if "make_assay" in example.code:
            lines = (checkout / "data" / "demo.csv").read_text().splitlines(keepends=True)
            (checkout / "data" / "demo.csv").write_text("".join([lines[0], *lines[-MOLECULES:]]))
    assert "2 cells with an invalid label emptied" in printed["molsepnorm data"]
    assert "The model is better than the trivial baseline" in printed["molsepnorm train"]
    with tarfile.open("assay-model.tar.gz") as archive:
        assert {"model/config.json", "model/README.md"} < {*archive.getnames()}
        assert "model/training_molecules.gz" not in archive.getnames()
    predicted = pd.read_csv("predicted.csv")
    assert len(predicted) == MOLECULES
    assert (predicted["ic50_nM_low"] < predicted["ic50_nM_pred"]).all()
    assert (predicted["ic50_nM_pred"] < predicted["ic50_nM_high"]).all()
    ranked = pd.read_csv("ranked.csv")
    assert ranked["ic50_nM_high"].is_monotonic_increasing and len(ranked) == 12
    assert "<svg" in Path("ranked.html").read_text(encoding="utf-8")
    out_of_fold = pd.read_csv("runs/assay-cv/oof_predictions.csv")
    assert len(out_of_fold) == len(pd.read_csv("clean.csv"))
