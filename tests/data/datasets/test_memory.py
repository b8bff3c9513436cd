"""Labels, weights and inputs in memory."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets.memory import label_table, memory_dataset
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules.encodings import EncodingSpec
from support import of_targets

ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)
ALKANES = ["C" * n for n in range(1, 11)]
MASK = [i == 3 for i in range(10)]


def _dataset(y, targets=("y",), classes=None, columns=(), **arguments):
    config = DataConfig(
        in_memory=True,
        targets=[*targets],
        featurizer="zinc",
        classes=classes or {},
        feature_columns=[*columns],
    )
    table = label_table(y, [*targets])
    return memory_dataset(ALKANES, table, config, ZINC, **arguments)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_masked_labels_are_missing(dtype):
    """The values under the mask are not read."""
    expected = np.arange(10, dtype=np.float32)
    expected[3] = np.nan
    y = np.ma.masked_array(np.where(MASK, 999, np.arange(10)).astype(dtype), MASK)
    np.testing.assert_array_equal(_dataset(y).labels[:, 0], expected)
    both = np.ma.stack([y, y + 1], axis=1)
    found = _dataset(both, ("a", "b")).labels
    np.testing.assert_array_equal(found, np.stack([expected, expected + 1], axis=1))


def test_a_missing_value_of_python_is_no_class():
    """None and NaN are missing; the text "None" is a class."""
    cells = ["None", None, "mild", np.nan, pd.NA, "mild", *["None"] * 4]
    splits = {"train": [0, 2, 5], "val": [6], "test": [7]}
    dataset = _dataset(pd.Series(cells, dtype=object), splits=splits)
    assert of_targets(dataset, "classes") == (("None", "mild"),)
    assert np.isnan(dataset.labels[:, 0]).tolist() == [pd.isna(cell) for cell in cells]


def test_masked_weights_are_1_and_masked_inputs_are_empty():
    weights = np.ma.masked_array([5.0] * 10, MASK)
    assert _dataset(range(10), weights=weights).weights.tolist() == [5, 5, 5, 1, *[5] * 6]
    features = {"pH": np.ma.masked_array(np.arange(10.0), MASK)}
    dataset = _dataset(range(10), columns=["pH"], features=features)
    assert dataset.columns["pH"][2:5] == ["2.0", "", "4.0"]
    assert "The input 'pH' is read as numbers from 0 to 9; 1 empty cell" in dataset.warnings[-1]


def test_inputs_may_have_the_names_of_weights_and_errors():
    """They replace neither; the names of those are free in the table."""
    numbers = {"weights": np.arange(1.0, 11), "y_error": np.arange(10.0)}
    given = {"weights": np.full(10, 2.0), "errors": np.full(10, 0.1)}
    dataset = _dataset(range(10), columns=numbers, features=numbers, **given)
    assert dataset.weights.tolist() == [2] * 10
    np.testing.assert_allclose(dataset.errors, 0.1)
    assert dataset.columns["weights"][:2] == ["1.0", "2.0"]


@pytest.mark.parametrize(
    "labels",
    [
        pd.to_datetime(["2020-01-01", None] * 5),
        [timedelta(hours=1), None] * 5,
    ],
)
def test_dates_and_durations_are_no_classes(labels):
    with pytest.raises(ConfigError, match="'y' holds dates or durations: pass numbers"):
        _dataset(labels)


def test_labels_that_single_precision_cannot_hold_are_refused():
    """They would all be equal."""
    numbers = np.arange(10.0)
    with pytest.raises(DataError, match=r"column 'y': .*Subtract a constant such as 1000000\d\d"):
        _dataset(1e8 + numbers)
    np.testing.assert_array_equal(_dataset(1e4 + numbers).labels[:, 0], 1e4 + numbers)
    assert (_dataset(np.full(10, 123456789.0)).labels == np.float32(123456789)).all()
