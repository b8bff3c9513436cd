"""Excel workbooks as tables of text."""

from __future__ import annotations

import datetime
import re
import zipfile
from contextlib import suppress

import openpyxl
import pytest

from molsepnorm.data.tables import locate, read_chunks, read_table, require_clear
from molsepnorm.errors import DataError, DataWarning


def _write(path, *rows, **more_sheets):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title, sheet in more_sheets.items():
        book.create_sheet(title).append(sheet)
    book.save(path)
    return path


def test_cells_become_text_that_reads_back(tmp_path):
    """Numbers, text that looks like numbers, booleans and dates."""
    row = ["CCO", 0.1, 7, 7.0, "007", True, datetime.datetime(2021, 5, 3), None, "=a", 1e-7]
    names = ["smiles", "a", "b", "c", "d", "e", "f", "g", "h", "i"]
    book = openpyxl.Workbook()
    book.active.append(names)
    book.active.append(row)
    book.active["I2"].data_type = "s"  # text, not a formula
    book.save(tmp_path / "x.xlsx")
    table = read_table(tmp_path / "x.xlsx")
    assert list(table.columns) == names
    assert table.iloc[0].tolist() == [
        *("CCO", "0.1", "7", "7", "007", "true", "2021-05-03", "", "=a", "1e-07")
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


@pytest.mark.parametrize(
    ("wanted", "sheet"), [("smiles", "data"), ("drawn", "other"), ("missing", "data")]
)
@pytest.mark.filterwarnings("ignore:.*is read as the column of SMILES")
def test_the_first_sheet_with_molecules_is_read(tmp_path, wanted, sheet):
    """Many workbooks begin with a sheet that describes the others. A later sheet may have a few
    molecules under the default name."""
    book = openpyxl.Workbook()
    book.active.append(["made by", "me"])
    book.create_sheet("empty")
    for title, rows in {
        "data": [["id", "Canonical SMILES"], [1, "CCO"]],
        "other": [["drawn"], ["CCN"]],
        "examples": [["smiles"], ["CCF"]],
    }.items():
        added = book.create_sheet(title)
        for row in rows:
            added.append(row)
    book.save(tmp_path / "x.xlsx")
    with pytest.warns(DataWarning, match=rf"x\.xlsx has 5 sheets .*: '{sheet}' is read"):
        table = read_table(tmp_path / "x.xlsx", wanted)
    assert table.iloc[0].tolist() == {"data": ["1", "CCO"], "other": ["CCN"]}[sheet]


def test_a_wrong_size_in_the_file_does_not_cut_off_rows(tmp_path):
    """Some programs write that a sheet has one cell."""
    path = _write(tmp_path / "x.xlsx", ["smiles", "y"], ["C", 1], ["CC", 2])
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "y.xlsx", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            assert name != "xl/worksheets/sheet1.xml" or b'ref="A1:B3"' in data
            new.writestr(name, data.replace(b'ref="A1:B3"', b'ref="A1"'))
    assert read_table(tmp_path / "y.xlsx")["y"].tolist() == ["1", "2"]


def test_merged_cells_of_the_sheet_that_is_read_have_a_warning(tmp_path):
    """Those of the header do not matter."""
    book = openpyxl.Workbook()
    other = book.create_sheet("other")
    for sheet in (book.active, other):
        for row in (["smiles", "y", "y"], ["C", 1], ["CC", None], ["CCC", 3]):
            sheet.append(row)
    other.merge_cells("B2:B3")
    book.active.merge_cells("B1:C1")
    book.save(tmp_path / "x.xlsx")
    with pytest.warns(DataWarning) as found:
        read_table(tmp_path / "x.xlsx")
    assert not any("has merged cells" in str(each.message) for each in found)
    book.active.merge_cells("B2:B3")
    book.save(tmp_path / "x.xlsx")
    with pytest.warns(DataWarning, match=r"x\.xlsx has merged cells \(B2:B3\): only the first"):
        assert read_table(tmp_path / "x.xlsx").iloc[:, 1].tolist() == ["1", "", "3"]


@pytest.mark.parametrize(
    ("cell", "stored"),
    [
        ('<c r="B3" t="str"><f>A3</f><v></v></c>', ""),
        ('<c r="B3" t="str"><f>A3</f><v>b</v></c>', "b"),
        ('<c r="B3"><f>A3</f><v></v></c>', None),
    ],
)
def test_an_empty_text_is_a_stored_value(tmp_path, cell, stored):
    """The elements of some programs have a prefix."""
    path = _write(tmp_path / "x.xlsx", ["smiles", "y"], ["C", "a"], ["CC", "=A3"])
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "y.xlsx", "w") as new:
        for name in old.namelist():
            data = old.read(name).decode()
            if name == "xl/worksheets/sheet1.xml":
                data = re.sub('<c r="B3".*?</c>', cell, data)
                data = re.sub(r"<(/?)(?=\w)", r"<\1x:", data).replace("xmlns=", "xmlns:x=")
            new.writestr(name, data)
    if stored is None:
        with pytest.raises(DataError, match=r"row 3, cell 2 is a formula without a stored value"):
            read_table(tmp_path / "y.xlsx")
    else:
        assert read_table(tmp_path / "y.xlsx")["y"].tolist() == ["a", stored]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"smiles,y\nC,1\n", r"x\.xlsx is not an Excel workbook: if it is text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "has a password, or is an older .xls"),
        (b"PK\3\4" + bytes(100), r"x\.xlsx cannot be read as an Excel workbook"),
        ([[]], "has no rows below its header"),
        ([["smiles", "y"]], "has no rows below its header"),
        ([["smiles"], ["C"], ["CC", 1]], "row 3 has 2 cells where 1 are expected"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, message):
    path = tmp_path / "x.xlsx"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        _write(path, *content)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_a_workbook_that_is_cut_off_or_damaged(tmp_path):
    data = _write(tmp_path / "x.xlsx", ["smiles", "y"], *[["C", i] for i in range(99)]).read_bytes()
    for size in range(4, len(data) - 1, len(data) // 9):
        (tmp_path / "x.xlsx").write_bytes(data[:size])
        with pytest.raises(DataError, match="cannot be read as an Excel workbook"):
            read_table(tmp_path / "x.xlsx")
    for place in range(30, len(data), len(data) // 40):
        (tmp_path / "x.xlsx").write_bytes(
            data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        )
        with suppress(DataError):
            assert read_table(tmp_path / "x.xlsx")["y"].tolist() == [str(i) for i in range(99)]


def test_decimal_commas_in_text_cells(tmp_path):
    """Numbers of a workbook are exact, so that their points never group thousands."""
    path = _write(
        tmp_path / "x.xlsx", ["smiles", "y", "z"], ["C", "0,5", 1.234], ["CC", "1,234", 950]
    )
    with pytest.warns(DataWarning, match="column 'y': decimal commas are read as points"):
        table = read_table(path)
    assert table[["y", "z"]].to_numpy().tolist() == [["0.5", "1.234"], ["1.234", "950"]]
    require_clear(table, ["y", "z"], path)
