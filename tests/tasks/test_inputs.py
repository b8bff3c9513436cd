"""Feature columns: their kind, their words, and what a model reads of a cell."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.reading import check_types
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn, require_same_order


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


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["", "nan"], "line 0: all cells are empty, so it cannot be an input"),
        (["101", "205", "7"] * 2, "may be .* codes.* --feature-columns x:number or x:category"),
        (["1", "2", "Na"], "line 2: 'Na' is not a number"),
        (["a", "7", "b"], "line 1: '7' is a number, and most other cells are words"),
        (["1", "2", "1e39"], "line 2: '1e39' is beyond single precision"),
        (["0,5", "10,0", "1,0"], "line 0: '0,5' has a decimal comma or groups of thousands: if"),
        (["a", "a "], "line 0: every row has 'a', so it cannot be an input"),
        (["1683000001", "1683000009"], "too large for their differences.*such as 1683000005 from"),
        ([f"n{i}" for i in range(30)], "30 different words, such as 'n0', which look like names"),
    ],
)
def test_a_column_that_cannot_be_an_input(cells, message):
    with pytest.raises(DataError, match=message):
        fit(cells)


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


def test_inputs_survive_a_json_file():
    columns = FeatureColumn("t", low=-1.5, high=3.0), FeatureColumn("s", ("a", "b"))
    inputs = ExtraInputs(columns, 2048, ("MolWt",), pairs=1024)
    read = check_types(ExtraInputs, asdict(inputs), "inputs")
    assert read == inputs and (read.columns[0].low, read.columns[0].high) == (-1.5, 3.0)
    assert (inputs.width, inputs.names) == (1 + 2 + 2048 + 1 + 1024, ("t", "s"))


def test_orders_are_compared_beyond_an_argument_with_another_index():
    """Otherwise its neighbours would be matched by position in different orders."""
    table = pd.DataFrame({"smiles": ["C", "CC"], "time": [3.0, 1.0]}, index=[10, 20])
    columns = {"pH": pd.Series([7, 5]), "time": table["time"]}
    require_same_order(smiles=table["smiles"], columns=columns)
    columns["time"] = table["time"].sort_values()
    with pytest.raises(ConfigError, match=r"smiles and columns\['time'\] have the same index in"):
        require_same_order(smiles=table["smiles"], columns=columns)
