"""Looking through a table: each problem is found where it was planted, and nothing is made up."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from molsepnorm.data.checking.check import check_table, scan_table
from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.errors import DataError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.standardize import protomer_key, standardized

ALKANES = ["C" * length for length in range(2, 22)]
FINE = [(smiles, f"{0.37 * i:.2f}") for i, smiles in enumerate(ALKANES)]
OGB = EncodingSpec(bond_sizes=featurize.SIZES["ogb"].bonds, max_path_length=2)


def _check(path, **settings):
    config = DataConfig(table=path, **settings)
    bonds = featurize.SIZES[config.featurizer].bonds
    return check_table(scan_table(config, EncodingSpec(bonds, max_path_length=2)))


def _found(report, kind):
    found = [finding for finding in report.findings if finding.kind == kind]
    assert len(found) <= 1
    return found[0] if found else None


def _rows(finding):
    return [[place.row for place in group.places] for group in finding.groups]


def test_a_table_without_problems_has_none(write):
    report = _check(write(FINE))
    assert report.problems == ()
    assert (report.rows, report.readable, report.molecules) == (20, 20, 20)
    assert report.atoms == sum(range(2, 22))
    assert report.splits == {"train": 16, "val": 2, "test": 2}
    assert report.findings == ()
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


def test_rows_that_cannot_be_read_are_grouped_by_reason_and_named_by_line(write):
    """Reasons that differ by the number of an atom are one."""
    rows = [*FINE, ("C1CC", 1), ("", 2), ("CC(C)(C)(C)C", 3), ("C1CCCC", 4), ("CCC(C)(C)(C)C", 5)]
    report = _check(write([*rows, ("CC\u2212C", 3), ("CC C", 1), ("c1cccc1", 2)]))
    assert (report.rows, report.readable) == (28, 20)
    found = _found(report, "unreadable")
    assert found.problem
    assert found.count == 8
    assert {group.what: [place.where for place in group.places] for group in found.groups} == {
        "unclosed ring": ["line 22", "line 25"],
        "Explicit valence for atom # 1 C, 5, is greater than permitted": ["line 24", "line 26"],
        "empty SMILES": ["line 23"],
        r"'\u2212' in 'CC−C' is not a SMILES character": ["line 27"],
        "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4": ["line 29"],
        "whitespace inside 'CC C'; if what follows it is a name, give 'CC' alone": ["line 28"],
    }
    assert [place.smiles for place in found.groups[0].places] == ["C1CC", "C1CCCC"]


def test_a_molecule_is_the_same_however_it_is_written(write):
    """Stereoisomers are different molecules."""
    rows = [*FINE, ("OCC", 1), ("CCO ", 1), ("[13CH3]CO", 1), ("c1ccccc1", 2), ("c1ccccc1 ", 2)]
    isomers = ("C[C@H](N)O", "C[C@@H](N)O", "CC(N)O", "C/C=C/C", "C/C=C\\C")
    report = _check(write([*rows, *((smiles, 3) for smiles in isomers)]))
    found = _found(report, "duplicates")
    assert (report.rows, report.molecules, found.count, found.problem) == (30, 27, 2, True)
    assert [(group.what, group.count) for group in found.groups] == [("OCC", 3), ("c1ccccc1", 2)]
    assert _rows(found) == [[20, 21, 22], [23, 24]]
    assert _found(report, "conflicts") is None


@pytest.mark.parametrize(
    ("kind", "one", "other", "conflict"),
    [
        ("regression", "1", "1.0000001", False),  # the sd is about 0.5
        ("regression", "1", "1.00001", True),
        ("binary", "1", "yes", False),
        ("binary", "no", "1", True),
        ("multiclass", "3", "4", True),
    ],
)
def test_numbers_contradict_each_other_beyond_a_share_of_their_sd(
    write, kind, one, other, conflict
):
    rows = [(smiles, i % 2) for i, smiles in enumerate(ALKANES)]
    path = write([*rows, ("CCO", one), ("OCC", other)])
    found = _found(_check(path, task_type=kind, targets=["y"]), "conflicts")
    assert (found is not None) == conflict


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
    assert "column part" in found.text
    assert [group.what for group in found.groups] == ["train and test"]
    assert _rows(found) == [[20, 21]]
    assert report.splits == {"train": 15, "val": 5, "test": 4}


@pytest.mark.parametrize(("inputs", "count"), [([], 1), (["lab"], 0)])
def test_a_split_by_a_column_may_divide_a_molecule_only_if_it_is_an_input(write, inputs, count):
    labs = [
        ("CCO", 1, "a"),
        ("OCC", 1, "b"),
        *((*row, "cdefgh"[i % 6]) for i, row in enumerate(FINE)),
    ]
    settings = {"split_by": "lab", "split": (0.5, 0.25, 0.25), "targets": ["y"]}
    path = write(labs, "smiles,y,lab")
    divided = 0
    for seed in range(5):
        config = {**settings, "feature_columns": inputs, "split_seed": seed}
        report = _check(path, **config)
        splits = load(DataConfig(table=path, **config), OGB).splits
        places = {name for name, part in splits.items() for row in part if row < 2}
        found = _found(report, "leak")
        assert (found.count if found else 0) == count * (len(places) == 2)
        divided += len(places) == 2
    assert divided


def test_a_column_that_names_a_split_and_is_not_used_is_announced(write):
    rows = [(*row, "train", i if i > 1 else row[-1]) for i, row in enumerate(_split_rows())]
    rows[1] = (*rows[1][:-1], "train")
    path = write(rows, "smiles,y,part,same,other")
    lines = [line for line in _check(path).warnings if "--splits-column" in line]
    assert len(lines) == 1 and lines[0].endswith("--splits-column part")
    assert not any(
        "--splits-column" in each for each in _check(path, splits_column="part").warnings
    )


@pytest.mark.parametrize(
    ("cell", "settings"),
    [
        ("high", {}),
        ("2", {"task_type": "binary"}),
        ("0", {"transform": {"y": "log10"}}),
    ],
)
def test_cells_that_are_no_labels_do_not_end_the_check(write, cell, settings):
    """Training stops at the first of them; here each is named, and the others are looked at."""
    labels = [*range(1, 21)] if "transform" in settings else [0, 1] * 10
    labels[3] = labels[7] = cell
    rows = zip(ALKANES, labels, strict=True)
    path = write(rows)
    with pytest.raises(DataError, match="line 5"):
        load(DataConfig(table=path, targets=["y"], **settings), OGB)
    found = _found(_check(path, targets=["y"], **settings), "invalid-labels")
    assert found.problem
    assert found.count == 2
    assert _rows(found) == [[3, 7]]


def test_targets_with_nothing_to_learn(write):
    parts = ["train"] * 10 + ["val"] * 5 + ["test"] * 5
    rows = [
        (smiles, int(i > 9), i % 2, 3, "", part)
        for i, (smiles, part) in enumerate(zip(ALKANES, parts, strict=True))
    ]
    path = write(rows, "smiles,a,b,c,d,part")
    report = _check(path, targets=["a", "b", "c", "d"], splits_column="part")
    found = _found(report, "constant")
    assert found.problem
    assert [group.what for group in found.groups] == [
        *("a: all 10 labels equal in train", "c: all 20 labels equal", "d: no label")
    ]


@pytest.mark.parametrize(
    ("rows", "header", "settings", "kinds", "text"),
    [
        ([("CC", 1), ("CCC", 2)], "smiles,y", {}, ["split"], "too few"),
        ([("C1CC", 1), ("", 2)], "smiles,y", {}, ["unreadable", "constant"], "invalid"),
        ([(*row, -1) for row in FINE], "smiles,y,w", {"weight_column": "w"}, ["weights"], "'-1'"),
        (
            [(*row, "RT" if i == 3 else i / 2) for i, row in enumerate(FINE)],
            "smiles,y,t",
            {"targets": ["y"], "feature_columns": ["t"]},
            ["features"],
            "line 5",
        ),
    ],
)
def test_what_training_refuses_is_a_problem(write, rows, header, settings, kinds, text):
    report = _check(write(rows, header), **settings)
    assert [finding.kind for finding in report.problems] == kinds
    assert text in report.problems[0].text


def test_salts_are_information(write):
    rows = [*FINE, ("CC[O-].[Na+]", 1), ("C.CC.CCC", 1), ("[Cu+2].[Cl-]", 1), ("[Pt+2]", 1)]
    rows += [("C[C@H](O)F |w:1.0|", 1)]  # the point of an extension separates no fragments
    report = _check(write(rows))
    assert report.problems == ()
    found = _found(report, "mixtures")
    groups = {group.what: [place.row for place in group.places] for group in found.groups}
    assert groups == {"2 fragments": [20, 22], "3 fragments": [21]}


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
    far = _found(_check(write([*FINE, ("CCN.Cl", 0), ("CCN", 9)])), "forms")
    assert (far.count, far.options) == (1, {})


@pytest.mark.parametrize(
    ("name", "cells", "transform"),
    [
        ("ic50_nM", [1, 10, 1000], "pic50"),
        ("IC50 (uM)", ["0.01", "<0.005", ">10", "11"], "pic50"),
        ("IC50", [1, 1000], "log10"),
        ("ic50_nM", [1, 10, 999], None),
        ("ic50_nM", [">-1", 1, 1000], None),
    ],
)
def test_numbers_over_three_powers_of_ten_get_the_transform_to_use(write, name, cells, transform):
    rows = [(smiles, cells[i % len(cells)]) for i, smiles in enumerate(ALKANES)]
    path = write(rows, f"smiles,{name}")
    found = _found(_check(path, targets=[name]), "decades")
    assert (found is not None) == (transform is not None)
    if found is not None:
        assert found.options == {"--transform": f"{name}={transform}"}
        learned = DataConfig(table=path, targets=[name], transform=found.options["--transform"])
        assert load(learned, OGB).targets[0].transform.partition(":")[0] == transform
        assert _found(check_table(scan_table(learned, OGB)), "decades") is None


def test_rows_that_differ_in_a_feature_column_or_in_time_are_no_duplicates(write):
    """25 and 25.0 do not differ, and 2021 is its first day."""
    rows = [(smiles, i + t, t, 2000 + t) for i, smiles in enumerate(ALKANES) for t in (25, 37)]
    path = write([*rows, ("C" * 5, 90, "25.0", "2025-01-01")], "smiles,y,t,date")
    assert _found(_check(path, targets=["y"]), "duplicates").count == 20
    for settings in (
        {"feature_columns": ["t"]},
        {"split_type": "time", "time_column": "date"},
    ):
        report = _check(path, targets=["y"], **settings)
        assert _rows(_found(report, "duplicates")) == [[6, 40]]
        assert _found(report, "conflicts").count == 1
        assert report.molecules == 20


def test_a_salt_has_the_key_of_its_parent(datasets):
    """The organic salts and charged molecules among the first 1,500 of Tox21."""
    table = pd.read_csv(datasets / "moleculenet" / "tox21.csv")["smiles"][:1500]
    organic = table[table.str.contains(r"[.+-]") & ~table.str.contains(r"\[[A-Z][a-z]")]
    charged = [text for text in organic if not set(re.findall(r"\[(\w)", text)) - {*"CNOnc"}]
    parents = standardized(charged, "parent")
    assert len(charged) > 30
    for text, parent in zip(charged, parents, strict=True):
        assert protomer_key(text) == protomer_key(parent)
