"""The formats of tables through the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from rdkit import Chem

from support import tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "model"
    tiny_model().save_pretrained(folder)
    return folder


def test_a_workbook_with_another_name_of_the_smiles_becomes_an_sdf(run, model, tmp_path):
    book = openpyxl.Workbook()
    for row in (["ID", "Canonical SMILES"], ["x1", "CCO"], ["x2", "CC |&1:0|"], ["x3", "C1CC"]):
        book.active.append(row)
    book.save(tmp_path / "in.xlsx")
    given = ("--model", model, "-i", tmp_path / "in.xlsx", "--processes", "1")
    result = run("predict", *given, "-o", tmp_path / "out.sdf")
    assert result.exit_code == 0, result.output
    for part in (
        "in.xlsx: the column 'Canonical SMILES' is read as the column of SMILES",
        "in.xlsx: the enhanced stereochemistry of CXSMILES, such as '|&1:0|', is not read",
        "3 rows to ",
        "1 could not be predicted",
    ):
        assert result.stderr.count(part) == 1
    mols = list(Chem.SDMolSupplier(str(tmp_path / "out.sdf")))
    assert [mol.GetProp("ID") for mol in mols] == ["x1", "x2", "x3"]
    assert mols[1].GetProp("Canonical SMILES") == "CC |&1:0|"
    assert [mol.GetNumAtoms() for mol in mols] == [3, 2, 0]
    assert run("predict", *given, "-o", tmp_path / "out.csv").exit_code == 0
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == ["ID", "Canonical SMILES", "y_pred", "error"]
    assert float(mols[0].GetProp("y_pred")) == table["y_pred"][0]


def test_smiles_with_extensions_on_standard_input(run, model):
    stdin = "SMILES,id\nC[C@H](O)F |&1:1|,1\n*C |$R1;$|,2\n"
    done = run("predict", "--model", model, stdin=stdin)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(rows[0]) == ["SMILES", "id", "y_pred", "error"]
    assert rows[0]["y_pred"] and "describes an R group" in rows[1]["error"]
    assert done.stderr.count("enhanced stereochemistry of CXSMILES") == 1


def test_training_reads_a_german_table(run, tiny, write_table, tmp_path):
    """Semicolons, decimal commas, Latin-1 and SMILES in capitals; the errors name the options."""
    path = write_table(tmp_path / "x.csv", y=["0.5", "1.25", "12.75"], note=["groß"])
    text = path.read_text().replace(",", ";").replace(".", ",").replace("smiles", "SMILES")
    path.write_bytes(text.encode("cp1252"))
    given = ("--targets", "y", "--from", "none", "--no-baseline", "--output", tmp_path / "run")
    command = ("train", "--data", path, *given, *tiny)
    assert "--encoding cp1252" in run(*command).stderr
    assert "--decimal ," in run(*command, "--encoding", "cp1252").stderr
    result = run(*command, "--encoding", "cp1252", "--decimal", ",")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("'SMILES' is read as the column of SMILES") == 1
    shown = pd.read_csv(tmp_path / "run" / "predictions_test.csv")
    assert set(shown["y"]) <= {0.5, 1.25, 12.75}


def test_a_table_is_encoded_for_an_exported_model(run, model, tmp_path):
    (tmp_path / "x.csv").write_text("smiles\nCCO\nC1CC\nCC\n")
    given = ("models", "export", "--model", model, "--encode", tmp_path / "x.csv")
    result = run(*given, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "2 molecules in 1 file" in result.stdout and "x.csv, line 3" in result.stderr
    with np.load(tmp_path / "out" / "00001.npz") as arrays:
        assert arrays["smiles"].tolist() == ["CCO", "CC"]
