"""Columns of texts: which are targets, of what kind, with which labels, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.datasets.columns import Columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.labels import MAX_CLASSES, Labels, read_labels, read_weights
from molsepnorm.errors import ConfigError, DataError, OpenChoice
from molsepnorm.tasks import Target
from support import of_targets

NAN = float("nan")
TABLE = Path("my.csv")


def table_of(columns: dict[str, list[str]]) -> pd.DataFrame:
    """With a column of SMILES, as `read_table` gives it; the first row is line 2 of the file."""
    (rows,) = {len(cells) for cells in columns.values()}
    lines = range(2, rows + 2)
    return pd.DataFrame({"smiles": ["C"] * rows, **columns}, index=lines, dtype=object)


def read(columns: dict[str, list[str]], **settings) -> Labels:
    config = DataConfig(table=TABLE, **settings)
    labels = read_labels(Columns.of(table_of(columns), config))
    for issue in labels.issues:
        raise DataError(issue.message)
    return labels


def values(labels: Labels) -> list:
    """Column by column, None for NaN, which equals nothing."""
    return [[None if np.isnan(x) else x for x in column] for column in labels.values.T]


# Which columns


COLUMNS = {
    "id": ["0", "1", "2", "3", "4"],
    "name": ["a", "b", "c", "d", "e"],
    "logS": ["1.5", "", "-2", "1e1", "nan"],
    "active": ["yes", "no", "NA", "no", ""],
    "odour": ["mild", "very strong", "", "very strong", "mild"],
    "empty": ["", "NA", " ", "", ""],
}


def test_a_table_of_all_kinds():
    """Numbers, yes/no and classes, blanks in each. A setting of a column names a target, too."""
    labels = read(COLUMNS, targets=["odour", "logS", "active"])
    assert labels.names == ("odour", "logS", "active")
    assert of_targets(labels, "kind") == ("binary", "regression", "binary")
    assert of_targets(labels, "classes") == (("mild", "very strong"), (), ())
    assert values(labels) == [
        [0, 1, None, 1, 0],
        [1.5, None, -2, 10, None],
        [1, 0, None, 0, None],
    ]
    assert labels.values.dtype == np.float64
    named = read(
        COLUMNS, task_type={"id": "regression"}, classes={"odour": ["mild", "very strong"]}
    )
    assert named.names == ("id", "odour")


def test_no_column_is_taken_twice():
    """Weights, splits, ignored columns and the SMILES, numbers all of them, are no targets."""
    columns = {name: ["1.5", "2", "3"] for name in ("y", "weight", "split", "extra", "more")}
    columns["smiles"] = ["7"] * 3
    settings = {"weight_column": "weight", "splits_column": "split"}
    settings["targets_except"] = ["extra", "more"]
    assert read(columns, **settings).names == ("y",)
    for name in ("weight", "split", "extra", "smiles"):
        with pytest.raises(ConfigError, match=f"column '{name}' cannot be a target and something"):
            read(columns, targets=[name], **settings)


@pytest.mark.parametrize(
    ("one", "other"), [("High", "high"), ("in-active", "inactive"), ("0", "no")]
)
def test_two_spellings_of_a_class_are_refused(one, other):
    """They would be two classes without a word."""
    cells = {"y": [one, "medium", other, "medium"]}
    message = f"line 4, column 'y': '{other}' and '{one}' would be two classes, and look like one"
    with pytest.raises(DataError, match=message):
        read(cells, targets=["y"], task_type="multiclass")
    listed = read(cells, targets=["y"], classes={"y": [one, "medium", other]})
    assert values(listed) == [[0, 1, 2, 1]]


# Numbers and yes/no


@pytest.mark.parametrize("blank", ["", "nan", "NA", "NULL", "\t"])
def test_blanks_in_every_spelling(blank):
    """This applies to every kind of target."""
    for cells, expected in (
        (["1.5", "3"], [1.5, 3]),
        (["yes", "no"], [1, 0]),
        (["x", "w"], [1, 0]),
    ):
        labels = read({"y": [cells[0], blank, *cells, cells[1]]}, targets=["y"])
        assert values(labels) == [[expected[0], None, *expected, expected[1]]]
    assert values(read({"y": ["", blank]}, targets=["y"])) == [[None, None]]


@pytest.mark.parametrize("word", ["none", "Null", "Na"])
def test_words_that_may_be_classes_are_no_blanks(word):
    with pytest.raises(DataError, match=f"line 3.*'{word}'"):
        read({"y": ["1.5", word, "2"]}, targets=["y"])
    labels = read({"y": ["~", word, "", "NA", "~", word]}, targets=["y"])
    assert of_targets(labels, "classes") == ((word, "~"),)
    assert values(labels) == [[1, 0, None, None, 1, 0]]


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        (["0", "0.5", "1"], "regression", [0, 0.5, 1]),
        (["-1", "1", "1"], "regression", [-1, 1, 1]),
        (["0", "1", ""], "binary", [0, 1, None]),
        (["1", "1", "1"], "binary", [1, 1, 1]),
        (["1.0", "no", " Yes "], "binary", [1, 0, 1]),
        (["True", "FALSE", "0.0"], "binary", [1, 0, 0]),
        (["Positive", "Inactive", "0"], "binary", [1, 0, 0]),
    ],
)
def test_zeros_and_ones_and_yes_and_no_are_binary_unless_there_are_other_numbers(
    cells, kind, expected
):
    labels = read({"y": cells})
    assert (of_targets(labels, "kind"), values(labels)) == ((kind,), [expected])


@given(
    st.lists(
        st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        min_size=1,
    ).filter(lambda numbers: any(number is not None for number in numbers))
)
def test_numbers_are_read_as_python_reads_them(numbers):
    """In the precision in which labels are kept."""
    cells = ["" if number is None else repr(number) for number in numbers]
    labels = read({"y": cells}, missing_values=["none"])
    expected = [NAN if number is None else number for number in numbers]
    np.testing.assert_allclose(labels.values[:, 0], expected, rtol=1e-14)


@pytest.mark.parametrize("bad", ["high", ">1,5", "1e39"])
def test_a_label_that_is_no_number_is_shown_with_its_place(bad):
    """1e39 is a number that single precision, in which labels are kept, has no room for."""
    message = f"my.csv, line 4, column 'y': '{bad}' is not a number. 2 such cells in this column"
    with pytest.raises(DataError) as caught:
        read({"y": ["1", "", bad, "0", bad]}, targets=["y"])
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("data check my.csv --targets y --fix my_clean.csv")


@pytest.mark.parametrize("bad", ["2", "0.5", ">5"])
def test_a_yes_no_target_with_other_numbers(bad):
    with pytest.raises(DataError, match=f"line 3, column 'y': '{bad}' is neither 0 nor 1"):
        read({"y": ["1", bad, "no", "7"]}, task_type="binary")


# Bounds


CENSORED = ["1.5", ">10", " > 10 ", "<0.1", ">=3", "≤ 0.5", "≥2", "<= 7", "", "10"]


def test_a_cell_may_be_a_bound():
    """A column of numbers and bounds is a regression target."""
    labels = read({"y": [">10", *CENSORED]}, targets=["y"])
    assert of_targets(labels, "kind") == ("regression",)
    assert values(labels) == [[10, 1.5, 10, 10, 0.1, 3, 0.5, 2, 7, None, 10]]
    assert labels.bounds[:, 0].tolist() == [1, 0, 1, 1, -1, 1, -1, 1, -1, 0, 0]
    assert labels.warnings == ("8 of 10 labels of y are bounds, such as '>10'.",)
    assert not read({"y": ["1", "2", "3.5"]}).bounds.any()


def test_a_column_of_bounds_alone_is_refused_unless_its_kind_is_given():
    cells = [">5", "<2", ">5", "", "<2"]
    message = "my.csv, column 'y': all labels are bounds, such as '>5'.* --task-type y=multiclass"
    with pytest.raises(DataError, match=message):
        read({"y": cells}, targets=["y"])
    several = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert of_targets(several, "classes") == (("<2", ">5"),)
    labels = read({"y": cells}, targets=["y"], task_type="regression")
    assert labels.bounds[:, 0].tolist() == [1, -1, 1, 0, -1]


def test_labels_at_a_limit_of_the_assay_may_be_read_as_bounds():
    cells = {"y": [*["0.68"] * 8, "0.8", "1.1", "1.2", "1.3", "1.4", "1.93", "2"]}
    labels = read(cells)
    assert not labels.bounds.any()
    assert labels.warnings[-1].endswith("--limits y=0.68:")
    labels = read(cells, limits="y=0.68:1.9")
    assert labels.bounds[:, 0].tolist() == [-1] * 8 + [0] * 5 + [1] * 2
    assert labels.values[-2:, 0].tolist() == [1.9, 1.9]


def test_limits_of_numbers_that_are_converted_are_in_nm():
    """The limit in the warning is the one that makes the labels at it bounds."""
    cells = {"y": [*["10"] * 8, "1", "2", "3", "4", "5", "6"], "unit": ["uM"] * 14}
    settings = {"targets": ["y"], "unit_column": "unit"}
    limit = "--limits y=:10000"
    assert any(line.endswith(limit) for line in read(cells, **settings).warnings)
    labels = read(cells, limits="y=:10000", **settings)
    assert labels.bounds[:, 0].tolist() == [1] * 8 + [0] * 6
    assert labels.values[-1, 0] == 6000


# Transforms


def test_labels_and_bounds_are_transformed():
    """pic50 turns a lower bound into an upper one; log10 does not."""
    cells = ["10", ">1000", "<0.1", ""]
    columns = {"ic50_nM": cells, "dose": cells, "plain": cells}
    transform = {"ic50_nM": "pic50", "dose": "log10", "plain": "none"}
    labels = read(columns, transform=transform)
    np.testing.assert_allclose(labels.values[:, 0], [8, 6, 10, NAN])
    np.testing.assert_allclose(labels.values[:, 1], [1, 3, -1, NAN])
    np.testing.assert_allclose(labels.values[:, 2], [10, 1000, 0.1, NAN])
    assert labels.bounds.T.tolist() == [[0, -1, 1, 0], [0, 1, -1, 0], [0, 1, -1, 0]]
    assert of_targets(labels, "transform") == ("pic50:nM", "log10", "none")
    assert "ic50_nM is learned and scored as pic50 = 9 - log10(value in nM)." in labels.warnings


# Classes


def test_words_are_classes_in_their_order():
    labels = read({"y": [" sweet", "bitter ", "sour", "N/A", "bitter"]}, targets=["y"])
    assert of_targets(labels, "kind") == ("multiclass",)
    assert of_targets(labels, "classes") == (("bitter", "sour", "sweet"),)
    assert values(labels) == [[2, 0, 1, None, 0]]
    labels = read({"y": ["b", "a", "C", "ä"] * 2}, targets=["y"])
    assert of_targets(labels, "classes") == (("C", "a", "b", "ä"),)


@pytest.mark.parametrize(
    ("negative", "positive"),
    [
        ("safe", "toxic"),  # in alphabetical order
        ("decoy", "active"),  # as in a column of active and inactive
        ("non-inhibitor", "inhibitor"),
    ],
)
def test_two_words_are_a_binary_target_with_a_positive_class(negative, positive):
    """It does not depend on their numbers. The classes can be named."""
    cells = [positive, f"{negative} ", "", positive, negative]
    for own in (cells, [*reversed(cells)]):
        labels = read({"y": own * 5}, targets=["y"])
        assert labels.targets == (Target("y", "binary", classes=(negative, positive)),)
        assert f"probability of '{positive}'" in labels.warnings[0]
    assert values(read({"y": cells}, targets=["y"])) == [[1, 0, None, 1, 0]]
    named = read({"y": cells * 5}, classes={"y": [positive, negative]})
    assert named.targets == (Target("y", "binary", classes=(positive, negative)),)
    assert values(named) == [[0, 1, None, 0, 1] * 5]


@pytest.mark.parametrize(
    "cell", ["0,5", ">1,5", "1.234,5", "13%", "2 days 1:30:00", "2.2-2.4", "2020-01-31"]
)
def test_numbers_with_commas_and_other_signs_are_not_guessed_to_be_classes(cell):
    """Nor words beside yes and no. Who says they are classes is believed."""
    for cells in ([cell, re.sub(r"\d", "7", cell, count=1)] * 5, ["maybe", "yes", "no"] * 4):
        with pytest.raises(DataError, match=f"line 2, column 'y': '{cells[0]}' is not a number"):
            read({"y": cells}, targets=["y"])
        labels = read({"y": cells}, targets=["y"], task_type={"y": "multiclass"})
        assert {*labels.targets[0].classes} == {*cells}


def test_whole_numbers_as_classes():
    """In the order of their values, with or without a decimal point, as pandas writes them where a
    column has blanks."""
    cells = ["10.0", "2", "-1", "2.00", "", "7", "1.5", "10"]
    labels = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert of_targets(labels, "classes") == (("-1", "1.5", "2", "7", "10"),)
    assert values(labels) == [[4, 2, 0, 2, None, 3, 1, 4]]
    labels = read({"y": ["2.0", "3", "2", ""]}, targets=["y"], classes={"y": ["3", "2.0"]})
    assert of_targets(labels, "classes") == (("3", "2"),)
    assert values(labels) == [[1, 0, 1, None]]


def test_classes_in_a_given_order():
    """One may be missing from the table; a word that is a blank elsewhere is a class if named."""
    columns = {"y": ["low", "high", "NA", "", "low", "high"]}
    order = ["NA", "low", "medium", "high"]
    labels = read(columns, targets=["y"], classes={"y": order})
    assert of_targets(labels, "kind") == ("multiclass",)
    assert of_targets(labels, "classes") == (tuple(order),)
    assert values(labels) == [[1, 3, 0, None, 1, 3]]
    with pytest.raises(DataError, match="line 3, column 'y': 'high' is not one of its classes: "):
        read(columns, targets=["y"], classes={"y": ["low", "medium"]})


def test_too_many_or_too_few_classes():
    """A column of names or of quantities, or of one word."""
    words = [f"w{i:04}" for i in range(1200)]
    message = r"my.csv, column 'y': 1,200 classes \(w0000, .*a multiclass target has 2 to 100"
    with pytest.raises(DataError, match=message):
        read({"y": words * 2}, targets=["y"])
    labels = read({"y": words[:MAX_CLASSES] * 2}, targets=["y"])
    assert of_targets(labels, "classes") == (tuple(words[:100]),)
    assert values(labels) == [[*range(100)] * 2]
    with pytest.raises(DataError, match=r"1 class \(a\), and a multiclass target has 2 to"):
        read({"y": ["a", "", "a"]}, targets=["y"], task_type="multiclass")


@pytest.mark.parametrize(
    ("numbers", "suspect"),
    [
        ([0.5, 1.2, -999, 0.7, -999, 1.5], -999),
        ([0.5, 1e6, 1.2, 0.7, 1.5, 1e6], 1e6),
        ([0.5, 1.2, 0.7, 1.5, 1e6], None),
        ([0.5, 1.2, 0.7, 1.5, -999], -999),
        ([0, 1, 1, -1, 0, 1], -1),
        ([0.5, 1.2, 3.5, 0.7, 3.5], None),  # twice, and not far away
        ([1, 30, 900, 7000], None),
    ],
)
def test_a_number_that_may_stand_for_a_missing_label(numbers, suspect):
    columns = {"y": [f"{number:g}" for number in numbers]}
    if suspect is None:
        assert values(read(columns, targets=["y"])) == [numbers]
        return
    with pytest.raises(DataError, match=re.escape(f"--missing-values={suspect:g}")):
        read(columns, targets=["y"])
    found = read(columns, targets=["y"], missing_values=[f"{suspect:g}"])
    assert values(found) == [[None if each == suspect else each for each in numbers]]
    assert values(read(columns, targets=["y"], missing_values=["none"])) == [numbers]


# Weights


def weights(cells: list[str], **settings) -> np.ndarray | None:
    config = DataConfig(table=TABLE, **settings)
    table = table_of({"y": ["1"] * len(cells), "w": cells})
    return read_weights(Columns.of(table, config))


def test_weights_are_numbers_and_blanks_1():
    found = weights(["2", "", "0", "0.25", "NA", "1e3"], weight_column="w")
    assert found.tolist() == [2, 1, 0, 0.25, 1, 1000]
    assert weights(["2", "0"]) is None
    assert weights(["", ""], weight_column="w").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "-0.5", "-2"], "my.csv, line 3, column 'w': '-0.5' is not a number of 0"),
        (["0", "0", "0.0"], "my.csv, column 'w': all weights are 0"),
    ],
)
def test_weights_that_cannot_be_used(cells, message):
    with pytest.raises(DataError, match=message):
        weights(cells, weight_column="w")


# Relations and units

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
    assert (ignored.bounds.any(), ignored.values[:, 0].tolist()) == (False, [12, 10000, 0.03, 5, 7])


QUALIFIED = {
    "ic50": ["1.2", "50", "", "3"],
    "qualifier": ["=", ">", "<", ""],
    "unit": ["uM", "ng/mL", "nM", "mM"],
}


def test_a_column_of_relations_or_units_has_to_be_declared():
    with pytest.raises(DataError, match="--relation-column 'qualifier'.*--relation-column none"):
        read(QUALIFIED, targets=["ic50"])
    with pytest.raises(DataError, match="--unit-column 'unit'.*--unit-column none"):
        read(QUALIFIED, targets=["ic50"], relation_column="qualifier")
    found = read(QUALIFIED, targets=["ic50"], relation_column="qualifier", unit_column="unit")
    methane = 16.043  # the molar mass of the test's SMILES
    np.testing.assert_allclose(
        found.values[:, 0], [1200, 50 * 1000 / methane, np.nan, 3e6], rtol=1e-4
    )
    assert found.bounds[:, 0].tolist() == [0, 1, 0, 0]
    plain = read(QUALIFIED, targets=["ic50"], relation_column="none", unit_column="none")
    assert not plain.bounds.any()
    equal = {**QUALIFIED, "qualifier": ["="] * 4, "unit": ["mV"] * 4}
    assert not read(equal, targets=["ic50"]).bounds.any()  # they change nothing


@pytest.mark.parametrize(
    ("changed", "settings", "message"),
    [
        ({"qualifier": ["=", "about", "", ""]}, {}, "'about' is no relation"),
        ({"unit": ["uM", "mV", "", ""]}, {}, "the unit 'mV' cannot be converted beside others"),
        ({"unit": ["uM", "nM", "nM", ""]}, {}, "line 5, column 'ic50': '3' has no unit"),
        ({}, {"transform": "ic50=pic50:uM"}, "converts .* to nM, .*--transform ic50=pic50:nM"),
    ],
)
def test_what_cannot_be_used_is_refused(changed, settings, message):
    given = {"targets": ["ic50"], "relation_column": "qualifier", "unit_column": "unit", **settings}
    with pytest.raises((ConfigError, DataError), match=message):
        read({**QUALIFIED, **changed}, **given)


# Targets that are not named

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
        {"Document Year": YEARS},
    ],
)
@pytest.mark.parametrize("name", ["logS", "y"])
def test_the_only_column_of_numbers_beside_identifiers_is_the_target(name, beside):
    labels = read({**beside, name: numbers()})
    assert labels.names == (name,)
    assert f"'{name}'" in labels.warnings[0]
    identifiers = [each for each, cells in beside.items() if cells in (WHOLE, YEARS)]
    assert all(each in labels.warnings[1] for each in identifiers)


@pytest.mark.parametrize(
    "columns",
    [
        {"MW": numbers(), "pIC50": numbers()},
        {"Document Year": YEARS},
        {"y": [*numbers()[:-1], "n.d."]},
        {"y": ["0,5", "1,5"] * 16},
    ],
)
def test_without_a_single_column_of_numbers_the_columns_are_listed(columns):
    with pytest.raises(OpenChoice) as caught:
        read(columns)
    assert all(name in str(caught.value) for name in columns)
    assert ("--decimal ," in str(caught.value)) == ("0,5" in columns.get("y", ()))


def test_patterns_name_targets():
    columns = {name: numbers() for name in ("pIC50 a", "pIC50 b", "pred pIC50 a", "z[1]", "z1")}
    assert read(columns, targets=["pIC50*"]).names == ("pIC50 a", "pIC50 b")
    assert read(columns, targets=["z[1]"]).names == ("z[1]",)
    found = read(columns, targets=["*"], targets_except=["pred*", "z1"])
    assert found.names == ("pIC50 a", "pIC50 b", "z[1]")
    with pytest.raises(ConfigError, match="has no column 'q\\*'"):
        read(columns, targets=["q*"])
