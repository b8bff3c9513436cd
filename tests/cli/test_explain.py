"""`molsepnorm explain`, from --smiles and a table, to every format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explained import TASK, network
from molsepnorm.model import PropertyModel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "model"
    PropertyModel.of(network(), "ogb", TASK).save_pretrained(folder)
    return folder


def test_a_table_is_explained(run, model, tmp_path):
    """A row that fails is on the page, with its reason."""
    (tmp_path / "in.csv").write_text("id,smi\n1,CCO\n2,C1CC\n3,c1ccccc1O\n")
    given = ("--model", model, "-i", tmp_path / "in.csv", "--smiles-column", "smi", "--pairs", 2)
    result = run("explain", *given, "--processes", 2, "-o", tmp_path / "new" / "out.html")
    assert result.exit_code == 0, result.output
    assert "3 molecules written to " in result.stderr
    assert "; 1 could not be explained, see the reasons there" in result.stderr
    page = (tmp_path / "new" / "out.html").read_text()
    assert "Why model predicts" in page and "unclosed ring" in page
    failing = run("explain", *given, "--on-invalid", "fail", "-o", tmp_path / "out.html")
    assert failing.exit_code == 1 and "in.csv, line 3: " in failing.stderr
    assert not (tmp_path / "out.html").exists()


def test_smiles_are_explained_as_numbers_and_pictures(ok, model, tmp_path):
    given = ("--model", model, "--smiles", "CCO", "--pairs", 3, "--targets", "active")
    for name in ("x.json", "x.png", "x.svg"):
        ok("explain", *given, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 500
    (molecule,) = json.loads((tmp_path / "x.json").read_text())["molecules"]
    assert [*molecule["targets"]] == ["active"]
    assert len(molecule["targets"]["active"]["atoms"]) == 3


def test_mistakes_are_reported_before_the_work(refused, model, tmp_path):
    given = ("explain", "--model", model, "--smiles", "CCO")
    message = refused(*given, "--targets", "actve", "-o", tmp_path / "x.html")
    assert "Did you mean 'active'" in message
    many = [part for _ in range(49) for part in ("--smiles", "C")]
    picture = ("--targets", "y", "-o", tmp_path / "x.svg")
    message = refused("explain", "--model", model, *many, *picture)
    assert "at most 48 molecules, and --smiles has 49" in message
    assert not [*tmp_path.iterdir()]
