"""Looking through a table: each problem is found where it was planted, and nothing is made up."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from contextlib import suppress
from itertools import chain

import numpy as np
import pandas as pd
import pytest

from molsepnorm.data.checking.check import check_table
from molsepnorm.data.checking.reading import scan_table
from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, StorageError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.standardize import protomer_key, standardized

ALKANES = ["C" * length for length in range(2, 22)]
FINE = [(smiles, f"{0.37 * i:.2f}") for i, smiles in enumerate(ALKANES)]
OGB = EncodingSpec(bond_sizes=featurize.SIZES["ogb"].bonds, max_path_length=2)


@pytest.fixture
def write(tmp_path):
    """`write(rows, header)` makes my.csv of texts."""

    def make(rows, header="smiles,y", name="my.csv"):
        path = tmp_path / name
        path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
        return path

    return make


def _check(path, **settings):
    return check_table(scan_table(DataConfig(table=path, **settings)))


def _found(report, kind):
    found = [finding for finding in report.findings if finding.kind == kind]
    assert len(found) <= 1
    return found[0] if found else None


def _rows(finding):
    return [[place.row for place in group.places] for group in finding.groups]


def _kinds(findings):
    return [finding.kind for finding in findings]


# --- what is in the table -------------------------------------------------------------------------


def test_a_table_without_problems_has_none(write):
    report = _check(write(FINE))
    assert report.problems == ()
    assert (report.rows, report.readable, report.molecules) == (20, 20, 20)
    assert report.atoms == sum(range(2, 22))
    assert report.splits == {"train": 16, "val": 2, "test": 2}
    assert _kinds(report.information) == ["largest"]
    assert report.warnings


def test_the_numbers_of_each_target(write):
    rows = [("CC", 1, "no", "a"), ("CCC", 2, "yes", "b"), ("CCCC", 6, "", "a"), ("C1CC", 9, 1, "b")]
    report = _check(write(rows, "smiles,y,active,colour"), targets=["y", "active", "colour"])
    y, active, colour = report.targets
    assert (y.name, y.kind, y.labels, y.missing) == ("y", "regression", 3, 0)
    assert (y.mean, y.median, y.min, y.max) == (3, 2, 1, 6)
    assert y.sd == pytest.approx(np.std([1, 2, 6]))
    assert (active.kind, active.labels, active.missing) == ("binary", 2, 1)
    assert active.classes == {"0": 1, "1": 1}
    assert (colour.kind, colour.classes) == ("binary", {"a": 2, "b": 1})
    assert (active.mean, active.max, y.classes) == (None, None, {})


def test_the_targets_that_were_guessed_are_said(write):
    report = _check(write([(*row, i) for i, row in enumerate(FINE)], "smiles,y,id"))
    assert [target.name for target in report.targets] == ["y"]
    assert any("id" in remark for remark in report.warnings)
    assert _check(write(FINE), targets=["y"]).warnings == ()


def test_identifiers_above_a_footer_do_not_look_like_targets(write):
    """An export may end with a line that names its source, in the first column."""
    rows = [(f"0{row}", *cells) for row, cells in enumerate(FINE)]
    report = _check(write([*rows, ("Source: LIMS", "", "")], "ID,smiles,y"))
    assert [target.name for target in report.targets] == ["y"]
    assert _found(report, "nearly-numbers") is None


def test_an_open_choice_of_targets_stops_training(write):
    rows = [(smiles, 0.3 * i, f"{0.7 * (i * i % 7):.1f}") for i, smiles in enumerate(ALKANES)]
    report = _check(write(rows, "smiles,MW,y"))
    assert "Name the targets, such as --targets y" in _found(report, "targets").text
    assert _found(report, "targets").problem
    assert [each.name for each in report.targets] == ["MW", "y"]
    assert _found(_check(write(rows, "smiles,MW,y"), targets=["y"]), "targets") is None


# --- rows that cannot be read ---------------------------------------------------------------------


def test_rows_that_cannot_be_read_are_grouped_by_reason_and_named_by_line(write):
    rows = [*FINE, ("C1CC", 1), ("", 2), ("CC(C)(C)(C)C", 3), ("C1CCCC", 4), ("N(C)(C)(C)(C)C", 5)]
    report = _check(write(rows))
    assert (report.rows, report.readable) == (25, 20)
    found = _found(report, "unreadable")
    assert found.problem
    assert found.count == 5
    assert {group.what: [place.where for place in group.places] for group in found.groups} == {
        "unclosed ring": ["line 22", "line 25"],
        "empty SMILES": ["line 23"],
        "Explicit valence for atom # 1 C, 5, is greater than permitted": ["line 24"],
        "Explicit valence for atom # 0 N, 5, is greater than permitted": ["line 26"],
    }
    assert [place.smiles for place in found.groups[0].places] == ["C1CC", "C1CCCC"]


def test_reasons_that_differ_by_a_number_alone_are_one(write):
    rows = [*FINE, ("CC(C)(C)(C)C", 3), ("CCC(C)(C)(C)C", 3), ("CC C", 1), ("CCN O", 1)]
    groups = _found(_check(write(rows)), "unreadable").groups
    assert [group.count for group in groups] == [2, 2]
    assert groups[0].what == "Explicit valence for atom # 1 C, 5, is greater than permitted"
    assert groups[1].what.startswith("whitespace inside")
    assert "CC" not in groups[1].what


def test_a_character_that_no_smiles_has_is_named(write):
    rows = [*FINE, ("CC\u2212C", 3), ("C\u2212C", 3), ("C~C", 1), ("C'C", 1), ("C O", 2)]
    groups = _found(_check(write(rows)), "unreadable").groups
    assert {group.what: group.count for group in groups} == {
        r"'\u2212' is not a SMILES character": 2,
        "'~' is not a SMILES character": 1,
        "syntax error around character 2": 1,
        "whitespace inside": 1,
    }


@pytest.mark.parametrize("featurizer", ["ogb", "zinc"])
def test_the_rows_called_unreadable_are_those_that_training_leaves_out(write, featurizer):
    """Also those whose atoms the features have no place for."""
    rows = [*FINE, ("C[Si](C)(C)C", 1), ("c1ccccc1", 2), ("C1CC", 3), ("[Na+].[Cl-]", 4)]
    path = write(rows)
    bonds = featurize.SIZES[featurizer].bonds
    dataset = load(
        DataConfig(table=path, featurizer=featurizer), EncodingSpec(bonds, max_path_length=2)
    )
    report = _check(path, featurizer=featurizer)
    assert report.readable == len(dataset.store)
    rejected = [entry.row for entry in dataset.rejected]
    assert sorted(chain(*_rows(_found(report, "unreadable")))) == rejected
    assert {name: len(rows) for name, rows in dataset.splits.items()} == report.splits


def test_a_table_of_nothing_readable_is_still_reported(write):
    report = _check(write([("C1CC", 1), ("", 2)]))
    assert (report.rows, report.readable, report.molecules, report.atoms) == (2, 0, 0, 0)
    assert report.targets[0].labels == 0
    assert _kinds(report.problems) == ["unreadable", "constant"]


# --- repeated molecules ---------------------------------------------------------------------------


def test_a_molecule_is_the_same_however_it_is_written(write):
    rows = [*FINE, ("OCC", 1), ("CCO ", 1), ("[13CH3]CO", 1), ("c1ccccc1", 2), ("c1ccccc1 ", 2)]
    report = _check(write(rows))
    found = _found(report, "duplicates")
    assert (report.rows, report.molecules, found.count, found.problem) == (25, 22, 2, True)
    assert [(group.what, group.count) for group in found.groups] == [("CCO", 3), ("c1ccccc1", 2)]
    assert _rows(found) == [[20, 21, 22], [23, 24]]
    assert "5 rows; 1 with different SMILES" in found.text
    assert _found(report, "conflicts") is None


def test_stereoisomers_are_different_molecules(write):
    rows = [*FINE, ("C[C@H](N)O", 1), ("C[C@@H](N)O", 2), ("CC(N)O", 3), ("C/C=C/C", 4)]
    assert _found(_check(write([*rows, ("C/C=C\\C", 5)])), "duplicates") is None


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("1", "1.0", False),
        ("1", "1.000001", False),  # the sd is about 2
        ("1", "1.00001", True),
        ("1", "", False),
        ("", "", False),
        ("1e6", "2e6", True),
    ],
)
def test_numbers_contradict_each_other_beyond_a_share_of_their_sd(write, one, other, conflict):
    found = _found(_check(write([*FINE, ("CCO", one), ("OCC", other)])), "conflicts")
    assert (found is not None) == conflict


@pytest.mark.parametrize(
    ("kind", "one", "other", "conflict"),
    [
        ("binary", "1", "yes", False),
        ("binary", "no", "1", True),
        ("binary", "", "1", False),
        ("multiclass", "3", "4", True),
        ("multiclass", "3", " 3", False),
    ],
)
def test_classes_contradict_each_other_when_they_differ(write, kind, one, other, conflict):
    rows = [(smiles, i % 2) for i, smiles in enumerate(ALKANES)]
    path = write([*rows, ("CCO", one), ("OCC", other)])
    found = _found(_check(path, task_type=kind, targets=["y"]), "conflicts")
    assert (found is not None) == conflict


def test_contradictions_are_counted_by_molecule_and_the_worst_is_shown(write):
    rows = [(*row, i % 2) for i, row in enumerate(FINE)]
    more = [("CCO", 1, 0), ("OCC", 2, 1), ("CCN", 0, 0), ("NCC", 7, ""), ("NCC", 7, 0)]
    report = _check(write([*rows, *more], "smiles,y,active"))
    found = _found(report, "conflicts")
    assert found.problem
    assert found.count == 2
    y, active = found.groups
    assert (y.count, active.count) == (2, 1)
    assert y.what == f"y, such as '0', '7', {7 / report.targets[0].sd:.2g} sd apart"
    assert active.what == "active, such as '0', '1'"
    assert _rows(found) == [[22, 23, 24], [20, 21]]


# --- splits ---------------------------------------------------------------------------------------


def _split_rows():
    parts = ["train"] * 12 + ["val"] * 4 + ["test"] * 3
    rows = [(*row, part) for row, part in zip(FINE[1:], parts, strict=True)]
    rows.insert(0, ("C1CC", 1, "test"))
    more = [("CCO", 1, "train"), ("OCC", 1, "test"), ("CCN", 1, "train"), ("NCC", 1, "train")]
    return [*rows, *more, ("CCF", 1, "val"), ("FCC", 1, "")]


def test_molecules_on_both_sides_of_a_column_s_split(write):
    """Molecules repeated within one split, or with a row in no split, do not count."""
    report = _check(write(_split_rows(), "smiles,y,part"), splits_column="part")
    found = _found(report, "leak")
    assert found.problem
    assert found.count == 1
    assert "column 'part'" in found.text
    assert [group.what for group in found.groups] == ["train and test"]
    assert _rows(found) == [[20, 21]]
    assert report.splits == {"train": 15, "val": 5, "test": 4}


def test_molecules_on_both_sides_of_a_file_s_split(write, tmp_path):
    path = write([*FINE, ("CCO", 1), ("OCC", 1), ("OCC", 1)])
    file = tmp_path / "splits.json"
    file.write_text(json.dumps([{"train": [0, 1, 20], "val": [2, 3, 21], "test": [4, 22]}]))
    found = _found(_check(path, splits_file=file), "leak")
    assert found.count == 1
    assert sorted(group.what for group in found.groups) == [
        "train and test",
        "train and val",
        "val and test",
    ]
    assert "splits.json" in found.text


@pytest.mark.parametrize("settings", [{}, {"folds": 4, "fold": 1}, {"folds": 4, "test_set": False}])
def test_the_split_that_training_draws_keeps_the_rows_of_a_molecule_together(write, settings):
    path = write([*FINE, *FINE])
    report = _check(path, split_seed=3, **settings)
    splits = load(DataConfig(table=path, split_seed=3, **settings), OGB).splits
    sides = Counter(row for rows in splits.values() for row in {int(row) % 20 for row in rows})
    assert len(sides) == 20 and max(sides.values()) == 1
    assert report.splits == {name: len(rows) for name, rows in splits.items()}
    assert _found(report, "leak") is None


@pytest.mark.parametrize("settings", [{}, {"duplicates": "mean"}, {"splits_column": "part"}])
def test_rows_without_a_label_are_in_no_split_that_is_shown(write, settings):
    rows = [(*row[:1], "" if i % 3 == 0 else i, "train") for i, row in enumerate([*FINE, *FINE])]
    rows[1], rows[2] = (*rows[1][:2], "val"), (*rows[2][:2], "test")
    rows[21], rows[22] = (*rows[21][:2], "val"), (*rows[22][:2], "test")
    path = write(rows, "smiles,y,part")
    splits = load(DataConfig(table=path, targets=["y"], **settings), OGB).splits
    found = _check(path, targets=["y"], **settings).splits
    assert found == {name: len(part) for name, part in splits.items()}


def test_a_column_that_names_a_split_and_is_not_used_is_information(write):
    rows = [(*row, "train", i if i > 1 else row[-1]) for i, row in enumerate(_split_rows())]
    rows[1] = (*rows[1][:-1], "train")
    path = write(rows, "smiles,y,part,same,other")
    found = _found(_check(path), "unused-split")
    assert (found.count, found.problem) == (1, False)
    assert found.groups[0].what == "part: --splits-column part"
    assert _found(_check(path, splits_column="part"), "unused-split") is None


def test_a_split_that_cannot_be_is_a_problem(write):
    report = _check(write([("CC", 1), ("CCC", 2)]))
    assert _kinds(report.problems) == ["split"]
    assert "too few" in report.problems[0].text
    assert report.splits == {}
    odd = _check(write([(*row, "tarin") for row in FINE], "smiles,y,part"), splits_column="part")
    assert _kinds(odd.problems) == ["split"]
    assert "'tarin'" in odd.problems[0].text


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "settings"),
    [
        ("high", {}),
        ("n.d.", {"task_type": "regression"}),
        ("2", {"task_type": "binary"}),
        ("blue", {"task_type": "multiclass", "classes": {"y": ["0", "1"]}}),
        ("Na", {"task_type": "multiclass", "classes": {"y": ["0", "1"]}}),
        (">1", {"task_type": "binary"}),
    ],
)
def test_cells_that_are_no_labels_do_not_end_the_check(write, cell, settings):
    """Training stops at the first of them; here each is named, and the others are looked at."""
    rows = [(smiles, i % 2) for i, smiles in enumerate(ALKANES)]
    rows[3], rows[7] = (ALKANES[3], cell), (ALKANES[7], cell)
    path = write(rows)
    with pytest.raises(DataError, match="line 5"):
        load(DataConfig(table=path, targets=["y"], **settings), OGB)
    report = _check(path, targets=["y"], **settings)
    found = _found(report, "invalid-labels")
    assert found.problem
    assert found.count == 2
    assert found.groups[0].what == f"y: '{cell}'"
    assert _rows(found) == [[3, 7]]
    assert report.targets[0].labels == 18


def test_yes_and_no_among_quantities_do_not_end_the_check(write):
    """They are labels beside 0 and 1 and among classes; see tests/data/datasets/test_labels.py."""
    rows = [(smiles, i + 0.5) for i, smiles in enumerate(ALKANES)]
    rows[3], rows[7] = (ALKANES[3], "inactive"), (ALKANES[7], "Yes")
    for kind in (None, "regression"):
        report = _check(write(rows), targets=["y"], task_type=kind)
        assert _rows(_found(report, "invalid-labels")) == [[3, 7]]
        assert (report.targets[0].kind, report.targets[0].labels) == ("regression", 18)
    assert _rows(_found(_check(write(rows)), "nearly-numbers")) == [[3, 7]]
    rows = [(smiles, ("yes", "no", 2)[i % 3]) for i, smiles in enumerate(ALKANES)]
    report = _check(write(rows), targets=["y"], classes={"y": ["yes", "no", "2"]})
    assert _found(report, "invalid-labels") is None
    report = _check(write(rows), targets=["y"], task_type="binary")
    assert [group.what for group in _found(report, "invalid-labels").groups] == ["y: '2'"]


def test_words_that_may_be_a_third_class_are_named_with_the_option(write):
    words = ("active", "inactive", "inactive", "inconclusive")
    path = write([(smiles, words[i % 4]) for i, smiles in enumerate(ALKANES)])
    option = ". If these are classes: --task-type y=multiclass"
    assert _found(_check(path, targets=["y"]), "invalid-labels").text.endswith(option)
    assert _found(_check(path), "nearly-numbers").text.endswith(option)
    path = write([*FINE, ("CCN", "high")])
    assert "classes" not in _found(_check(path, targets=["y"]), "invalid-labels").text


def test_columns_of_classes_may_have_commas_in_their_names(write):
    cells = ("1", "2", "3", "1", "2", "3", "1", "high")
    rows = [(smiles, cells[i % 8]) for i, smiles in enumerate(ALKANES)]
    found = _found(_check(write(rows, 'smiles,"grade, 1"')), "nearly-numbers")
    assert found.text.endswith("""--set 'data.task_type={"grade, 1": "multiclass"}'""")


def test_spellings_of_one_word_are_a_problem(write):
    """Those of feature columns; NA is a missing value. Classes with two spellings are refused."""
    grades, assays = ("low", "high", "High"), ("fret ", "FRET", "elisa")
    rows = [(smiles, i, assays[i % 3]) for i, smiles in enumerate(ALKANES)]
    settings = {"targets": ["y"], "feature_columns": ["assay"]}
    report = _check(write(rows, "smiles,y,assay"), **settings)
    found = _found(report, "spellings")
    assert found in report.problems and found.count == 1
    assert [group.what for group in found.groups] == ["assay: 'FRET', 'fret'"]
    assert _rows(found) == [[0, 1, 3, 4, 6]]
    rows = [(smiles, i, ("Na", " NA", " high")[i % 3]) for i, smiles in enumerate(ALKANES)]
    assert _found(_check(write(rows, "smiles,y,assay"), **settings), "spellings") is None
    rows = [(smiles, grades[i % 3]) for i, smiles in enumerate(ALKANES)]
    (problem, *_) = _check(write(rows), targets=["y"]).problems
    assert "'High' and 'high' would be two classes" in problem.text


def test_a_time_column_of_numbers_with_two_meanings_is_refused(tmp_path):
    path = tmp_path / "my.csv"
    rows = [f"{smiles};{i}.5;{'1.100' if i else 900}" for i, smiles in enumerate(ALKANES)]
    path.write_text("\n".join(["smiles;y;day", *rows]) + "\n")
    with pytest.raises(DataError, match="column 'day': '1.100' .*may be 1.100 or 1100"):
        _check(path, targets=["y"], split_type="time", time_column="day")


def test_a_column_that_is_no_target_for_a_few_cells_is_named(write):
    """If targets are guessed, such a column would otherwise go unnoticed."""
    rows = [(*row, i if i % 9 else "low", "text") for i, row in enumerate(FINE)]
    path = write(rows, "smiles,y,IC50,name")
    report = _check(path)
    assert [target.name for target in report.targets] == ["y"]
    found = _found(report, "nearly-numbers")
    assert found.problem
    assert [group.what for group in found.groups] == ["IC50: 'low'"]
    assert _rows(found) == [[0, 9, 18]]
    assert _found(_check(path, ignore_columns=["IC50"]), "nearly-numbers") is None
    assert _found(_check(path, targets=["y"]), "nearly-numbers") is None


def test_bounds_are_labels_of_which_the_summary_has_only_the_number(write):
    rows = [(*row, i if i % 9 else "> 100") for i, row in enumerate(FINE)]
    report = _check(write(rows, "smiles,y,IC50"), targets=["IC50"])
    (target,) = report.targets
    assert (target.labels, target.bounds, target.missing) == (20, 3, 0)
    assert (target.min, target.max) == (1, 19)
    assert "3 of 20 labels of IC50 are bounds, such as '> 100'." in report.warnings
    assert _found(report, "invalid-labels") is None
    assert _found(report, "unlabelled") is None


def test_numbers_without_a_logarithm_do_not_end_the_check(write):
    rows = [(smiles, i + 1) for i, smiles in enumerate(ALKANES)]
    rows[3] = (ALKANES[3], 0)
    report = _check(write(rows), targets=["y"], transform={"y": "log10"})
    assert _rows(_found(report, "invalid-labels")) == [[3]]
    assert report.targets[0].min == 0


def test_duplicates_that_training_merges_are_no_problem_and_no_leak(write):
    """The splits are those of training; see tests/data/datasets/test_duplicates.py."""
    rows = [(smiles, i) for i, smiles in enumerate(ALKANES * 2)]
    assert {"duplicates", "conflicts"} <= {f.kind for f in _check(write(rows)).problems}
    report = _check(write(rows), duplicates="mean")
    assert report.problems == ()
    assert "training merges them (--duplicates mean)" in _found(report, "duplicates").text
    assert sum(report.splits.values()) == len(ALKANES)
    dataset = load(DataConfig(table=write(rows), duplicates="mean"), OGB)
    assert {name: len(part) for name, part in dataset.splits.items()} == report.splits


@pytest.mark.parametrize("duplicates", ["keep", "mean"])
def test_a_stratified_split_is_that_of_training(write, duplicates):
    """Also where only a later row of a molecule has its class, and where classes differ."""
    classes = [int(i % 4 == 0) for i in range(len(ALKANES))]
    first = [*zip(ALKANES, classes, [1] * len(ALKANES), strict=True)]
    others = [*first]
    first[3] = (ALKANES[3], "", 1)
    others[7], others[9] = (ALKANES[7], 1 - classes[7], 1), (ALKANES[9], 1 - classes[9], 0)
    path = write(first + others, "smiles,y,weight")
    settings = {"duplicates": duplicates, "split_type": "stratified", "targets": ["y"]}
    config = DataConfig(table=path, weight_column="weight", **settings)
    dataset = load(config, OGB)
    parts = scan_table(config).parts
    assert {name: dataset.store.rows[part].tolist() for name, part in dataset.splits.items()} == {
        name: part.tolist() for name, part in parts.items()
    }


@pytest.mark.parametrize("kind", ["classes", "bounds"])
def test_a_molecule_whose_labels_conflict_is_in_no_drawn_split(write, kind):
    cells = (0, 1) if kind == "classes" else ("<5", ">7")
    rows = [
        *((each, i % 2) for i, each in enumerate(ALKANES[1:])),
        *((ALKANES[0], c) for c in cells),
    ]
    config = DataConfig(table=write(rows), duplicates="mean", targets=["y"])
    dataset = load(config, OGB)
    used = np.concatenate([*dataset.splits.values()])
    assert len(used) == len(ALKANES) - 1
    assert np.isfinite(dataset.labels[used]).all()
    assert "Left out: 1 label of merged rows" in dataset.warnings[-1]
    parts = scan_table(config).parts
    assert {name: dataset.store.rows[part].tolist() for name, part in dataset.splits.items()} == {
        name: part.tolist() for name, part in parts.items()
    }


def test_validation_rows_are_drawn_after_the_rows_of_a_molecule_are_merged(write):
    rows = [(each, i, "test" if i < 5 else "train") for i, each in enumerate(ALKANES)] * 2
    path, settings = write(rows, "smiles,y,part"), {"splits_column": "part", "duplicates": "mean"}
    report = _check(path, **settings)
    assert report.problems == ()
    assert report.splits["test"] == 5 and sum(report.splits.values()) == len(ALKANES)
    dataset = load(DataConfig(table=path, **settings), OGB)
    assert {name: len(part) for name, part in dataset.splits.items()} == report.splits
    leaking = _check(write([*rows, (ALKANES[0], 0, "train")], "smiles,y,part"), **settings)
    assert "leak" in _kinds(leaking.problems)


def test_a_list_of_molecules_without_labels_is_checked_too(write):
    """That there is nothing to learn is said, as the molecules are looked at."""
    report = _check(write([("CCO", "a"), ("OCC", "b")], "smiles,name"))
    assert report.targets == ()
    assert _kinds(report.problems) == ["targets", "split", "duplicates"]
    assert "no column of numbers" in report.problems[0].text


def test_labels_that_training_refuses_are_a_problem(write):
    rows = [(smiles, f"w{i}") for i, smiles in enumerate("C" * n for n in range(1, 150))]
    report = _check(write(rows), targets=["y"])
    assert _kinds(report.problems) == ["targets"]
    assert "'w0' is not a number. 149 such cells" in report.problems[0].text
    weights = _check(write([(*row, -1) for row in FINE], "smiles,y,w"), weight_column="w")
    assert _kinds(weights.problems) == ["weights"]
    assert "negative" in weights.problems[0].text


def test_targets_with_nothing_to_learn(write):
    rows = [(*row, 3, "", i // 10) for i, row in enumerate(FINE)]
    path = write(rows, "smiles,y,same,none,part")
    report = _check(path, targets=["y", "same", "none"])
    found = _found(report, "constant")
    assert found.problem
    assert [group.what for group in found.groups] == [
        "same: all 20 labels equal",
        "none: no label",
    ]


def test_targets_with_nothing_to_learn_or_to_score_in_a_part_of_the_split(write):
    parts = ["train"] * 10 + ["val"] * 5 + ["test"] * 5
    rows = [
        (smiles, int(i > 9), i % 2 if i < 15 else 1, i if i < 15 else "", part)
        for i, (smiles, part) in enumerate(zip(ALKANES, parts, strict=True))
    ]
    report = _check(write(rows, "smiles,a,b,c,part"), splits_column="part")
    constant, unscored = _found(report, "constant"), _found(report, "unscored")
    assert [group.what for group in constant.groups] == ["a: all 10 labels equal in train"]
    assert not unscored.problem
    assert [group.what for group in unscored.groups] == [
        "a: all 5 labels equal in val",
        "a: all 5 labels equal in test",
        "b: all 5 labels equal in test",
        "c: no label in test",
    ]
    named = [(*row[:-1], "val" if row[-1] == "test" else row[-1]) for row in rows]
    report = _check(write(named, "smiles,a,b,c,part"), splits_column="part")
    assert not [each for each in _found(report, "unscored").groups if "in test" in each.what]


def test_labels_far_from_the_others_are_information(write):
    rows = [*FINE, ("CCO", 400), ("CCN", -90)]
    report = _check(write(rows))
    assert report.problems == ()
    found = _found(report, "outliers")
    assert found.count == 2
    assert _rows(found) == [[20, 21]]
    assert found.groups[0].what == "y: 400, -90 (median 3.515)"


def test_rare_labels_among_many_alike_are_not_far_from_the_others(write):
    """A tenth of the labels, in a column of zeros or of no and yes."""
    rows = [(smiles, 0.5 * (i < 2), int(i == 3)) for i, smiles in enumerate(ALKANES)]
    assert _found(_check(write(rows, "smiles,y,active")), "outliers") is None


def test_rows_without_any_label_are_information(write):
    report = _check(write([*FINE, ("CCO", ""), ("CCN", "NA")]))
    found = _found(report, "unlabelled")
    assert (found.count, found.problem, _rows(found)) == (2, False, [[20, 21]])


# --- molecules ------------------------------------------------------------------------------------


def test_salts_single_atoms_rare_elements_and_isotopes_are_information(write):
    rows = [
        *FINE,
        *(("CC[O-].[Na+]", 1), ("C.CC.CCC", 1), ("O", 1), ("[Pt+2]", 1), ("[H+]", 1)),
        *(("C[Se]C", 1), ("c1cc[se]c1", 1), ("[nH]1cccc1", 1), ("*CC", 1), ("[Cu+2].[Cl-]", 1)),
        *(("[2H]C(Cl)(Cl)Cl", 1), ("[CH3:1]Br", 1), ("[13CH3:7]I", 1), ("C[C@H](N)O", 1)),
    ]
    report = _check(write(rows))
    assert report.problems == ()
    found = {finding.kind: finding for finding in report.information}
    assert set(found) == {
        *("mixtures", "charged", "single-atoms", "elements", "forms", "cleared", "largest")
    }
    groups = {
        kind: {group.what: [place.row for place in group.places] for group in finding.groups}
        for kind, finding in found.items()
    }
    assert groups["mixtures"] == {"2 fragments": [20, 29], "3 fragments": [21]}
    assert groups["charged"] == {"": [20, 23, 24, 29]}
    assert groups["single-atoms"] == {"": [22, 23, 24]}
    assert groups["elements"] == {
        "Na": [20], "Pt": [23], "Se": [25, 26], "*": [28], "Cu": [29]
    }  # fmt: skip
    assert groups["cleared"] == {"isotopes": [30, 32], "atom-map numbers": [31, 32]}
    assert (found["elements"].count, found["cleared"].count) == (6, 3)
    assert list(groups["largest"]) == ["21 atoms", "20 atoms", "19 atoms"]


@pytest.mark.parametrize(
    "smiles",
    [
        *("CCO", "c1ccccc1Br", "ClCBr", "[H][H]", "[H+]", "[2H]C", "C[C@@H](O)N", "*c1ccccc1"),
        *("[Cu+2].[O-]S(=O)(=O)[O-]", "c1cc[se]c1", "[nH]1cccc1", "C%12CCCC%12", "[Sn](C)(C)C"),
        *("F[Co-3](F)(F)(F)(F)F", "[Sc+3]", "[Cn]", "N->[Pt](Cl)Cl", "B1OCCO1", "CS(=O)(=O)P"),
    ],
)
def test_atoms_are_those_of_the_graph(write, smiles):
    assert _check(write([(smiles, 1)])).atoms == featurize.get("ogb")(smiles).num_atoms


def test_forms_of_one_compound_are_found_with_the_level_that_makes_them_equal(write):
    """Stereoisomers, constitutional isomers and C-H tautomers are not among them."""
    rows = [
        *FINE,
        *(("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", 1), ("CC(=O)Oc1ccccc1C(=O)O", 2)),
        *(("Oc1ccccn1", 1), ("O=c1cccc[nH]1", 2), ("CCN.Cl", 1), ("CCN", 2)),
        *(("C[C@H](N)O", 1), ("C[C@@H](N)O", 2), ("CC(C)=O", 1), ("CCC=O", 2)),
    ]
    path = write(rows)
    found = _found(_check(path), "forms")
    assert (found.count, found.problem) == (3, False)
    assert {group.what: [place.row for place in group.places] for group in found.groups} == {
        "charged forms, equal with --standardize parent": [20, 21],
        "tautomers, equal with --standardize tautomer": [22, 23],
        "salts, equal with --standardize salts": [24, 25],
    }
    assert found.options == {"--standardize": "tautomer"}
    for level, count in (("salts", 1), ("parent", 2), ("tautomer", 3)):
        report = _check(path, standardize=level)
        assert _found(report, "duplicates").count == count
        rest = _found(report, "forms")
        assert (rest.count if rest else 0) == 3 - count


def test_a_salt_has_the_key_of_its_parent(datasets):
    """The organic salts and charged molecules among the first 1,500 of Tox21."""
    table = pd.read_csv(datasets / "moleculenet" / "tox21.csv")["smiles"][:1500]
    organic = table[table.str.contains(r"[.+-]") & ~table.str.contains(r"\[[A-Z][a-z]")]
    charged = [text for text in organic if not set(re.findall(r"\[(\w)", text)) - {*"CNOnc"}]
    parents = standardized(charged, "parent")
    assert len(charged) > 30
    for text, parent in zip(charged, parents, strict=True):
        assert protomer_key(text) == protomer_key(parent)


# --- bounds and scales ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cells", "transform"),
    [
        ("ic50_nM", [1, 10, 1000], "pic50"),
        ("IC50 (uM)", ["0.01", "<0.005", ">10", "11"], "pic50"),
        ("ki_nm", [1, 1000], "pic50"),
        ("dose_mg", [1, 1000], "log10"),
        ("IC50", [1, 1000], "log10"),
        ("wavelength_nm", [1, 1000], "log10"),
        ("ic50_nM", [1, 10, 999], None),
        ("ic50_nM", [0, 10, 1000], None),
        ("ic50_nM", [">-1", 1, 1000], None),
        ("logS", [-3, 1000], None),
    ],
)
def test_numbers_over_three_powers_of_ten_get_the_transform_to_use(write, name, cells, transform):
    rows = [(smiles, cells[i % len(cells)]) for i, smiles in enumerate(ALKANES)]
    path = write(rows, f"smiles,{name}")
    found = _found(_check(path, targets=[name]), "decades")
    assert (found is not None) == (transform is not None)
    if found is not None:
        assert found.options == {"--transform": f"{name}={transform}"}
        advice = found.groups[0].what.partition("--transform ")[2].partition(", or ")[0]
        assert shlex.split(advice) == [f"{name}={transform}"]
        assert not found.problem
        learned = DataConfig(table=path, targets=[name], transform=found.options["--transform"])
        assert load(learned, OGB).transforms[0].partition(":")[0] == transform
        assert _found(check_table(scan_table(learned)), "decades") is None


def test_bounds_are_counted_by_column_with_what_training_does(write):
    rows = [(*row, ">9" if i % 9 == 0 else i, "<1" if i == 5 else i) for i, row in enumerate(FINE)]
    found = _found(_check(write(rows, "smiles,y,a,b"), targets=["y", "a", "b"]), "bounds")
    assert (found.count, found.problem) == (4, False)
    assert [(group.what, group.count) for group in found.groups] == [("a: '>9'", 3), ("b: '<1'", 1)]
    assert "Training uses them without any option" in found.text


def test_a_column_of_bounds_only_is_a_problem(write):
    path = write([(smiles, ">10" if i % 2 else "<1") for i, smiles in enumerate(ALKANES)])
    found = _found(_check(path), "only-bounds")
    assert found.problem
    assert [(group.what, group.count) for group in found.groups] == [("y: '<1', '>10'", 20)]
    assert _found(_check(write([*FINE, ("CCO", ">1")])), "only-bounds") is None
    dosed = write([(*row, ">5" if i % 2 else "<5") for i, row in enumerate(FINE)], "smiles,y,dose")
    assert _found(_check(dosed), "only-bounds") is not None
    assert _found(_check(dosed, feature_columns=["dose"]), "only-bounds") is None


def test_numbers_with_a_unit_are_named(write):
    rows = [(smiles, f"{i} uM" if i % 9 == 0 else i) for i, smiles in enumerate(ALKANES)]
    for settings, kind in (({}, "nearly-numbers"), ({"targets": ["y"]}, "invalid-labels")):
        found = _found(_check(write(rows), **settings), kind)
        assert "Some cells have a unit" in found.text
    words = [(smiles, "low" if i % 9 == 0 else i) for i, smiles in enumerate(ALKANES)]
    assert "a unit" not in _found(_check(write(words)), "nearly-numbers").text


# --- feature columns ------------------------------------------------------------------------------


def test_rows_that_differ_in_a_feature_column_are_no_duplicates(write):
    """25 and 25.0 do not differ."""
    rows = [(smiles, i + t, t) for i, smiles in enumerate(ALKANES) for t in (25, 37)]
    path = write([*rows, ("C" * 5, 90, "25.0")], "smiles,y,t")
    assert _found(_check(path, targets=["y"]), "duplicates").count == 20
    report = _check(path, targets=["y"], feature_columns=["t"])
    found = _found(report, "duplicates")
    assert _rows(found) == [[6, 40]]
    assert _found(report, "conflicts").count == 1
    assert report.molecules == 20


def test_rows_of_different_times_are_no_duplicates(write):
    """2021 is its first day. The molecules that are in several splits are reported."""
    rows = [
        (smiles, i + t, f"{2000 + i + t}", i % 2)
        for i, smiles in enumerate(ALKANES)
        for t in (0, 1)
    ]
    path = write([*rows, ("C" * 5, 90, "2004-01-01", 1)], "smiles,y,date,pH")
    settings = {"targets": ["y"], "split_type": "time", "time_column": "date"}
    assert _found(_check(path, targets=["y"]), "duplicates").count == 20
    report = _check(path, **settings)
    found = _found(report, "duplicates")
    assert _rows(found) == [[7, 40]] and "2 rows with equal times; 0" in found.text
    assert _found(report, "conflicts").count == 1
    assert "time, column 'date'" in _found(report, "leak").text
    found = _found(_check(path, **settings, feature_columns=["pH"]), "duplicates")
    assert _rows(found) == [[7, 40]] and "equal feature columns and times" in found.text


def test_a_feature_column_that_training_refuses_is_a_problem(write):
    path = write([(*row, "" if i == 3 else 25) for i, row in enumerate(FINE)], "smiles,y,t")
    report = _check(path, targets=["y"], feature_columns=["t"])
    assert _kinds(report.problems) == ["features"]
    assert "line 5" in report.problems[0].text


# --- the whole ------------------------------------------------------------------------------------


def test_many_of_a_kind_are_counted_and_the_first_are_named(write):
    rows = [("C" * (2 + i % 15), i) for i in range(150)]
    report = _check(write(rows))
    found = _found(report, "duplicates")
    assert found.count == 15
    assert len(found.groups) == 10
    assert {group.count for group in found.groups} == {10}
    assert _rows(found) == [[i, i + 15, i + 30, i + 45, i + 60] for i in range(10)]
    assert _rows(_found(report, "largest")) == [[14], [13], [12]]


def test_the_report_is_plain_json(write):
    report = _check(write([*FINE, ("C1CC", 1), ("CCO", ""), ("OCC", 3), ("CCO", 4)]))
    again = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert again["rows"] == 24
    assert [finding["kind"] for finding in again["findings"]] == _kinds(report.findings)
    assert again["findings"][0]["groups"][0]["places"] == [
        {"row": 20, "where": "line 22", "smiles": "C1CC"}
    ]
    assert set(report.problems) | set(report.information) == set(report.findings)


def test_a_place_in_an_sdf_is_a_molecule(write):
    path = write([("C1CC a",), ("CCO b",)], "CC c", name="my.smi")
    found = _found(_check(path, split=None), "unreadable")
    assert [place.where for place in found.groups[0].places] == ["line 2"]


def test_the_table_is_not_touched(write, tmp_path, tree):
    path = write([*FINE, ("C1CC", 1), *FINE])
    before = tree(tmp_path)
    _check(path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"smiles_column": "smile"},
        {"targets": ["z"]},
        {"ignore_columns": ["z"]},
        {"weight_column": "z"},
        {"feature_columns": ["z"]},
        {"splits_column": "z"},
    ],
)
def test_a_missing_column_is_an_error(write, settings):
    with pytest.raises(ConfigError, match="has no column '(z|smile)'"):
        _check(write(FINE), **settings)


@pytest.mark.parametrize(
    "settings",
    [{"task_type": {"z": "binary"}}, {"classes": {"z": ["a", "b"]}}, {"targets": ["y", "y"]}],
)
def test_settings_that_fit_no_target_are_an_error(write, settings):
    with pytest.raises(ConfigError):
        _check(write(FINE), **settings)


def test_a_file_that_is_no_table_is_an_error(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        _check(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="empty"):
        _check(tmp_path / "empty.csv")


# --- real tables ----------------------------------------------------------------------------------


def test_esol_has_eleven_molecules_twice_and_six_with_two_solubilities(datasets):
    report = _check(datasets / "moleculenet" / "esol.csv", splits_column="scaffold_split")
    assert (report.rows, report.readable, report.molecules) == (1128, 1128, 1117)
    assert {finding.kind: finding.count for finding in report.problems} == {
        "conflicts": 6,
        "duplicates": 11,
    }


def test_tox21_has_eight_rows_that_cannot_be_read(datasets):
    report = _check(datasets / "moleculenet" / "tox21.csv", split=None)
    assert (report.rows, report.readable) == (7831, 7823)
    assert _found(report, "unreadable").groups[0].what.startswith("Explicit valence for atom")
    assert [target.labels + target.missing for target in report.targets] == [7823] * 12


def test_atoms_of_real_molecules_are_those_of_their_graphs(datasets, tmp_path):
    """With counterions, metals and charges: every tenth of Tox21."""
    with open(datasets / "moleculenet" / "tox21.csv") as file:
        lines = [next(file), *list(file)[::10]]
    path = tmp_path / "tenth.csv"
    path.write_text("".join(lines))
    ogb, atoms = featurize.get("ogb"), 0
    for line in lines[1:]:
        with suppress(InvalidMolecule):
            atoms += ogb(line.partition(",")[0]).num_atoms
    assert _check(path, split=None).atoms == atoms > 10_000
