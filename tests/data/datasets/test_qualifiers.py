"""Relations and units in columns of their own."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.errors import ConfigError, DataError
from tests.data.datasets.test_labels import read

EXPORT = {
    "Standard Relation": ["'='", "'>'", "'='", "'<='", ""],
    "Standard Value": ["12.0", "10000.0", "0.03", "5", "7"],
    "Standard Units": ["nM", "nM", "uM", "nM", "pM"],
}


def test_an_export_of_chembl_needs_no_option():
    labels = read(EXPORT)
    assert labels.names == ("Standard Value",)
    np.testing.assert_allclose(labels.values[:, 0], [12, 10000, 30, 5, 0.007])
    assert labels.bounds[:, 0].tolist() == [0, 1, 0, -1, 0]
    assert "ChEMBL" in labels.warnings[0]
    ignored = read(EXPORT, targets=["Standard Value"], relation_column="none", unit_column="none")
    assert (ignored.bounds, ignored.values[:, 0].tolist()) == (None, [12, 10000, 0.03, 5, 7])


COLUMNS = {
    "ic50": ["1.2", "50", "", "3"],
    "qualifier": ["=", ">", "<", ""],
    "unit": ["uM", "ng/mL", "nM", "mM"],
}


def test_a_column_of_relations_or_units_has_to_be_declared():
    with pytest.raises(DataError, match="--relation-column 'qualifier'.*--relation-column none"):
        read(COLUMNS, targets=["ic50"])
    with pytest.raises(DataError, match="--unit-column 'unit'.*--unit-column none"):
        read(COLUMNS, targets=["ic50"], relation_column="qualifier")
    found = read(COLUMNS, targets=["ic50"], relation_column="qualifier", unit_column="unit")
    methane = 16.043  # the molar mass of the test's SMILES
    np.testing.assert_allclose(
        found.values[:, 0], [1200, 50 * 1000 / methane, np.nan, 3e6], rtol=1e-4
    )
    assert found.bounds[:, 0].tolist() == [0, 1, 0, 0]
    plain = read(COLUMNS, targets=["ic50"], relation_column="none", unit_column="none")
    assert plain.bounds is None
    equal = {**COLUMNS, "qualifier": ["="] * 4, "unit": ["mV"] * 4}
    assert read(equal, targets=["ic50"]).bounds is None  # they change nothing


@pytest.mark.parametrize(
    ("changed", "settings", "message"),
    [
        ({"qualifier": ["=", "about", "", ""]}, {}, "'about' is no relation"),
        ({"unit": ["uM", "mV", "", ""]}, {}, "the unit 'mV' cannot be converted beside others"),
        ({"unit": ["uM", "nM", "nM", ""]}, {}, "line 5, column 'ic50': '3' has no unit"),
        ({}, {"targets": ["ic50", "qualifier"]}, "belong to one target"),
        ({}, {"unit_column": "units"}, "has no column 'units'"),
    ],
)
def test_what_cannot_be_used_is_refused(changed, settings, message):
    given = {"targets": ["ic50"], "relation_column": "qualifier", "unit_column": "unit", **settings}
    with pytest.raises((ConfigError, DataError), match=message):
        read({**COLUMNS, **changed}, **given)
