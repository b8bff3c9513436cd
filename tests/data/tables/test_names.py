"""The column of SMILES under another name, another encoding, and a title."""

from __future__ import annotations

import re

import pytest

from molsepnorm.data.tables import (
    ReadOptions,
    locate,
    names_in_file,
    read_chunks,
    read_table,
    require_column,
)
from molsepnorm.errors import ConfigError, DataError, DataWarning


@pytest.mark.parametrize("name", ["SMILES", "Canonical SMILES", "Chromophore (SMILES)", "Smile"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_another_name_of_the_column_is_announced(tmp_path, name, separator):
    (tmp_path / "x.csv").write_text(f"id{separator}{name}{separator}a\n1{separator}CCO\n")
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


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("smiles,SMILES", "smiles"), ("SMILES,a", "b"), ("structure,a", "smiles")],
)
def test_other_columns_keep_their_names(tmp_path, header, wanted):
    (tmp_path / "x.csv").write_text(f"{header}\nC,1\n")
    (chunk,) = read_chunks(tmp_path / "x.csv", options=ReadOptions(wanted))
    assert list(chunk.columns) == names_in_file(chunk) == header.split(",")


@pytest.mark.parametrize(
    ("wanted", "other", "differs"),
    [
        ("IC50 (nM)", "IC50 (uM)", True),
        ("IC50 (nM)", "EC50 (nM)", False),
        ("IC50", "IC50 (nM)", False),
    ],
)
def test_a_name_with_another_unit_is_not_only_suggested(wanted, other, differs):
    with pytest.raises(ConfigError, match="Did you mean") as caught:
        require_column(["smiles", other], wanted, "x.csv")
    advice = f" If '{other}' is in another unit, convert its numbers first."
    assert str(caught.value).endswith(advice) == differs


def test_another_encoding_is_read_where_it_is_named(tmp_path):
    (tmp_path / "x.csv").write_bytes("smiles,Aktivität µM\nC,größer €\n".encode("cp1252"))
    with pytest.raises(DataError, match="cannot be decoded: .*--encoding cp1252"):
        read_table(tmp_path / "x.csv")
    table = read_table(tmp_path / "x.csv", ReadOptions(encoding="cp1252"))
    assert table.to_dict("records") == [{"smiles": "C", "Aktivität µM": "größer €"}]


def test_a_title_above_the_header(tmp_path):
    (tmp_path / "x.csv").write_text("Table 1. Our data,\n\nsmiles,y\nC,1\n")
    with pytest.raises(ConfigError, match="--header-row 3"):
        read_table(tmp_path / "x.csv")
    table = read_table(tmp_path / "x.csv", ReadOptions(header_row=3))
    assert table.to_dict("records") == [{"smiles": "C", "y": "1"}]
    assert locate("x.csv", table.index[0]) == "x.csv, line 4"


def test_a_table_without_a_header_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("CCO,CHEMBL1,5.97\nCCN,CHEMBL2,6.66\n")
    with pytest.raises(ConfigError, match="the first line holds the molecule 'CCO'"):
        read_table(tmp_path / "x.csv")
