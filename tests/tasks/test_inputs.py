"""Feature columns: their kind, their words, and what a model reads of a cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm.errors import DataError
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn


def fit(cells) -> FeatureColumn:
    return FeatureColumn.fit("x", cells, "my.csv, line {}".format)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["25", " 37.5 ", "-1e3"], ()),
        (["b", " a", "b"], ("a", "b")),
        (["yes", "no", "yes"], ("no", "yes")),
        (["Na", "Cl", " Na ", "K"], ("Cl", "K", "Na")),
        (["TRUE", "False", True], ("false", "true")),
    ],
)
def test_a_column_holds_numbers_or_words(cells, words):
    column = fit(cells)
    assert column == FeatureColumn("x", words)
    assert column.width == max(1, len(words))


def test_words_are_one_hot_encoded_and_numbers_kept():
    words, numbers = fit(["a", "b", "c"]), fit(["1", "2"])
    values, errors = words.encode(["b", " c ", "a"])
    assert values.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert (values.dtype, errors) == (np.float32, [None] * 3)
    assert numbers.encode(["1e2", 3, -0.5])[0].tolist() == [[100], [3], [-0.5]]


def test_whole_numbers_are_read_as_they_are_declared():
    """The code 7 is 7.0 beside an empty cell of pandas."""
    cells = ["101", "205", "7"] * 2
    codes = FeatureColumn.fit("x", cells, str, "category")
    assert codes == FeatureColumn("x", ("101", "205", "7"))
    assert codes.encode([7.0, "205.0"])[0].tolist() == [[0, 0, 1], [0, 1, 0]]
    assert FeatureColumn.fit("x", cells, str, "number") == FeatureColumn("x")
    with pytest.raises(DataError, match="2: 'a' is not a number"):
        FeatureColumn.fit("x", ["1", "2", "a"], str, "number")


def test_empty_cells_are_the_mean_or_a_word_of_their_own():
    """Only in a model whose training rows had some; otherwise they are errors."""
    numbers, words = fit(["1", "", "4.5", None]), fit(["a", "nan", "b"])
    assert numbers.encode(["", "3"])[0].tolist() == [[2.75], [3]]
    assert words.words == ("a", "b", "missing")
    assert words.encode(["", "b"])[0].tolist() == [[0, 0, 1], [0, 1, 0]]
    for column in (fit(["1", "2"]), fit(["a", "b"])):
        _, errors = column.encode([""])
        assert "needs a value in column 'x', which is empty" in errors[0]


def test_booleans_and_dates_have_one_spelling_in_all_sources():
    """As text of a CSV, in Parquet, in a workbook and in memory, and of models saved before."""
    days = ["2024-01-05", "2024-01-05 00:00:00.000000", pd.Timestamp("2024-01-05")]
    days += [
        np.datetime64("2024-01-05", "ns"),
        "2024-01-05T00:00",
        "2024-02-06",
        "2024-02-06 09:30",
    ]
    column = fit(days)
    assert column.words == ("2024-01-05", "2024-02-06", "2024-02-06 09:30:00")
    values, errors = column.encode(days)
    assert values.argmax(axis=1).tolist() == [0, 0, 0, 0, 0, 1, 2] and not any(errors)
    flags = FeatureColumn("x", ("False", "True"))
    values, errors = flags.encode(["True", "true", "TRUE", True, np.bool_(False), "false"])
    assert values.argmax(axis=1).tolist() == [1, 1, 1, 1, 0, 0] and not any(errors)


def test_columns_are_joined_in_their_order_with_the_first_reason():
    inputs = ExtraInputs((FeatureColumn("t"), FeatureColumn("s", ("a", "b"))))
    values, errors = inputs.encode_columns([["5", "x", "7"], ["b", "z", "y"]], 3)
    assert values[0].tolist() == [5, 0, 1]
    assert errors[0] is None
    assert "'x' in column 't'" in errors[1]
    assert "'y' in column 's'" in errors[2]
    assert NO_INPUTS.encode_columns([], 2)[0].shape == (2, 0)


def test_numbers_outside_the_range_of_the_training_rows_are_found():
    """A tenth of the range is allowed on either side."""
    columns = fit(["b", "a"]), fit(["280", "330", "300"])
    assert (columns[0].low, columns[1].low, columns[1].high) == (None, 280, 330)
    inputs = ExtraInputs(columns, 2048)
    cells = ["275", "274.9", "335", "335.1", "x"]
    values, _ = inputs.encode_columns([["a"] * 5, cells], 5)
    found = inputs.outside(np.pad(values, ((0, 0), (0, 2048))))
    assert found.tolist() == [[False, each] for each in (False, True, False, True, True)]
    unknown = ExtraInputs((FeatureColumn("t"),))  # of a model from before there were ranges
    assert not unknown.outside(np.float32([[1e9]])).any()
