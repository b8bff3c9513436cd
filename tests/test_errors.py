"""The tree of errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm import errors
from molsepnorm.errors import (
    ConfigError,
    DataError,
    InvalidMolecule,
    ModelError,
    MolsepnormError,
    StorageError,
    did_you_mean,
    require_several,
)

CLASSES = [ConfigError, DataError, InvalidMolecule, ModelError, StorageError]


@pytest.mark.parametrize("kind", CLASSES)
def test_one_root_catches_them_all(kind):
    with pytest.raises(MolsepnormError, match=r"^what went wrong$"):
        raise kind("what went wrong")


def test_the_exit_code_tells_a_wrong_request_from_a_failure():
    assert {kind.__name__: kind.exit_code for kind in [MolsepnormError, *CLASSES]} == {
        "MolsepnormError": 1,
        "ConfigError": 2,
        "DataError": 1,
        "InvalidMolecule": 1,
        "ModelError": 1,
        "StorageError": 1,
    }


def test_they_are_what_python_would_raise_too():
    assert issubclass(ConfigError, ValueError)
    assert issubclass(InvalidMolecule, DataError)
    assert issubclass(DataError, ValueError)
    assert issubclass(StorageError, OSError)


def test_every_class_is_public():
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == set(errors.__all__) - {
        *("counted", "did_you_mean", "first_of", "listed", "prefixed", "require_several"),
        *("separated", "warn_of_data"),
    }


def test_the_nearest_name_is_offered_and_all_are_listed_in_order():
    message = did_you_mean("smilse", ["target", "smiles", "id"])
    assert message == "Did you mean 'smiles'? Known: id, smiles, target."


def test_nothing_is_offered_where_nothing_is_near():
    assert did_you_mean("zzz", ("b", "a")) == "Known: a, b."


def test_known_names_may_be_read_only_once():
    assert did_you_mean("on", iter(["one", "two"])) == "Did you mean 'one'? Known: one, two."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("CCO", "smiles must be a list, and is one text: write ['CCO']"),
        (b"CCO", "smiles must be a list, and is one text: write [b'CCO']"),
        ("C" * 99, f"smiles must be a list, and is one text: write ['{'C' * 59}'…]"),
        ({"a": "CCO"}, "smiles must be a list, and is a dict: pass one column of it"),
        (pd.DataFrame({"a": ["C"]}), "smiles must be a list, and is a DataFrame: pass one column"),
        (np.array("CCO"), "smiles must be a list, and is a ndarray"),
        (None, "smiles must be a list; got None"),
        (7, "smiles must be a list; got 7"),
        ({"C", "CC"}, "smiles is a set, which has no order: pass a list"),
    ],
    ids=["str", "bytes", "long", "dict", "table", "array", "none", "number", "set"],
)
def test_one_text_is_not_taken_for_several(values, message):
    with pytest.raises(ConfigError) as caught:
        require_several(values, "smiles")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "values",
    [["C"], ("C",), [], iter("C"), {"C": 1}.keys(), np.array(["C"]), pd.Series(["C"]), range(2)],
)
def test_anything_that_holds_several_texts_is_taken(values):
    require_several(values, "smiles")
