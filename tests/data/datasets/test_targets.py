"""Which columns are predicted if none is named, and what is said if that is open."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.errors import ConfigError, OpenChoice
from tests.data.datasets.test_labels import read

RNG = np.random.default_rng(0)
ROWS = 32


def numbers(decimals: int = 2) -> list[str]:
    return [f"{value:.{decimals}f}" for value in RNG.uniform(1, 5, ROWS)]


WHOLE = [str(number) for number in RNG.permutation(ROWS)]
YEARS = [str(1990 + number % 30) for number in range(ROWS)]
MOLECULES = [f"molecule {number}" for number in range(ROWS)]


@pytest.mark.parametrize(
    "beside",
    [
        {},
        {"name": MOLECULES, "series": ["a", "b"] * 16},
        {"id": WHOLE},
        {"molregno": WHOLE, "BindingDB MonomerID": WHOLE, "Tag": WHOLE},
        {"catalogue": WHOLE},  # whole numbers that are all different
    ],
)
@pytest.mark.parametrize("name", ["logS", "pKa", "weighted", "y"])
def test_the_only_column_of_numbers_beside_identifiers_is_the_target(name, beside):
    labels = read({**beside, name: numbers()})
    assert labels.names == (name,)
    assert f"'{name}'" in labels.warnings[0]
    identifiers = [each for each, cells in beside.items() if cells is WHOLE]
    assert all(each in labels.warnings[1] for each in identifiers)


def _choices(columns, **settings):
    with pytest.raises(OpenChoice) as caught:
        read(columns, **settings)
    assert all(name in str(caught.value) for name in columns)
    return caught.value.options


@pytest.mark.parametrize(
    ("beside", "cells"),
    [
        *(
            (name, numbers())
            for name in (
                *("MW", "Molecular Weight", "cLogP", "TPSA", "HBD", "Number of Rings", "HBA"),
                *("ESOL predicted solubility", "Prediction"),
            )
        ),
        ("Document Year", YEARS),
    ],
)
def test_one_column_is_recommended_beside_numbers_that_are_no_labels(beside, cells):
    assert _choices({beside: cells, "pIC50": numbers()}) == [["--targets", "pIC50"]]
    assert _choices({beside: cells}) == []


def test_of_several_columns_none_is_recommended():
    """Nor one with cells that are no numbers."""
    assert _choices({"logS": numbers(), "logP of ours": numbers()}) == []
    assert _choices({"y": [*numbers()[:-1], "n.d."], "z": numbers()}) == []
    assert _choices({"y": ["a", "b"] * 16}) == []


def test_a_recommendation_with_a_comma():
    assert _choices({"MW": numbers(), "y, log": numbers()}) == [
        ["--set", 'data.targets=["y, log"]']
    ]


def test_patterns_name_targets():
    columns = {name: numbers() for name in ("pIC50 a", "pIC50 b", "pred pIC50 a", "z[1]", "z1")}
    assert read(columns, targets=["pIC50*"]).names == ("pIC50 a", "pIC50 b")
    assert read(columns, targets=["z[1]"]).names == ("z[1]",)
    found = read(columns, targets=["*"], targets_except=["pred*", "z1"])
    assert found.names == ("pIC50 a", "pIC50 b", "z[1]")
    with pytest.raises(ConfigError, match="has no column 'q\\*'"):
        read(columns, targets=["q*"])
