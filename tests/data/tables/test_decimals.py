"""Decimal commas: read where the cells of a column decide what is meant, and refused otherwise."""

from __future__ import annotations

import random

import pytest

from molsepnorm.data.tables import read_chunks, read_table, require_clear
from molsepnorm.errors import DataError, DataWarning

NAMES = {";": "x.csv", "\t": "x.tsv"}


def _write(tmp_path, separator: str, **columns: list[str]):
    path = tmp_path / NAMES.get(separator, "x.csv")
    rows = zip(*columns.values(), strict=True)
    lines = [separator.join(["smiles", *columns])]
    lines += [separator.join(["C", *(f'"{cell}"' for cell in row)]) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["0,5", "12", ""], ["0.5", "12", ""]),
        (["1,234", "0,5"], ["1.234", "0.5"]),  # the second cell decides
        (["1234,567", "7"], ["1234.567", "7"]),
        ([">10,5", "< 0,1", "≥2,25", "-3,5"], [">10.5", "< 0.1", "≥2.25", "-3.5"]),
        (["1,5E-05", ",5"], ["1.5E-05", ".5"]),
        (["1.234,5", "1.234"], ["1234.5", "1234"]),
        (["1.234.567", "1.234", "12"], ["1234567", "1234", "12"]),
        (["2,5", "<NA>", "<NA>"], ["2.5", "<NA>", "<NA>"]),  # as pandas writes missing values
    ],
)
def test_decimal_commas_are_read_and_announced(tmp_path, separator, cells, read):
    path = _write(tmp_path, separator, y=cells)
    with pytest.warns(DataWarning, match=r"column 'y': decimal commas are read as points, such as"):
        table = read_table(path)
    assert table["y"].tolist() == read
    require_clear(table, ["y"], path)


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1,234", "5", "12,500"], r"'1,234' \(line 2\) may be 1.234 or 1234"),
        (["7", "1,234", "0.5"], r"mixed, such as in '1,234' \(line 3\) and '0.5' \(line 4\)"),
        (["0,5", "1.234"], r"mixed, such as in '0,5' \(line 2\) and '1.234' \(line 3\)"),
        (["1,234.5", "7"], r"commas group thousands, such as in '1,234.5' \(line 2\)"),
        (["1.234,5", "0.5"], "commas and points are mixed"),
    ],
)
def test_numbers_with_two_meanings_are_refused_where_they_are_used(
    tmp_path, separator, cells, message
):
    path = _write(tmp_path, separator, y=cells)
    table = read_table(path)
    assert table["y"].tolist() == cells
    require_clear(table, ["smiles"], path)
    with pytest.raises(DataError, match=rf"column 'y': .*{message}.* Write such numbers without"):
        require_clear(table, ["y"], path)
    with pytest.raises(DataError, match=message):
        list(read_chunks(path, decimals=["y"]))
    assert next(read_chunks(path))["y"].tolist() == cells  # of a column that is not used


@pytest.mark.parametrize(
    ("separator", "columns", "unclear"),
    [
        (";", {"y": ["1.234", "950"]}, True),  # 1234 and 950 in a German spreadsheet
        ("\t", {"y": ["1.234", "950"]}, False),
        ("\t", {"y": ["1.234", "950"], "z": ["0,5", "1"]}, True),
        (";", {"y": ["1.234", "950", "0.5"]}, False),
        (";", {"y": ["1.234", "5.678"], "z": ["0,5", "1"]}, True),
        (";", {"y": ["1.23", "5.678"], "z": ["0,5", "1"]}, False),
    ],
)
@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
def test_points_that_may_group_thousands(tmp_path, separator, columns, unclear):
    path = _write(tmp_path, separator, **columns)
    table = read_table(path)
    assert table["y"].tolist() == columns["y"]
    if unclear:
        with pytest.raises(DataError, match=r"\(line 2\) may be 1\.234 or 1234, since points"):
            require_clear(table, ["y"], path)
    else:
        require_clear(table, ["y"], path)


def test_three_decimals_everywhere_between_semicolons_are_announced(tmp_path):
    path = _write(tmp_path, ";", y=["5.220", "6.301"])
    with pytest.warns(DataWarning, match=r"'y': points are read as decimal points, such as '5\.22"):
        table = read_table(path)
    assert table["y"].tolist() == ["5.220", "6.301"]
    require_clear(table, ["y"], path)


@pytest.mark.parametrize(
    "cells",
    [
        ["2,4-dinitro", "1,5"],  # as many words as numbers
        ["a", "b"],
        ["1.5", "2"],
        ["5", "7"],
        ["03.05.2021", "04.05.2021"],
    ],
)
def test_other_columns_stay_as_they_are(tmp_path, cells):
    table = read_table(_write(tmp_path, ";", y=cells))
    assert table["y"].tolist() == cells
    require_clear(table, ["y"], "x")


def test_the_cell_that_decides_may_be_in_any_piece(tmp_path):
    path = _write(tmp_path, ";", y=["1,234"] * 50 + ["0,5"])
    with pytest.warns(DataWarning, match="such as '0,5' as 0.5"):
        pieces = list(read_chunks(path, rows=10, decimals=None))
    assert [len(piece) for piece in pieces] == [10] * 5 + [1]
    assert {cell for piece in pieces for cell in piece["y"]} == {"1.234", "0.5"}


def test_only_the_columns_that_are_used_are_converted(tmp_path):
    path = _write(tmp_path, ";", y=["0,5"], z=["0,7"])
    with pytest.warns(DataWarning, match="column 'z'") as warned:
        (piece,) = read_chunks(path, decimals=["z"])
    assert [each.category for each in warned].count(DataWarning) == 1
    assert piece.to_dict("records") == [{"smiles": "C", "y": "0,5", "z": "0.7"}]


def test_properties_of_an_sdf(tmp_path):
    record = (
        "x\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0       0.0       0.0    C\nM  END"
    )
    text = "".join(f"{record}\n> <y>\n{cell}\n\n$$$$\n" for cell in ("0,5", "12"))
    (tmp_path / "x.sdf").write_text(text)
    with pytest.warns(DataWarning, match="decimal commas"):
        assert read_table(tmp_path / "x.sdf")["y"].tolist() == ["0.5", "12"]


@pytest.mark.parametrize("seed", range(4))
def test_what_a_german_spreadsheet_writes_is_read_back_or_refused(tmp_path, seed):
    """No number is ever read as another one, with and without marks for thousands."""
    draw = random.Random(seed)
    for trial in range(60):
        grouped, places = draw.random() < 0.5, draw.choice([0, 1, 2, 3])
        numbers = [
            round(draw.uniform(0, draw.choice([1, 10, 5000, 2e6])), places)
            for _ in range(draw.choice([1, 2, 5]))
        ]
        cells = [f"{number:{',' * grouped}.{places}f}" for number in numbers]
        german = [cell.translate(str.maketrans(",.", ".,")) for cell in cells]
        folder = tmp_path / str(trial)
        folder.mkdir()
        path = _write(folder, ";", y=german, other=["0,5"] * len(cells))
        with pytest.warns(DataWarning):
            table = read_table(path)
        try:
            require_clear(table, ["y"], path)
        except DataError:
            assert places in (0, 3)
            continue
        read = [float(cell) if cell.count(".") < 2 else None for cell in table["y"]]
        assert read == pytest.approx(numbers, abs=1e-9), german
