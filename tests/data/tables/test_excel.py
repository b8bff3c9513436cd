"""Workbooks as tables of text."""

from __future__ import annotations

import datetime

import openpyxl
import pytest

from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.formats import ReadOptions, locate
from molsepnorm.errors import ConfigError, DataError


def _write(path, *rows, **more_sheets):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title, sheet in more_sheets.items():
        added = book.create_sheet(title)
        for row in sheet:
            added.append(row)
    book.save(path)
    return path


def test_cells_become_text_that_reads_back(tmp_path):
    """Numbers, text that looks like numbers, booleans and dates."""
    row = ["CCO", 0.1, 7, 7.0, "007", True, datetime.datetime(2021, 5, 3, 4), None, 1e-7]
    names = ["smiles", "a", "b", "c", "d", "e", "f", "g", "h"]
    table = read_table(_write(tmp_path / "x.xlsx", names, row))
    assert list(table.columns) == names
    assert table.iloc[0].tolist() == [
        *("CCO", "0.1", "7", "7", "007", "true", "2021-05-03 04:00:00", "", "1e-07")
    ]


@pytest.mark.parametrize("rows", [1, 100])
def test_locate_gives_the_row_of_the_sheet(tmp_path, rows):
    """Blank rows before the header and between rows count; those at the end are left out."""
    path = _write(
        tmp_path / "x.xlsx", [], ["smiles", "y"], ["C", 1], [], ["CC", 2], [None, None], ["", ""]
    )
    pieces = list(read_chunks(path, rows=rows))
    found = [(locate(path, i), s) for piece in pieces for i, s in piece["smiles"].items()]
    assert found == [(f"{path}, row 3", "C"), (f"{path}, row 4", ""), (f"{path}, row 5", "CC")]


def test_the_only_sheet_with_molecules_is_read_and_of_several_the_named_one(tmp_path):
    """Many workbooks begin with a sheet that describes the others."""
    data = [["id", "smiles"], [1, "CCO"]]
    path = _write(tmp_path / "x.xlsx", ["made by", "me"], empty=[], data=data)
    assert read_table(path)["smiles"].tolist() == ["CCO"]
    path = _write(tmp_path / "x.xlsx", ["made by"], data=data, more=[["smiles"], ["CCF"]])
    with pytest.raises(ConfigError, match=r"2 sheets with a column of SMILES.*--sheet 'data'"):
        read_table(path)
    assert read_table(path, ReadOptions(sheet="more")).iloc[:, 0].tolist() == ["CCF"]
    with pytest.raises(ConfigError, match="has no sheet 'mor'"):
        read_table(path, ReadOptions(sheet="mor"))


def test_a_title_above_the_header(tmp_path):
    path = _write(tmp_path / "x.xlsx", ["Table 1"], [], ["smiles", "y"], ["C", 1])
    table = read_table(path, ReadOptions(header_row=3))
    assert table.to_dict("records") == [{"smiles": "C", "y": "1"}]
    with pytest.raises(DataError, match="has no molecules"):
        read_table(path, ReadOptions(header_row=9))
    assert locate(path, table.index[0]) == f"{path}, row 4"


@pytest.mark.parametrize("content", [b"smiles,y\nC,1\n", b"PK\3\4" + bytes(100)])
def test_files_that_are_no_workbooks(tmp_path, content):
    path = tmp_path / "x.xlsx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.xlsx cannot be read as a workbook.*with .csv"):
        read_table(path)
    for rows in ([[]], [["smiles", "y"]]):
        with pytest.raises(DataError, match="has no molecules"):
            read_table(_write(path, *rows))
