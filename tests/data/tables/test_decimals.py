"""Decimal commas: read where they are declared."""

from __future__ import annotations

import pandas as pd
import pytest

from molsepnorm.data.datasets.cells import parse_texts, plain_numbers
from molsepnorm.data.tables import ReadOptions, read_chunks, with_points


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("0,5", 0.5),
        ("12", 12),
        (",5", 0.5),
        ("-3,5", -3.5),
        ("1,5E-05", 1.5e-05),
        ("1.234,5", 1234.5),
        ("1.234", 1234),
        ("1.234.567", 1234567),
        ("0.5", None),  # of another decimal mark
        ("1,234.5", None),
        ("1,234,567", None),
        ("12.34", None),
        ("2,4-dinitro", None),
    ],
)
def test_numbers_with_decimal_commas(cell, number):
    found = parse_texts([cell, f">{cell}"], ",")
    assert found.bad.tolist() == [number is None] * 2
    if number is not None:
        assert found.numbers.tolist() == [number] * 2
        assert found.bounds.tolist() == [0, 1]
        assert plain_numbers(pd.Series([cell]), ",").tolist() == [number]


@pytest.mark.parametrize("decimal", [None, "."])
def test_commas_are_no_decimal_marks_unless_declared(decimal):
    cells = pd.Series(["0,5", "1,234", "1.234"])
    assert parse_texts(cells, decimal).bad.tolist() == [True, True, False]
    assert with_points(cells, decimal).tolist() == cells.tolist()


def test_only_the_named_columns_are_converted(tmp_path):
    (tmp_path / "x.csv").write_text("smiles;y;z\nC;0,5;0,7\n")
    options = ReadOptions(decimal=",")
    (piece,) = read_chunks(tmp_path / "x.csv", options=options, numbers=["z"])
    assert piece.to_dict("records") == [{"smiles": "C", "y": "0,5", "z": "0.7"}]
