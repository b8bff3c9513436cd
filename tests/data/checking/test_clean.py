"""A cleaned copy has none of the problems, and nothing of its source is lost."""

from __future__ import annotations

import csv
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.data.checking.check import check_table, scan_table
from molsepnorm.data.checking.clean import clean_table, write_clean
from molsepnorm.data.datasets import DataConfig
from tests.data.checking.test_check import OGB

FINE = [(f"{'C' * length}F", f"{0.5 * length:g}") for length in range(1, 21)]  # their sd is 2.9
FIXED = {"unreadable", "invalid-labels", "conflicts", "duplicates", "leak"}


def _clean(path, **settings):
    return clean_table(scan_table(DataConfig(table=path, **settings), OGB))


def _rows(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def _merged(clean, name="y"):
    """The cells of the last molecule, which the tests repeat."""
    assert len(clean.table) == len(FINE) + 1
    return clean.table[name].iloc[-1]


def test_unreadable_rows_are_removed_and_cells_that_are_no_labels_emptied(write, tmp_path):
    """Both are listed, with the cell of the source. Another folder is made."""
    path = write([FINE[0], ("C1CC", "7"), *FINE[1:], ("", "8"), ("CCO", "high"), ("OCC", "3")])
    copy = tmp_path / "deep" / "copy.csv"
    removed = tmp_path / "deep" / "copy.removed.csv"
    write_clean(_clean(path, targets=["y"]), copy, removed)
    assert _rows(copy) == [["smiles", "y"], *map(list, FINE), ["CCO", "3"]]
    header, *rows = _rows(removed)
    assert header == ["row", "where", "what", "reason", "smiles", "y"]
    assert rows[:2] == [
        ["1", "line 3", "removed", "RDKit cannot read 'C1CC': unclosed ring", "C1CC", "7"],
        ["21", "line 23", "removed", "empty SMILES", "", "8"],
    ]
    assert rows[2][:3] == ["22", "line 24", "changed"] and rows[2][-1] == "high"


def test_repeated_molecules_become_the_first_of_them(write):
    """In its place and as it is written; the others are listed, whether written alike or not."""
    path = write([("OCC", "1"), *FINE, ("CCO", "1.0"), ("OCC ", "")])
    clean = _clean(path)
    assert clean.table["smiles"].tolist() == ["OCC", *(smiles for smiles, _ in FINE)]
    assert clean.table["y"].tolist() == ["1", *(y for _, y in FINE)]
    assert [change[:3] for change in clean.changes] == [
        (21, "line 23", "removed"),
        (22, "line 24", "removed"),
    ]
    assert clean.changes[0].reason == "the same molecule as line 2, OCC, written in another way"
    assert clean.changes[1].reason == "the same molecule as line 2"


def test_blanks_are_filled_from_the_next_row_that_has_the_cell(write):
    """In every column; what the first row has stays."""
    path = write(
        [
            *((*row, "", "") for row in FINE),
            ("CCO", "", "", "first"),
            ("OCC", "NA", "", "second"),
            ("C(C)O", "4.50", "seen", "third"),
        ],
        "smiles,y,note,name",
    )
    clean = _clean(path)
    assert clean.table.iloc[-1].tolist() == ["CCO", "4.50", "seen", "first"]
    assert clean.differing == {"note": 0, "name": 1}
    (change,) = [change for change in clean.changes if change.what == "changed"]
    assert change.row == 20
    assert change.reason == "merged with line 23, line 24; y: 4.50 (NA, 4.50); note: seen (seen)"


@pytest.mark.parametrize(
    ("rows", "label", "weight"),
    [
        ([("", 0), ("7.5", 3)], "7.5", "3"),
        ([("7.5", ""), ("", 9), ("7.2", 2)], "7.3", "1.5"),
        ([("", 4), ("", 2)], "", "3"),
        ([("900", 0), ("7.5", 2)], "7.5", "2"),
    ],
)
def test_the_weight_is_that_of_the_rows_with_labels(write, rows, label, weight):
    """A label of weight 0 would count with the mean weight of rows that have no label."""
    path = write([*((*row, 1) for row in FINE), *(("CCO", *row) for row in rows)], "smiles,y,w")
    clean = _clean(path, targets=["y"], weight_column="w")
    assert (_merged(clean), _merged(clean, "w")) == (label, weight)


@pytest.mark.parametrize(
    ("cells", "merged"),
    [
        (["3.10", "3.1"], "3.10"),  # they agree
        (["1", "", "2"], "1.5"),
        (["", "NA"], ""),
        ([">5", ">7"], ">7"),
        (["<5", ">7"], ""),
    ],
)
def test_contradicting_numbers_become_their_mean(write, cells, merged):
    """The tightest bound remains unless there is a number. Classes that differ become a blank, and
    means of transformed labels are in the unit of the table."""
    clean = _clean(write([*FINE, *(("CCO", cell) for cell in cells)]))
    assert _merged(clean) == merged
    rows = [(smiles, i % 2) for i, (smiles, _) in enumerate(FINE)]
    for classes, kept in ((("1", "0"), ""), (("yes", "1"), "yes")):
        path = write([*rows, *(("CCO", cell) for cell in classes)])
        assert _merged(_clean(path, task_type="binary", targets=["y"])) == kept
    rows = [(smiles, 10 ** float(y)) for smiles, y in FINE]
    clean = _clean(write([*rows, ("CCO", "10"), ("OCC", "40")]), transform={"y": "log10"})
    assert _merged(clean) == "20"


def test_a_molecule_in_two_named_splits_stays_in_the_later_one(write):
    """With its own label: labels of different splits are never merged."""
    parts = ["train"] * 12 + ["val"] * 4 + ["test"] * 4
    rows = [(*row, part) for row, part in zip(FINE, parts, strict=True)]
    last = [("CCO", "1", "training"), ("OCC", "1.4", "test"), ("C(C)O", "1.6", "test")]
    path = write([*rows, *last], "smiles,y,part")
    clean = _clean(path, splits_column="part")
    assert clean.table.iloc[-1].tolist() == ["OCC", "1.5", "test"]
    assert len(clean.table) == len(FINE) + 1
    (reason,) = (change.reason for change in clean.changes if change.where == "line 22")
    assert reason == "the same molecule as line 23, in the split test"


CELLS = st.sampled_from(["", "1", "2", "2.4", "9", "0", "yes", "NA", ">5"])
SMILES = st.sampled_from(["CCO", "OCC", "c1ccccc1", "C1=CC=CC=C1", "C1CC", "", "[13CH3]CO", "CN"])


@pytest.mark.claim(
    "Cleaning a table loses nothing and leaves no problem of the kinds that it fixes."
)
@given(
    rows=st.lists(st.tuples(SMILES, CELLS, CELLS, st.sampled_from(["", "a", "b"])), max_size=12),
    named=st.booleans(),
)
def test_the_copy_has_no_problem_that_was_fixed_and_nothing_is_lost(tmp_path_factory, rows, named):
    """Rows that differ from the source are listed; columns and the order of rows are preserved, and
    cleaning the copy again changes nothing."""
    folder = tmp_path_factory.mktemp("clean")
    path, copy, removed = (folder / name for name in ("my.csv", "copy.csv", "removed.csv"))
    table = [["smiles", "y", "note", "name"], *([*row, "", ""] for row in FINE), *map(list, rows)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(table)
    settings = {"targets": ["y"]} if named else {}
    clean = _clean(path, **settings)
    write_clean(clean, copy, removed)
    copied, listed = _rows(copy), _rows(removed)

    report = check_table(scan_table(DataConfig(table=copy, **settings), OGB))
    assert not {finding.kind for finding in report.problems} & FIXED
    assert _clean(copy, **settings).changes == ()

    assert copied[0] == table[0]
    assert len(copied) + clean.removed == len(table)
    for row in listed[1:]:
        assert row[4:] == table[1 + int(row[0])]
    touched = {int(row[0]): row[2] for row in listed[1:]}
    kept = [row for number, row in enumerate(table[1:]) if touched.get(number) != "removed"]
    assert [row[0] for row in copied[1:]] == [row[0] for row in kept]
    untouched = [row for number, row in enumerate(table[1:]) if number not in touched]
    assert not Counter(map(tuple, untouched)) - Counter(map(tuple, copied[1:]))


def test_the_copy_of_a_real_table_has_no_problem(datasets, tmp_path):
    """ESOL has eleven molecules twice, six of them with two solubilities."""
    path, output = datasets / "moleculenet" / "esol.csv", tmp_path / "copy.csv"
    report = check_table(scan_table(DataConfig(table=path), OGB))
    assert [each.count for each in report.problems] == [6, 11]  # conflicts and duplicates
    clean = _clean(path)
    assert (clean.removed, clean.changed) == (11, 6)
    write_clean(clean, output, tmp_path / "removed.csv")
    assert check_table(scan_table(DataConfig(table=output), OGB)).problems == ()


def test_columns_of_one_name_and_carriage_returns_are_kept(tmp_path):
    """As they are; a molecule's blanks are filled column by column."""
    path = tmp_path / "my.csv"
    rows = [[*row, "a\rb", "", "c"] for row in FINE] + [[*FINE[0], "", "d\r\n", " e"]]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["smiles", "y", "note", "note", "note.1"], *rows])
    removed = tmp_path / "copy.removed.csv"
    write_clean(_clean(path), tmp_path / "copy.csv", removed)
    rows[0][3] = "d\r\n"
    assert _rows(tmp_path / "copy.csv") == [["smiles", "y", "note", "note", "note.1"], *rows[:-1]]
    assert _rows(removed)[0][4:] == ["smiles", "y", "note", "note", "note.1"]
    assert [row[4:] for row in _rows(removed)[2:]] == [rows[-1]]
    for written in (tmp_path / "copy.csv", removed):
        table = pd.read_csv(written, dtype=object, na_filter=False, header=None)
        assert table.to_numpy().tolist() == _rows(written)


def test_marked_numbers_are_read_and_listed(write):
    marked = [
        ("CCO", "45*"),
        ("OCC", "55"),
        ("CCN", "12.3 ± 0.4"),
        ("CCS", "> 10 000"),
        ("CCP", "?"),
    ]
    clean = _clean(write([*FINE, *marked]), targets=["y"])
    assert clean.table["y"].tolist()[len(FINE) :] == ["50", "12.3", ">10000", ""]
    assert (clean.merged["marked"], clean.merged["invalid"]) == (3, 1)
    assert clean.source["y"].tolist()[len(FINE) :] == [cell for _, cell in marked]
    listed = {change.row: change.reason for change in clean.changes}
    assert "'45*' is read as 45" in listed[len(FINE)]


def test_means_have_the_decimal_mark_of_the_table(write, tmp_path):
    """1.125 would be read as 1125 beside decimal commas."""
    rows = [(smiles, y.replace(".", ","), "1") for smiles, y in FINE]
    path = write([*rows, ("CCO", "1,0", "0,5"), ("OCC", "1,25", "0,5")], "smiles,y,w")
    settings = {"targets": ["y"], "weight_column": "w", "decimal": ","}
    write_clean(_clean(path, **settings), tmp_path / "copy.csv", tmp_path / "removed.csv")
    assert _rows(tmp_path / "copy.csv")[-1] == ["CCO", "1,125", "0,5"]
    assert _clean(tmp_path / "copy.csv", **settings).changes == ()
