"""The tree of errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm.errors import (
    ConfigError,
    DataError,
    InvalidMolecule,
    ModelError,
    MolsepnormError,
    StorageError,
    require_several,
)

CLASSES = [ConfigError, DataError, InvalidMolecule, ModelError, StorageError]


def test_the_exit_code_tells_a_wrong_request_from_a_failure():
    assert {kind.__name__: kind.exit_code for kind in [MolsepnormError, *CLASSES]} == {
        "MolsepnormError": 1,
        "ConfigError": 2,
        "DataError": 1,
        "InvalidMolecule": 1,
        "ModelError": 1,
        "StorageError": 1,
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("CCO", "smiles must be a list, and is one text: write ['CCO']"),
        (pd.DataFrame({"a": ["C"]}), "smiles must be a list, and is a DataFrame: pass one column"),
        ({"C", "CC"}, "smiles is a set, which has no order: pass a list"),
    ],
    ids=["str", "table", "set"],
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
