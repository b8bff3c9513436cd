"""The column of SMILES under another name, names that are missing, and decimal commas."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets.columns import Column
from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.columns import names_in_file, require_column, with_points
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import ConfigError, DataError, DataWarning


@pytest.mark.parametrize("name", ["SMILES", "Chromophore (SMILES)"])
def test_another_name_of_the_column_is_announced(tmp_path, name):
    (tmp_path / "x.csv").write_text(f"id;{name};a\n1;CCO\n")
    with pytest.warns(
        DataWarning, match=rf"the column '{re.escape(name)}' is read as the column of SMILES"
    ):
        table = read_table(tmp_path / "x.csv")
    assert list(table.columns) == ["id", "smiles", "a"]
    assert table["smiles"].tolist() == ["CCO"]
    assert names_in_file(table) == ["id", name, "a"]


def test_two_such_columns_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("SMILES,Canonical SMILES\nC,C\n")
    message = "no column 'smiles', and 'SMILES' and 'Canonical SMILES' may be meant: choose one"
    with pytest.raises(ConfigError, match=message):
        read_table(tmp_path / "x.csv")


def test_a_column_that_is_not_there_or_several_times():
    require_column(["a", "b"], "a", "x.csv")
    with pytest.raises(ConfigError, match=r"x.csv has no column 'logs'. Did you mean 'logS'\? Kn"):
        require_column(["smiles", "logS"], "logs", "x.csv")
    columns = ["y", "smiles", "y", "z", "y"]
    require_column(columns, "y", "x.csv", once=False)
    with pytest.raises(ConfigError, match=r"3 columns called 'y' \(columns 1, 3 and 5\)"):
        require_column(columns, "y", "x.csv")


def test_another_encoding_is_read_where_it_is_named(tmp_path):
    (tmp_path / "x.csv").write_bytes("smiles,Aktivität µM\nC,größer €\n".encode("cp1252"))
    with pytest.raises(DataError, match="cannot be decoded: .*--encoding cp1252"):
        read_table(tmp_path / "x.csv")
    table = read_table(tmp_path / "x.csv", ReadOptions(encoding="cp1252"))
    assert table.to_dict("records") == [{"smiles": "C", "Aktivität µM": "größer €"}]


def test_names_below_a_title_need_the_number_of_their_line(tmp_path):
    (tmp_path / "x.csv").write_text("Table 1,\nsmiles,y\nC,1\n")
    with pytest.raises(ConfigError, match="--header-row 2"):
        read_table(tmp_path / "x.csv")
    table = read_table(tmp_path / "x.csv", ReadOptions(header_row=2))
    assert table.to_dict("records") == [{"smiles": "C", "y": "1"}]


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("0,5", 0.5),
        ("-3,5", -3.5),
        ("1,5E-05", 1.5e-05),
        ("1.234,5", 1234.5),
        ("0.5", None),  # of another decimal mark
        ("1,234.5", None),
    ],
)
def test_numbers_with_decimal_commas(cell, number):
    found = Column("y", pd.Series([cell, f">{cell}"]), DataConfig(table="x.csv", decimal=","))
    assert len(found.bad_rows) == 2 * (number is None)
    if number is not None:
        assert found.numbers.tolist() == [number] * 2
        assert found.bounds.tolist() == [0, 1]


@pytest.mark.parametrize("decimal", [None, "."])
def test_commas_are_no_decimal_marks_unless_declared(decimal):
    cells = pd.Series(["0,5", "1,234", "1.234"])
    found = Column("y", cells, DataConfig(table="x.csv", decimal=decimal))
    assert found.bad_rows.tolist() == [0, 1]
    assert with_points(cells, decimal).tolist() == cells.tolist()


def test_only_the_named_columns_are_converted(tmp_path):
    (tmp_path / "x.csv").write_text("smiles;y;z\nC;0,5;0,7\n")
    options = ReadOptions(decimal=",")
    (piece,) = read_chunks(tmp_path / "x.csv", options=options, numbers=["z"])
    assert piece.to_dict("records") == [{"smiles": "C", "y": "0,5", "z": "0.7"}]


@pytest.mark.parametrize("name", ["my.xlsx", "my.parquet"])
def test_numbers_that_a_file_stores_as_numbers_keep_their_value(tmp_path, name):
    """Beside text with decimal commas, which is declared; 1.234 is not 1234."""
    path = tmp_path / name
    table = pd.DataFrame({"smiles": ["C", "CC"], "x": [1.234, 1e-7], "y": ["0,5", "1.234,5"]})
    (table.to_excel if name.endswith("xlsx") else table.to_parquet)(path, index=False)
    (piece,) = read_chunks(path, options=ReadOptions(decimal=","), numbers=["x", "y"])
    assert piece["x"].astype(float).tolist() == [1.234, 1e-7]
    assert piece["y"].tolist() == ["0.5", "1234.5"]
