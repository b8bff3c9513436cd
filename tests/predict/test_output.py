"""Predictions in every format: the same values, unchanged cells, and no formulas."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from rdkit import Chem

from molsepnorm.data.tables import read_table
from molsepnorm.errors import DataError
from molsepnorm.files.tables import FORMATS
from molsepnorm.predict import Predictor, TableRows, predict_rows
from molsepnorm.tasks import Target
from support import tiny_model

ROWS = {
    "name": ["a", "=b", "Größe", "", "d", "two\nlines"],
    "smiles": ["CCO", "C1CC", "F/C=C/[C@@H](C)N", "", "[13CH4]", "C[C@H](O)F |&1:1|"],
    "note": ["=1+1", "+2", "-3", "@SUM(A1)", "007", "0.5"],
    "odd <name>": ["$$$$", "> <x>", "1,5", '"q"', "#N/A", "\ttab"],
}


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    classes = Target("k", "multiclass", classes=("=1", "b", "c"))
    return Predictor(tiny_model(Target("y", "regression"), classes))


def _predict(
    predictor: Predictor, out: Path | io.StringIO, digits: int | None = 6
) -> tuple[int, int]:
    table = TableRows([pd.DataFrame(ROWS)], "smiles", "rows")
    return predict_rows(predictor, table, out, digits=digits)


@pytest.fixture(scope="module")
def expected(predictor: Predictor) -> list[dict[str, str]]:
    text = io.StringIO()
    assert _predict(predictor, text) == (6, 2)
    return list(csv.DictReader(io.StringIO(text.getvalue())))


def _texts(path: Path) -> list[dict[str, str]]:
    return read_table(path).to_dict("records")


def _numbers(rows: list[dict[str, str]]) -> list[dict[str, float | str]]:
    columns = ("y_pred", "k_prob_=1", "k_prob_b", "k_prob_c")
    return [{c: float(row[c]) if row[c] else "" for c in columns} for row in rows]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
def test_every_format_has_the_same_values(predictor, expected, tmp_path, suffix):
    path = tmp_path / f"out.x{suffix}"
    assert _predict(predictor, path) == (6, 2)
    found = _texts(path)
    shown = {"odd (name)": "odd <name>"} if ".sdf" in suffix else {}
    found = [{shown.get(name, name): cell for name, cell in row.items()} for row in found]
    assert _numbers(found) == _numbers(expected)
    for row, right in zip(found, expected, strict=True):
        assert set(row) == set(right)
        for name in ("k_pred", "error", "note"):
            assert row[name] == right[name]
        if ".sdf" in suffix:
            assert row["name"] == right["name"].replace("\n", " ")
            assert row["odd <name>"].strip() == right["odd <name>"].strip()
        else:
            assert row == {**right, **{name: row[name] for name in _numbers([row])[0]}}


@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
def test_parquet_has_all_digits_and_others_as_many_as_are_wanted(predictor, tmp_path):
    (exact, *_) = predictor.predict(ROWS["smiles"])
    values = {}
    for name, digits in (("x.parquet", None), ("x.csv", None), ("y.csv", 3)):
        _predict(predictor, tmp_path / name, digits)
        values[name] = float(read_table(tmp_path / name)["y_pred"].iloc[0])
    assert np.float32(values["x.parquet"]) == np.float32(exact.values["y"])
    assert values["x.csv"] == float(f"{exact.values['y']:.6g}") != values["x.parquet"]
    assert values["y.csv"] == float(f"{exact.values['y']:.3g}") != values["x.csv"]


def test_excel_has_no_formulas_and_keeps_text(predictor, tmp_path):
    """A cell of user text that begins with = would run when the workbook is opened."""
    _predict(predictor, tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx").active
    cells = {cell.value: cell.data_type for row in sheet.iter_rows() for cell in row}
    assert "f" not in cells.values()
    for text in ("=1+1", "+2", "@SUM(A1)", "=b", "007", "#N/A", "1,5"):
        assert cells[text] in ("s", "inlineStr")
    assert cells[-3] == "n"  # the shortest text of a number
    assert cells[0.5] == "n"


def test_structures_names_and_order_of_an_sdf(predictor, tmp_path):
    _predict(predictor, tmp_path / "x.sdf")
    mols = list(Chem.SDMolSupplier(str(tmp_path / "x.sdf")))
    assert [mol.GetProp("_Name") for mol in mols] == [*("a", "=b", "Größe", "", "d", "two lines")]
    right = [text.split(" ")[0] for text in ROWS["smiles"]]
    right[1] = right[3] = ""  # invalid: a record without atoms
    assert [Chem.MolToSmiles(mol) for mol in mols] == [
        Chem.MolToSmiles(Chem.MolFromSmiles(text)) for text in right
    ]
    assert mols[0].GetConformer().Is3D() is False
    assert mols[0].GetConformer().GetPositions().any()
    assert mols[1].GetProp("smiles") == "C1CC"
    assert "unclosed ring" in mols[1].GetProp("error")
    assert mols[3].GetProp("error") == "empty SMILES"


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_error_leaves_the_earlier_file(predictor, tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"earlier")
    table = TableRows([pd.DataFrame({"smiles": ["C", "C1CC"]})], "smiles", "rows", "fail")
    with pytest.raises(DataError, match="rows, line 1: RDKit cannot read 'C1CC'"):
        predict_rows(predictor, table, path)
    assert path.read_bytes() == b"earlier"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
