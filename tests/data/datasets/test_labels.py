"""Columns of texts: which are targets, of what kind, with which labels, and what is refused."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.datasets.columns import parse_columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.labels import MAX_CLASSES, Labels, read_labels, read_weights
from molsepnorm.errors import ConfigError, DataError, OpenChoice

NAN = float("nan")
TABLE = Path("my.csv")
GUESSED = "The targets are all columns of numbers; name others with --targets."


def table_of(columns: dict[str, list[str]]) -> pd.DataFrame:
    """With a column of SMILES, as `read_table` gives it; the first row is line 2 of the file."""
    (rows,) = {len(cells) for cells in columns.values()}
    return pd.DataFrame({"smiles": ["C"] * rows, **columns}, dtype=object)


def read(columns: dict[str, list[str]], **settings) -> Labels:
    config = DataConfig(table=TABLE, **settings)
    return read_labels(parse_columns([table_of(columns)], config), config)


def values(labels: Labels) -> list:
    """Column by column, None for NaN, which equals nothing."""
    return [[None if np.isnan(x) else x for x in column] for column in labels.values.T]


# Which columns


def test_a_table_of_all_kinds():
    """Numbers, yes/no and classes, blanks in each."""
    labels = read(
        {
            "name": ["a", "b", "c", "d", "e"],
            "logS": ["1.5", "", "-2", "1e1", "nan"],
            "active": ["yes", "no", "NA", "no", ""],
            "odour": ["mild", "very strong", "", "very strong", "mild"],
        },
        targets=["odour", "logS", "active"],
    )
    assert labels.names == ("odour", "logS", "active")
    assert labels.kinds == ("binary", "regression", "binary")
    assert labels.classes == (("mild", "very strong"), (), ())
    assert values(labels) == [
        [0, 1, None, 1, 0],
        [1.5, None, -2, 10, None],
        [1, 0, None, 0, None],
    ]
    assert labels.values.dtype == np.float64


def test_without_names_every_numeric_column_is_a_target():
    """Yes/no and blanks are numbers; a column of names or of blanks alone is none."""
    columns = {
        "name": ["a", "b", "c"],
        "y": ["0.5", "", "2"],
        "active": ["no", "yes", ""],
        "empty": ["", "NA", " "],
        "z": ["1", "2.5", "3"],
    }
    labels = read(columns)
    assert labels.names == ("y", "active", "z")
    assert labels.kinds == ("regression", "binary", "regression")
    assert labels.classes == ((), (), ())
    assert labels.warnings == (GUESSED,)
    with pytest.raises(ConfigError, match=r"--targets\. Not used .* not numbers, such as 'low'$"):
        read({"IC50": ["1.2", "low", "3.4"]})


def test_a_column_whose_kind_is_named_is_a_target():
    """Also one of words, of numbering, or with classes given."""
    columns = {"id": ["0", "1", "2"], "taste": ["sweet", "sour", "sweet"], "y": ["1.5", "2", "3"]}
    assert read(columns, task_type={"taste": "multiclass"}).names == ("taste", "y")
    assert read(columns, classes={"taste": ["sweet", "sour"]}).names == ("taste", "y")
    del columns["taste"]
    assert read(columns, task_type={"id": "regression"}).names == ("id", "y")


def test_no_column_is_taken_twice():
    """Weights, splits, ignored columns and the SMILES, numbers all of them, are no targets."""
    columns = {name: ["1.5", "2", "3"] for name in ("y", "weight", "split", "extra", "more")}
    columns["smiles"] = ["7"] * 3
    settings = {"weight_column": "weight", "splits_column": "split"}
    labels = read(columns, ignore_columns=["extra", "more"], **settings)
    assert labels.names == ("y",)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"weight_column": "w"}, "w"),
        ({"splits_column": "w"}, "w"),
        ({}, "smiles"),
        ({"smiles_column": "y"}, "y"),
        ({"ignore_columns": ["y", "w"]}, "w"),
    ],
)
def test_a_target_that_is_something_else_as_well(settings, name):
    """The weights would be learnt, or the splits, or the molecules, or what is to be ignored."""
    columns = {"y": ["1", "2", "3"], "w": ["1", "2", "4"]}
    with pytest.raises(ConfigError, match=f"column '{name}' cannot be a target and something"):
        read(columns, targets=[name], **settings)


@pytest.mark.parametrize(
    "name",
    [
        *("id", "ID", "Index", "mol_id", "compound id", "row", "Number", "no", "cas_no", "CID"),
        *("pubchem_cid", "name", "Unnamed: 0", "Unnamed: 12", "molecule number"),
    ],
)
def test_numbering_is_no_target(name):
    """Unless it is named; what was skipped is said."""
    columns = {name: ["101", "102", "103"], "y": ["1.5", "2", "3"]}
    labels = read(columns)
    assert labels.names == ("y",)
    assert labels.warnings == (
        GUESSED,
        f"Not used as targets: {name} (they look like identifiers).",
    )
    assert read(columns, targets=[name]).names == (name,)
    with pytest.raises(ConfigError, match="my.csv has no column of numbers to predict beside"):
        read({name: ["101", "102", "103"]})


@pytest.mark.parametrize("name", ["acid", "liquid", "idle", "piano", "rows_of", "y", "Unnamed"])
def test_a_name_that_only_looks_like_numbering(name):
    labels = read({name: ["1.5", "2", "3"]})
    assert labels.names == (name,)
    assert labels.warnings == (GUESSED,)


@pytest.mark.parametrize(
    ("name", "cells"),
    [("refractive_index", ["1.33", "1.5", ""]), ("octane_number", ["92", "95", "92"])],
)
def test_numbers_that_recur_or_are_not_whole_number_nothing(name, cells):
    labels = read({name: cells})
    assert (labels.names, labels.warnings[0]) == ((name,), GUESSED)


def test_what_was_ignored_is_not_remarked_on():
    """The user has said so."""
    columns = {"id": ["1", "2", "3"], "y": ["1.5", "2", "3"], "z": ["1.5", "2", "3"]}
    labels = read(columns, ignore_columns=["id", "z"])
    assert labels.names == ("y",)
    assert labels.warnings == (GUESSED,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"targets": ["logs"]}, r"my.csv has no column 'logs'\. Did you mean 'logS'\? Known: "),
        ({"ignore_columns": ["Id"]}, r"my.csv has no column 'Id'\. Did you mean 'ID'\?"),
        ({"ignore_columns": ["Id"], "targets": ["logS"]}, "my.csv has no column 'Id'"),
        ({"targets": ["logS", "logS"]}, "a target is named twice: logS, logS"),
        (
            {"task_type": {"logs": "binary"}},
            r"data.task_type names 'logs', which is not a target\. D",
        ),
        (
            {"task_type": {"ID": "binary"}, "targets": ["logS"]},
            "names 'ID', which is not a target. Known: logS.",
        ),
        (
            {"task_type": {"logS": "regression"}, "classes": {"logS": ["0", "1"]}},
            "lists the classes of 'logS', but data.task_type makes it regression: keep one",
        ),
        (
            {"classes": {"logD": ["a", "b"]}},
            r"data.classes names 'logD', which is not a target\. Did you mean 'logS'\?",
        ),
    ],
)
def test_a_name_that_is_none(settings, message):
    with pytest.raises(ConfigError, match=message):
        read({"ID": ["1", "2", "3"], "logS": ["0", "1", "2"]}, **settings)


def test_without_any_column_of_numbers():
    """The columns are named, and what to do."""
    message = (
        "my.csv has no column of numbers to predict beside 'smiles'. Columns: smiles, name, odour. "
        "Name one with --targets"
    )
    with pytest.raises(ConfigError, match=message):
        read({"name": ["a", "b"], "odour": ["mild", "strong"]})


@pytest.mark.parametrize(
    ("one", "other"), [("High", "high"), ("in-active", "inactive"), ("Y", "yes"), ("0", "no")]
)
def test_two_spellings_of_a_class_are_refused(one, other):
    """They would be two classes without a word."""
    cells = {"y": [one, "medium", other, "medium"]}
    message = f"line 4, column 'y': '{other}' and '{one}' would be two classes, and look like one"
    with pytest.raises(DataError, match=message) as error:
        read(cells, targets=["y"], task_type="multiclass")
    assert shlex.split(str(error.value))[-2:] == [
        "--set",
        "data.classes=" + json.dumps({"y": sorted([one, "medium", other])}),
    ]
    listed = read(cells, targets=["y"], classes={"y": [one, "medium", other]})
    assert values(listed) == [[0, 1, 2, 1]]


def test_classes_that_differ_in_a_sign_or_a_digit_are_different():
    cells = ["+", "-", "1-2", "12", "A1", "A-1", "<5", ">5"]
    labels = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert labels.classes == (tuple(sorted(cells)),)


# Numbers and yes/no


@pytest.mark.parametrize("yes", ["1", "1.0", "yes", "YES", "True", "active", "Positive", " Yes "])
@pytest.mark.parametrize("no", ["0", "0.0", "no", "FALSE", "Inactive", "negative"])
def test_yes_and_no_in_every_spelling(yes, no):
    labels = read({"y": [yes, no, "", yes]})
    assert labels.kinds == ("binary",)
    assert values(labels) == [[1, 0, None, 1]]


@pytest.mark.parametrize(
    "blank", ["", " ", "nan", "NaN", "NA", "n/a", "<NA>", "NULL", "\t", "#N/A"]
)
@pytest.mark.parametrize(
    ("cells", "expected"), [(["1.5", "3"], [1.5, 3]), (["yes", "no"], [1, 0]), (["x", "w"], [1, 0])]
)
def test_blanks_in_every_spelling(blank, cells, expected):
    """This applies to every kind of target."""
    labels = read({"y": [cells[0], blank, *cells, cells[1]]}, targets=["y"])
    assert values(labels) == [[expected[0], None, *expected, expected[1]]]


@pytest.mark.parametrize("word", ["none", "None", "NONE", "na", "Null"])
def test_words_that_are_blanks_among_numbers_and_classes_among_words(word):
    """Missing values of multi-class targets have the spellings of those of feature columns."""
    labels = read({"y": ["1.5", word, "2"]}, targets=["y"])
    assert values(labels) == [[1.5, None, 2]]
    labels = read({"y": ["~", word, "", "~", word]}, targets=["y"])
    assert labels.classes == ((word, "~"),)
    assert values(labels) == [[1, 0, None, 1, 0]]


@pytest.mark.parametrize("settings", [{}, {"task_type": "binary"}])
def test_none_beside_positive_and_negative_is_no_blank(settings):
    """A third class, or not measured: the table does not say."""
    words = ["positive", "negative", "none", "negative", "positive", "none"]
    with pytest.raises(DataError, match=r"line 4.*'none'"):
        read({"y": words}, targets=["y"], **settings)
    labels = read({"y": words}, targets=["y"], task_type="multiclass")
    assert labels.classes == (("negative", "none", "positive"),)
    assert values(read({"y": ["1", "none", "0"]}, targets=["y"])) == [[1, None, 0]]


def test_whole_numbers_are_classes_with_and_without_a_decimal_point():
    cells = ["2.0", "3", "2", "", "3.0"]
    for settings in ({"task_type": "multiclass"}, {"classes": {"y": ["2.0", "3"]}}):
        labels = read({"y": cells}, targets=["y"], **settings)
        assert labels.classes == (("2", "3"),)
        assert values(labels) == [[0, 1, 0, None, 1]]


def test_sodium_is_a_class():
    labels = read({"y": ["Na", "NA", "K", "Na", ""]}, targets=["y"])
    assert labels.classes == (("K", "Na"),)
    assert values(labels) == [[1, None, 0, 1, None]]


def test_a_named_column_of_blanks():
    """It is no classes; that there is nothing to learn is found where the training labels are."""
    labels = read({"y": ["", "NA", " "]}, targets=["y"])
    assert values(labels) == [[None, None, None]]
    assert labels.classes == ((),)
    assert labels.warnings == ()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["0", "1", "2"], "regression"),
        (["0", "0.5", "1"], "regression"),
        (["-1", "1", "1"], "regression"),
        (["0", "1", ""], "binary"),
        (["1", "1", "1"], "binary"),
        (["0", "0", ""], "binary"),
    ],
)
def test_zeros_and_ones_with_anything_else_are_numbers(cells, kind):
    assert read({"y": cells}).kinds == (kind,)


@given(
    st.lists(
        st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        min_size=1,
    ).filter(lambda numbers: any(number is not None for number in numbers))
)
def test_numbers_are_read_as_python_reads_them(numbers):
    """In the precision in which labels are kept."""
    labels = read({"y": ["" if number is None else repr(number) for number in numbers]})
    expected = [NAN if number is None else number for number in numbers]
    np.testing.assert_allclose(labels.values[:, 0], expected, rtol=1e-15)


@pytest.mark.parametrize(
    "bad", ["high", "1,5", ">1,5", "> inf", "inf", "-Infinity", "1e999", "5 mM", "1e39"]
)
@pytest.mark.parametrize("kind", [None, "regression", "binary"])
def test_a_label_that_is_no_number_is_shown_with_its_place(bad, kind):
    """1e39 is a number that single precision, in which labels are kept, has no room for."""
    message = f"my.csv, line 4, column 'y': '{bad}' is not a number. 2 such cells in this column"
    with pytest.raises(DataError) as caught:
        read({"y": ["1", "", bad, "0", bad]}, targets=["y"], task_type=kind)
    assert str(caught.value).startswith(message)
    assert "; labels are numbers, yes/no, " in str(caught.value)
    infinite = "inf" in bad.lower() or bad == "1e999"
    assert infinite or "these are classes: --task-type y=multiclass. A copy" in str(caught.value)
    words = f"--targets y{f' --task-type {kind}' if kind else ''} --fix my_clean.csv"
    assert str(caught.value).endswith(f"molsepnorm data check my.csv {words}")
    if bad != "1e39":  # which makes a column of numbers with some words, and the choice is open
        assert read({"y": ["1", "", bad, "0", bad], "z": ["1", "2", "3", "4", "5"]}).names == ("z",)


def test_classes_are_suggested_only_where_they_are_possible():
    """Neither for many different numbers nor for more words than a target has classes."""
    for cells in ([f"{0.3 * i}" for i in range(30)], [f"w{i}" for i in range(149)]):
        with pytest.raises(DataError, match="is not a number") as caught:
            read({"y": [*cells, "high"]}, targets=["y"])
        assert "multiclass" not in str(caught.value)
        assert ("--fix" in str(caught.value)) == (cells[0] == "0.0")


def test_percentages_are_refused_with_the_number_to_write():
    cells = [f"{i} %" for i in range(40)]
    with pytest.raises(DataError, match=r"'0 %' is not a number.* without the % sign, such as 0$"):
        read({"y": cells}, targets=["y"])


def test_the_command_in_the_advice_has_the_transform_and_no_name_with_a_comma():
    settings = {"targets": ["y"], "transform": {"y": "pic50:nM"}}
    with pytest.raises(DataError, match="data check my.csv --targets y --transform y=pic50:nM --f"):
        read({"y": ["1", "x"]}, **settings)
    with pytest.raises(DataError, match=r"--set 'data.task_type=\{\"y, nM\": \"multiclass\"\}'$"):
        read({"y, nM": ["1", "x"]}, targets=["y, nM"])


def test_a_name_that_was_cut_at_its_comma():
    """--targets 'IC50, nM' names two columns."""
    message = r"'IC50'\. .*Known: 'IC50, nM', smiles\. .* --set 'data\.targets=\[\"IC50, nM\"\]'\."
    with pytest.raises(ConfigError, match=message):
        read({"IC50, nM": ["1", "2", "x"]}, targets=["IC50", "nM"])
    with pytest.raises(ConfigError, match="Columns: smiles, 'IC50, nM'. Name one with --targets"):
        read({"IC50, nM": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("name", "transform", "units"),
    [
        ("IC50 (nM)", "pic50:uM", "the unit nM, but --transform reads its numbers in uM"),
        ("ic50_µM", "pic50:nM", "the unit uM, but --transform reads its numbers in nM"),
        ("IC50 (nM)", "pic50:nM", None),
        ("activity", "pic50:nM", None),
        ("IC50 (nM)", "log10", None),
    ],
)
def test_a_unit_that_contradicts_the_name_is_remarked_on(name, transform, units):
    remarks = read({name: ["1", "2", "30"]}, targets=[name], transform={name: transform}).warnings
    assert [units in each for each in remarks if "has the unit" in each] == (
        [True] if units else []
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("IC50 (nM)", "--transform 'IC50 (nM)=pic50'"),
        ("IC50, nM", """--set 'data.transform={"IC50, nM": "pic50"}'"""),
    ],
)
def test_the_option_for_the_unit_in_the_name_can_be_copied(name, option):
    given = {name: "pic50:uM"}
    remarks = read({name: ["1", "2", "30"]}, targets=[name], transform=given).warnings
    assert any(each.endswith(f"If they are in nM: {option}") for each in remarks)


def test_the_place_is_the_row_s_in_the_file():
    """Whatever the index, as after quoted line breaks."""
    table = table_of({"y": ["1", "2", "x"]})
    table.index = pd.Index([0, 5, 9])
    for name, place in (("my.csv", "line 11"), ("my.sdf", "record 10")):
        config = DataConfig(table=Path(name), targets=["y"])
        message = f"{name}, {place}, column 'y': 'x' is not a number"
        with pytest.raises(DataError, match=message):
            read_labels(parse_columns([table], config), config)


# Bounds


CENSORED = ["1.5", ">10", " > 10 ", "<0.1", ">=3", "≤ 0.5", "≥2", "<= 7", "", "10"]


def test_a_cell_may_be_a_bound():
    """A column of numbers and bounds is a regression target, and a warning counts the bounds."""
    labels = read({"y": CENSORED})
    assert (labels.names, labels.kinds) == (("y",), ("regression",))
    assert values(labels) == [[1.5, 10, 10, 0.1, 3, 0.5, 2, 7, None, 10]]
    assert labels.bounds is not None
    assert labels.bounds[:, 0].tolist() == [0, 1, 1, -1, 1, -1, 1, -1, 0, 0]
    assert labels.warnings == (GUESSED, "7 of 9 labels of y are bounds, such as '>10'.")
    assert read({"y": ["1", "2", "3.5"]}).bounds is None


def test_bounds_that_come_before_the_first_number_are_bounds():
    """The column is read in pieces, and the first piece has bounds only."""
    table = table_of({"y": [">5"] * 3 + ["1", "<2"]})
    config = DataConfig(table=TABLE, targets=["y"])
    for size in (1, 2, 3, 5):
        pieces = [table.iloc[start : start + size] for start in range(0, 5, size)]
        labels = read_labels(parse_columns(pieces, config), config)
        assert labels.kinds == ("regression",)
        assert labels.bounds is not None
        assert labels.bounds[:, 0].tolist() == [1, 1, 1, 0, -1]


def test_a_column_of_bounds_alone_is_refused_unless_its_kind_is_given():
    cells = [">5", "<2", ">5", "", "<2"]
    message = "my.csv, column 'y': all labels are bounds, such as '>5'.* --task-type y=multiclass"
    with pytest.raises(DataError, match=message):
        read({"y": cells}, targets=["y"])
    for settings in ({"task_type": "multiclass"}, {"classes": {"y": ["<2", ">5"]}}):
        assert read({"y": cells}, targets=["y"], **settings).classes == (("<2", ">5"),)
    assert read({"y": [*cells, "about 3"]}, targets=["y"]).classes == (("<2", ">5", "about 3"),)
    for settings in ({"task_type": "regression"}, {"transform": {"y": "log10"}}):
        labels = read({"y": cells}, targets=["y"], **settings)
        assert labels.kinds == ("regression",)
        assert labels.bounds is not None
        assert labels.bounds[:, 0].tolist() == [1, -1, 1, 0, -1]


def test_bounds_among_yes_and_no_or_in_weights_are_mistakes():
    with pytest.raises(DataError, match="line 4, column 'y': '>5' is neither 0 nor 1"):
        read({"y": ["1", "0", ">5"]}, targets=["y"], task_type="binary")
    with pytest.raises(DataError, match="line 3, column 'w': '>5' is not a number"):
        weights(["1", ">5"], weight_column="w")


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
    assert labels.bounds is not None
    assert labels.bounds.T.tolist() == [[0, -1, 1, 0], [0, 1, -1, 0], [0, 1, -1, 0]]
    assert labels.transforms == ("pic50:nM", "log10", "none")
    assert "ic50_nM is learned and scored as pic50 = 9 - log10(value in nM)." in labels.warnings
    assert read({"y": ["1", "2", "3.5"]}, transform={"y": "none"}).transforms == ()


@pytest.mark.parametrize("cell", ["0", "-2", "<0", ">-2", "<= 0.0"])
def test_a_number_without_a_logarithm_is_shown_with_its_place(cell):
    number = cell.strip("<>= ").replace("0.0", "0")
    message = f"my.csv, line 3, column 'y': {number} has no logarithm, which log10 needs. 2 such"
    with pytest.raises(DataError) as caught:
        read({"y": ["3.5", cell, "7", cell, "9"]}, transform={"y": "log10"})
    assert str(caught.value).startswith(message)


def test_transforms_of_other_targets_are_refused():
    columns = {"active": ["0", "1", "1"], "y": ["1", "2", "3.5"], "y_log10": ["1", "3", "4.5"]}
    with pytest.raises(ConfigError, match="'active' is binary.*--task-type active=regression"):
        read(columns, transform={"active": "log10"})
    with pytest.raises(ConfigError, match="data.transform names 'z', which is not a target"):
        read(columns, transform={"z": "log10"})
    with pytest.raises(ConfigError, match="would be named y_log10, as another column is"):
        read(columns, transform={"y": "log10"})


# Kinds


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_one_kind_for_all_or_for_one(kind):
    """Configured targets are not guessed and cause no warning."""
    columns = {"a": ["0", "1", "1"] * 5, "b": ["1", "0", "0"] * 5}
    labels = read(columns, task_type=kind)
    assert labels.kinds == (kind, kind)
    assert labels.warnings == (GUESSED,)
    labels = read(columns, task_type={"b": kind})
    assert labels.kinds == ("binary", kind)
    assert values(labels) == [[0, 1, 1] * 5, [1, 0, 0] * 5]


def test_yes_and_no_as_quantities_and_as_classes():
    columns = {"y": ["yes", "no", "yes"]}
    assert values(read(columns, task_type="regression")) == [[1, 0, 1]]
    assert read(columns, task_type="multiclass").classes == (("no", "yes"),)


@pytest.mark.parametrize("number", ["5.1", ">5", "<= 0"])
@pytest.mark.parametrize(
    "settings", [{}, {"task_type": "regression"}, {"transform": {"y": "none"}}]
)
def test_yes_and_no_among_quantities_are_mistakes(number, settings):
    """They would be the numbers 1 and 0."""
    table = table_of({"y": ["1", "inactive", "", number, "Yes", "0"]})
    config = DataConfig(table=TABLE, targets=["y"], **settings)
    message = "my.csv, line 3, column 'y': 'inactive' is not a number. 2 such cells in this column"
    for size in (1, 6):
        pieces = [table.iloc[start : start + size] for start in range(0, 6, size)]
        with pytest.raises(DataError, match=message):
            read_labels(parse_columns(pieces, config), config)
    columns = {"y": ["5.1", "no", "6.3", "7"], "z": ["1", "2", "3", "4.5"]}
    with pytest.raises(OpenChoice, match="y: some cells are not numbers, such as 'no'"):
        read(columns)
    columns["y"] = ["no", "5.1", "no", "no"]  # mostly words
    assert read(columns).warnings == (GUESSED,)


@pytest.mark.parametrize("bad", ["2", "0.5", "-1"])
def test_a_yes_no_target_with_other_numbers(bad):
    with pytest.raises(
        DataError,
        match=f"my.csv, line 3, column 'y': '{bad}' is neither 0 nor 1, neither yes nor no, as a "
        "label of a binary target must be",
    ):
        read({"y": ["1", bad, "no", "7"]}, task_type="binary")


def test_few_whole_numbers_are_remarked_on():
    """They may be classes; where they are said to be quantities, nothing is said."""
    columns = {
        "level": ["1", "2", "3", "1"] * 5,
        "y": ["1.5", "2", "3", "1"] * 5,
        "grade": ["5", "", "4", "5"] * 5,
        "active": ["0", "1", "", "1"] * 5,
        "comment": ["mild", "strong", "weak", "strong"] * 5,
    }
    remark = (
        "level, grade: few whole numbers, treated as quantities. If they are classes: "
        "--task-type level=multiclass"
    )
    assert read(columns).warnings == (GUESSED, remark)
    assert read(columns, targets=list(columns)).warnings == (remark,)
    assert read(columns, task_type="regression").warnings == (GUESSED,)
    labels = read(columns, task_type={"level": "multiclass", "grade": "multiclass"})
    assert labels.warnings == (GUESSED,)
    assert read(columns, task_type={"level": "regression"}).warnings == (
        GUESSED,
        remark.removeprefix("level, ").replace("level", "grade"),
    )
    many = {"y": [str(i) for i in range(11)]}
    assert read(many).warnings == (GUESSED,)


# Classes


def test_classes_of_few_rows_are_named():
    """Unless the classes are configured."""
    cells = [*["low"] * 9, *["high"] * 5, *["medium"] * 4, "hihg"]
    remark = (
        "y: classes with fewer than 5 rows: hihg (1), medium (4). A model hardly learns them: "
        "correct wrong spellings, or merge classes."
    )
    assert read({"y": cells}, targets=["y"]).warnings == (remark,)
    assert read({"y": cells}, targets=["y"], classes={"y": sorted({*cells})}).warnings == ()
    many = [f"{i}" for i in range(99)]
    (remark,) = read({"y": many}, targets=["y"], task_type="multiclass").warnings
    assert "rows: 0 (1), 1 (1), 2 (1), 3 (1), 4 (1) and 94 more. A" in remark


def test_words_are_classes_in_their_order():
    labels = read({"y": [" sweet", "bitter ", "sour", "N/A", "bitter"]}, targets=["y"])
    assert labels.kinds == ("multiclass",)
    assert labels.classes == (("bitter", "sour", "sweet"),)
    assert values(labels) == [[2, 0, 1, None, 0]]
    labels = read({"y": ["b", "a", "C", "ä"] * 2}, targets=["y"])
    assert labels.classes == (("C", "a", "b", "ä"),)


@pytest.mark.parametrize(
    ("negative", "positive"),
    [
        ("safe", "toxic"),  # in alphabetical order
        ("N", "Y"),
        ("decoy", "active"),  # as in a column of active and inactive
        ("negative", "weak"),
        ("non-inhibitor", "inhibitor"),
        ("unstable", "stable"),
        ("insoluble", "soluble"),
    ],
)
def test_two_words_are_a_binary_target_with_a_positive_class(negative, positive):
    """It does not depend on their numbers. The classes can be named, and a warning names them
    otherwise."""
    cells = [positive, f"{negative} ", "", positive, negative]
    for kind in (None, {"y": "binary"}):
        for own in (cells, [*reversed(cells)]):
            labels = read({"y": own * 5}, targets=["y"], task_type=kind)
            assert (labels.kinds, labels.classes) == (("binary",), ((negative, positive),))
            assert f"probability of '{positive}'" in labels.warnings[0]
    assert values(read({"y": cells}, targets=["y"])) == [[1, 0, None, 1, 0]]
    named = read({"y": cells * 5}, classes={"y": [positive, negative]})
    assert (named.kinds, named.classes) == (("binary",), ((positive, negative),))
    assert values(named) == [[0, 1, None, 0, 1] * 5]
    assert len(named.warnings) == 1  # the target is guessed
    several = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert several.kinds == ("multiclass",)


def test_a_binary_target_has_two_words():
    words = {"y": ["low", "medium", "high"] * 2}
    with pytest.raises(DataError, match="two classes, found high, low, medium.*y=multiclass"):
        read(words, targets=["y"], task_type="binary")
    with pytest.raises(DataError, match="line 4, column 'y': 'inactve' is not a number"):
        read({"y": ["active", "inactive", "inactve"]}, targets=["y"])


def test_many_words_that_hardly_repeat_are_not_guessed_to_be_classes():
    """They may be names, or numbers badly written; who says they are classes is believed."""
    words = sorted(f"word {i}" for i in range(11))
    for cells in (words[:10], words * 2):
        assert read({"y": cells}, targets=["y"]).classes == (tuple(sorted(set(cells))),)
    cells = words + words[1:]
    with pytest.raises(DataError, match=f"line 2, column 'y': '{words[0]}' is not a number. 21 "):
        read({"y": cells}, targets=["y"])
    labels = read({"y": cells}, targets=["y"], task_type={"y": "multiclass"})
    assert labels.classes == (tuple(words),)
    labels = read({"y": cells}, targets=["y"], classes={"y": words[::-1]})
    assert labels.classes == (tuple(words[::-1]),)


@pytest.mark.parametrize("cell", ["0,5", "1,234", ">1,5", "1.234,5", "13%", "2 days 1:30:00"])
def test_numbers_with_commas_and_other_signs_are_not_guessed_to_be_classes(cell):
    """Few of them repeat in a small table; who says they are classes is believed."""
    other = re.sub(r"\d", "7", cell, count=1)
    cells = [cell, other] * 5
    with pytest.raises(DataError, match=f"line 2, column 'y': '{cell}' is not a number. 10 "):
        read({"y": cells}, targets=["y"])
    labels = read({"y": cells}, targets=["y"], task_type={"y": "multiclass"})
    assert labels.classes == (tuple(sorted({cell, other})),)


@pytest.mark.parametrize("cells", [["yes", "no", "maybe"] * 4, ["1", "2", "high", "high"] * 4])
def test_words_among_numbers_or_yes_and_no_are_mistakes(cells):
    """Until they are said to be classes, which the message does."""
    with pytest.raises(DataError, match="is not a number.* are classes: --task-type y=multiclass"):
        read({"y": cells}, targets=["y"])
    labels = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert labels.classes == (tuple(sorted(set(cells))),)


def test_whole_numbers_as_classes():
    """In the order of their values, not of their spelling, and negative ones first."""
    labels = read({"y": ["10", "2", "-1", "2", "", "7"]}, task_type="multiclass")
    assert labels.classes == (("-1", "2", "7", "10"),)
    assert values(labels) == [[3, 1, 0, 1, None, 2]]


def test_whole_numbers_with_a_decimal_point_are_the_same_class():
    """As pandas writes them where a column has blanks."""
    cells = ["1.0", "1", "", "2.00", "-3.0", "10", "1.5"] * 2
    labels = read({"y": cells}, targets=["y"], task_type="multiclass")
    assert labels.classes == (("-3", "1", "1.5", "2", "10"),)


def test_classes_in_a_given_order():
    """One may be missing from the table; a word that is a blank elsewhere is a class if named."""
    columns = {"y": ["low", "high", "NA", "", "low", "high"]}
    order = ["NA", "low", "medium", "high"]
    labels = read(columns, targets=["y"], classes={"y": order})
    assert labels.kinds == ("multiclass",)
    assert labels.classes == (tuple(order),)
    assert values(labels) == [[1, 3, 0, None, 1, 3]]
    labels = read(columns, targets=["y"])
    assert labels.classes == (("high", "low"),)
    assert values(labels) == [[1, 0, None, None, 1, 0]]


def test_a_class_that_is_not_among_those_given():
    with pytest.raises(
        DataError, match="my.csv, line 4, column 'y': 'Low' is not one of its classes: low, high"
    ):
        read({"y": ["low", "", "Low", "High"]}, targets=["y"], classes={"y": ["low", "high"]})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["a", "", "a"], "column 'y': a multi-class target needs two classes or more, found a"),
        (["", "", "NA"], "column 'y': a multi-class target needs two classes or more, found none"),
    ],
)
def test_too_few_classes(cells, message):
    with pytest.raises(DataError, match=message):
        read({"y": cells}, targets=["y"], task_type="multiclass")


def test_too_many_classes():
    """A column of names or of quantities."""
    words = [f"w{i:04}" for i in range(1200)]
    message = "my.csv, column 'y': 1,200 different values, such as 'w0000'; .* at most 100 classes"
    with pytest.raises(DataError, match=message):
        read({"y": words * 2}, targets=["y"])
    with pytest.raises(DataError, match="101 different values, such as '0'"):
        read({"y": [str(i) for i in range(101)]}, task_type="multiclass")
    labels = read({"y": words[:MAX_CLASSES] * 2}, targets=["y"])
    assert labels.classes == (tuple(words[:100]),)
    assert values(labels) == [[*range(100)] * 2]


def test_classes_of_columns_that_look_like_numbers():
    """Class names imply a target of classes, binary if there are two."""
    columns = {"y": ["2", "0", "1"], "z": ["yes", "no", "no"]}
    labels = read(columns, classes={"y": ["2", "1", "0"], "z": ["yes", "no"]})
    assert labels.kinds == ("multiclass", "binary")
    assert values(labels) == [[0, 2, 1], [0, 1, 1]]


# Weights


def weights(cells: list[str], **settings) -> np.ndarray | None:
    config = DataConfig(table=TABLE, **settings)
    table = table_of({"y": ["1"] * len(cells), "w": cells})
    return read_weights(parse_columns([table], config), config)


def test_weights_are_numbers_and_blanks_1():
    found = weights(["2", "", "0", "0.25", "NA", "1e3"], weight_column="w")
    assert found.tolist() == [2, 1, 0, 0.25, 1, 1000]
    assert weights(["2", "0"]) is None
    assert weights(["", ""], weight_column="w").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "-0.5", "-2"], "my.csv, line 3, column 'w': the weight -0.5 is negative; weights"),
        (["0", "0", "0.0"], "my.csv, column 'w': all weights are 0, so no row would count"),
        (["1", "", "much"], "my.csv, line 4, column 'w': 'much' is not a number. 1 such cell"),
        (["1", "inf", "2"], "line 3, column 'w': 'inf' is not a number.*blank for 1"),
        (["1", "2.5", "yes"], "my.csv, line 4, column 'w': 'yes' is not a number. 1 such cell"),
    ],
)
def test_weights_that_cannot_be_used(cells, message):
    with pytest.raises(DataError, match=message):
        weights(cells, weight_column="w")


def test_a_weight_column_that_is_not_there():
    with pytest.raises(ConfigError, match=r"my.csv has no column 'W'\. Did you mean 'w'\?"):
        weights(["1", "2"], weight_column="W")
