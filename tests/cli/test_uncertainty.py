"""Intervals and sets of classes through the command line."""

from __future__ import annotations

import csv
import io

import pytest

from .conftest import TINY


@pytest.fixture(scope="module")
def trained(ok, tmp_path_factory):
    """A run with a number and a class."""
    folder = tmp_path_factory.mktemp("uncertainty")
    table = folder / "data.csv"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "active"])
        for length in range(1, 21):
            for end, value in (("O", -1.0), ("Cl", 0.9), ("N", 0.2)):
                writer.writerow(["C" * length + end, 0.5 * length + value, int(length > 9)])
    ok("train", "-q", "--data", table, "--targets", "y,active", *TINY, "-o", folder / "run")
    return folder / "run"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_columns_are_added_to_every_row(ok, trained, tmp_path):
    given = ("predict", "--model", trained, "--smiles", "CCO", "--smiles", "C1CC")
    plain, sure = rows(ok(*given)), rows(ok(*given, "--uncertainty", "--level", "0.6"))
    added = ["y_std", "y_low", "y_high", "active_calibrated", "active_set"]
    assert [name for name in sure[0] if name not in plain[0]] == added
    for before, after in zip(plain, sure, strict=True):
        assert before == {name: after[name] for name in before}
    assert float(sure[0]["y_low"]) < float(sure[0]["y_pred"]) < float(sure[0]["y_high"])
    assert sure[0]["active_set"] in ("0", "1", "0|1", "none")
    assert [sure[1][name] for name in added] == [""] * 5
    ok(*given, "--uncertainty", "--level", "0.6", "-o", tmp_path / "out.xlsx")
    ok(*given, "--uncertainty", "--level", "0.6", "-o", tmp_path / "out.parquet")


def test_levels_that_are_impossible_are_refused(refused, trained):
    given = ("predict", "--model", trained, "--smiles", "CCO")
    assert "add --uncertainty" in refused(*given, "--level", "0.5")
    refused(*given, "--uncertainty", "--level", "1")
    message = refused(*given, "--uncertainty", "--level", "0.99")
    assert "needs 99 labelled validation molecules" in message


def test_a_model_without_intervals_says_why(refused):
    message = refused("predict", "--model", "molsepnorm-small", "--smiles", "CCO", "--uncertainty")
    assert "pre-trained without targets" in message
