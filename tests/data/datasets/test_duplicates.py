"""Rows of the same molecule: merged labels, their spread, splits, and what is listed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.data.datasets.duplicates import molecule_numbers
from molsepnorm.data.datasets.memory import label_table, memory_dataset
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import get
from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.training.preparing import shared_molecules
from support import spelling

ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)
ALKANES = ["C" * length for length in range(2, 22)]
ETHANOL = ("CCO", "OCC", "C(O)C")


@pytest.fixture
def read(tmp_path):
    """`read(rows, header)`: the data set of 20 alkanes, labelled 1 to 20, and these rows."""

    def make(rows, header="smiles,y", **settings):
        others = header.split(",")[2:]
        parts = ["train"] * 16 + ["val"] * 2 + ["test"] * 2
        alkanes = [
            (text, i + 1, *(parts[i] if name == "part" else 1 for name in others))
            for i, text in enumerate(ALKANES)
        ]
        lines = [header, *(",".join(map(str, row)) for row in [*alkanes, *rows])]
        path = tmp_path / "my.csv"
        path.write_text("\n".join(lines) + "\n")
        settings = {"targets": ["y"], "featurizer": "zinc", "duplicates": "mean", **settings}
        return load(DataConfig(table=path, **settings), ZINC)

    return make


def _labels(dataset) -> list:
    """The labels of the rows after the alkanes, None for NaN."""
    return [None if np.isnan(label) else label for label in dataset.labels[20:, 0].tolist()]


def _rows(*labels) -> list:
    return [(smiles, label) for smiles, label in zip(ETHANOL, labels, strict=False)]


def test_the_first_row_gets_the_mean_and_the_others_are_listed(read):
    dataset = read([("CCO", 1), ("CCN", 7), ("OCC", 4), ("C(O)C", "")])
    assert _labels(dataset) == [2.5, 7, None, None]
    assert [each[::3] for each in dataset.merged] == [(22, 20), (23, 20)]
    line = "my.csv, line 22, which has the merged labels"
    assert all(each.reason.endswith(line) for each in dataset.merged)
    assert dataset.warnings == ("Merged: 3 rows of 1 molecule with more than one row.",)
    assert dataset.molecules.tolist() == list(range(22))
    assert dataset.rejected == ()


def test_the_mean_is_weighted(read):
    """By the rows' weights, whose mean is that of the merged row. A row without a label has no part
    in it."""
    rows = [("CCO", 1, 3), ("CCN", 7, 2), ("OCC", 5, 1), ("NCC", 9, 2), ("OCC", "", 9)]
    dataset = read(rows, "smiles,y,w", weight_column="w")
    assert _labels(dataset) == [2.0, 8.0, None, None, None]
    assert dataset.weights[20:22].tolist() == [2.0, 2.0]


def test_labels_of_rows_of_weight_0_do_not_count(read):
    rows = [("CCO", ">10", 1), ("OCC", 2, 0), ("CCN", 500, 0), ("NCC", 5, 1), ("CCF", 3, 0)]
    dataset = read([*rows, ("FCC", "", 1)], "smiles,y,w", weight_column="w")
    assert _labels(dataset) == [10, None, 5, None, None, None]
    assert dataset.bounds[20:, 0].tolist() == [1, 0, 0, 0, 0, 0]
    assert dataset.weights[[20, 22]].tolist() == [1, 1]
    assert 24 not in np.concatenate([*dataset.splits.values()])
    assert dataset.repeats == {}


def test_the_pooled_standard_deviation_is_that_of_the_formula(read):
    """sqrt(sum of (n - 1) variance / sum of (n - 1)) over the molecules with several labels."""
    rows = [*_rows(1, 2, 6), ("CCN", 3.5), ("NCC", 3), ("CCF", 9), ("FCC", "")]
    dataset = read(rows)
    variances = [(2, np.var([1, 2, 6], ddof=1)), (1, np.var([3.5, 3], ddof=1))]
    expected = np.sqrt(sum(n * v for n, v in variances) / 3)
    assert dataset.repeats.keys() == {"y"}
    assert dataset.repeats["y"] == {"molecules": 2, "sd": pytest.approx(expected)}
    assert dataset.about_labels(dataset.splits) == {"y": {"repeats": dataset.repeats["y"]}}


@pytest.mark.parametrize(
    ("cells", "label", "bound"),
    [
        (("1", ">5"), 1, 0),
        ((">5", "1", "2"), 1.5, 0),
        ((">5", ">7"), 7, 1),
        (("<5", "<7", ""), 5, -1),
        (("<5", ">7"), None, 0),
        (("", ">7"), 7, 1),
    ],
)
def test_of_bounds_the_tightest_counts_unless_there_is_a_number(read, cells, label, bound):
    dataset = read(_rows(*cells))
    assert _labels(dataset)[0] == label
    assert dataset.bounds[20:, 0].tolist() == [bound] + [0] * (len(cells) - 1)
    assert dataset.warnings[-1].startswith("Left out: 1 label") == (label is None)
    assert dataset.repeats.keys() == ({"y"} if cells[0] == ">5" and label == 1.5 else set())


def test_the_split_is_drawn_after_merging(read):
    """No molecule is in two splits, and merged rows are listed in the split of their molecule."""
    rows = [(smiles, i) for i, smiles in enumerate(ALKANES * 2)]
    dataset = read(rows)
    assert shared_molecules(dataset) == 0
    assert sorted(np.concatenate(list(dataset.splits.values()))) == list(range(20))
    listed = dataset.split_rows()
    for name, part in dataset.splits.items():
        assert listed[name] == sorted(i + 20 * k for i in part.tolist() for k in range(3))
    kept = read(rows, duplicates="keep")
    assert shared_molecules(kept) == 0
    assert kept.molecules.tolist() == list(range(60))


def test_validation_molecules_are_drawn_after_merging(read):
    """Rows of a molecule in the training split do not become training and validation rows."""
    smiles = [*ALKANES, *ALKANES]
    splits = {"train": [*range(18), *range(20, 38)], "test": [18, 19, 38, 39]}
    config = DataConfig(in_memory=True, targets=["y"], featurizer="zinc", duplicates="mean")
    y = label_table([*range(40)], ["y"])
    dataset = memory_dataset(smiles, y, config, ZINC, splits=splits)
    assert shared_molecules(dataset) == 0
    assert [len(part) for part in dataset.splits.values()] == [16, 2, 2]
    config = config.model_copy(update={"duplicates": "keep"})
    dataset = memory_dataset(smiles, y, config, ZINC, splits=splits)
    assert [len(part) for part in dataset.splits.values()] == [32, 4, 4]


def test_molecules_in_memory_are_merged_too():
    smiles = [*ALKANES, *ETHANOL]
    y = label_table([*range(20), 1.0, 2.0, 6.0], ["y"])
    config = DataConfig(in_memory=True, targets=["y"], featurizer="zinc", duplicates="mean")
    assert _labels(memory_dataset(smiles, y, config, ZINC)) == [3, None, None]
    splits = {"train": range(18), "val": [18, 20], "test": [19, 21]}
    with pytest.raises(DataError, match="molecule 21 is in test, and the same molecule is in val"):
        memory_dataset(smiles, y, config, ZINC, splits=splits)
    graphs = [get("zinc")(text) for text in smiles]
    with pytest.raises(ConfigError, match="duplicates: mean needs SMILES or RDKit molecules"):
        memory_dataset(graphs, y, config, ZINC)


# Which rows are one molecule

OGB = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
MOLECULES = [
    *("CCO", "CC(C)O", "CCCO", "c1ccccc1O", "Cc1ccccc1", "CC(=O)O", "C[C@H](F)O", "C[C@@H](F)O"),
    *("[Na+].[Cl-]", "CC#N", "C1CCCCC1", "c1ccncc1", "O=C=O", "F/C=C/F", r"F/C=C\F", "CNC"),
]


@pytest.fixture
def loaded(tmp_path):
    """`loaded(smiles, splits)` loads a table with these rows."""

    def make(smiles: list[str], splits: list[str]):
        table = tmp_path / "my.csv"
        rows = zip(smiles, range(len(smiles)), splits, strict=True)
        table.write_text("smiles,y,split\n" + "".join(f"{s},{y},{p}\n" for s, y, p in rows))
        return load(DataConfig(table=table, targets=["y"], splits_column="split"), OGB)

    return make


@pytest.mark.parametrize("seed", range(3))
def test_the_count_equals_a_comparison_of_all_canonical_smiles(loaded, seed):
    """Enantiomers and E/Z isomers are different molecules; blank splits do not count."""
    rng = np.random.default_rng(seed)
    chosen = [str(each) for each in rng.choice(MOLECULES, 30)]
    splits = ["train", "train", "val", "test", *rng.choice(["train", "val", "test", ""], 26)]
    dataset = loaded([spelling(each, seed + i) for i, each in enumerate(chosen)], splits)
    where: dict[str, set[str]] = {}
    for text, split in zip(chosen, splits, strict=True):
        if split:
            where.setdefault(canonical_smiles(text), set()).add(split)
    expected = sum(len(each) > 1 for each in where.values())
    assert expected > 0
    assert shared_molecules(dataset) == expected
    assert shared_molecules(replace(dataset, smiles=None)) is None


ISOMERS = [
    *("c1ccccc1-c1ccccn1", "c1ccccc1-c1cccnc1", "c1ccccc1-c1ccncc1"),
    *("Cc1ccc(F)cc1Cl", "Cc1ccc(Cl)cc1F", "CC(N)CO", "CC(O)CN", "CCO", "COC"),
]


@pytest.mark.parametrize("with_smiles", [True, False])
def test_isomers_with_the_same_atoms_and_bonds_have_different_numbers(loaded, with_smiles):
    """The path between two atoms is hashed together with them."""
    dataset = loaded(
        [*ISOMERS, *map(spelling, ISOMERS, range(len(ISOMERS)))], ["train", "val", "test"] * 6
    )
    dataset = dataset if with_smiles else replace(dataset, smiles=None)
    first, second = dataset.molecule_ids[: len(ISOMERS)], dataset.molecule_ids[len(ISOMERS) :]
    assert len(np.unique(first)) == len(ISOMERS)
    np.testing.assert_array_equal(first, second)


def test_texts_that_are_no_smiles_are_compared_as_they_are(loaded, monkeypatch):
    """Featurisers of other packages read other texts, such as sequences."""
    dataset = loaded(["CCO"] * 6, ["train", "train", "val", "test", "test", "train"])
    texts = ["VKAKLG", "VKAKLG", "GAV", "VKAKLG", "OCC", "CCO"]
    dataset = replace(dataset, smiles=texts)
    numbers = molecule_numbers(dataset).tolist()
    assert numbers == [0, 0, 2, 0, 4, 4]
    assert shared_molecules(dataset) == 2
