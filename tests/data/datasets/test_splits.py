"""Splits: named by a column or a file, or drawn; and every way in which that can go wrong."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from rdkit.ML.Cluster import Butina

from molsepnorm.data.datasets import DataConfig, splitters
from molsepnorm.data.datasets.columns import Columns, Qualifiers
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.memory import label_table, memory_dataset
from molsepnorm.data.datasets.splits import strata_of, with_splits
from molsepnorm.data.datasets.splitters import butina_clusters, read_times, split_by_time
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules import fragments
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.fingerprints import morgan_matrix
from molsepnorm.tasks import Target
from support import similarities

TABLE = Path("my.csv")
TYPES = ("random", "scaffold", "scaffold-ogb")
ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)


class Store:
    """The rows of a store, without molecules."""

    def __init__(self, rows, count):
        self.rows, self.rejected = rows, [None] * (count - len(rows))

    def __len__(self):
        return len(self.rows)


def make(smiles, rows=None, column=None, molecules=None, strata=None, **settings):
    """Return the splits of a table with these SMILES; the store has all rows, or `rows`. All rows
    are different molecules, or those with these numbers. Strata are classes."""
    config = DataConfig(table=TABLE).model_copy(update=settings)
    rows = np.arange(len(smiles)) if rows is None else np.array(rows)
    labels, targets = np.zeros((len(rows), 1)), (Target("y", "binary"),)
    if strata is not None:
        labels, targets = strata[:, None] * 1.0, (Target("y", "multiclass", classes=("a", "b")),)
    dataset = Dataset("my", Store(rows, len(smiles)), labels, targets, {}, smiles=smiles)
    dataset.__dict__["molecule_ids"] = np.arange(len(rows)) if molecules is None else molecules
    cells = [""] * len(smiles) if column is None else column
    frame = pd.DataFrame({config.column_of_split or "part": cells, "smiles": smiles}, dtype=object)
    table = Columns(frame.set_axis(range(2, len(frame) + 2)), config, None, Qualifiers())
    return with_splits(dataset, table).splits


def feasible(smiles, **settings):
    """Skip the example if OGB's split leaves a part empty."""
    try:
        return make(smiles, **settings)
    except DataError:
        assert settings["split_type"] == "scaffold-ogb"
        reject()


def alkanes(count: int) -> list[str]:
    return ["C" * (i + 1) for i in range(count)]


def rings(sizes) -> list[str]:
    """Return molecules with scaffolds of these sizes: two rings, and a tail that grows."""
    scaffolds = [f"C1{'C' * (k % 8 + 1)}C1{'C' * (k // 8)}C1CC1" for k in range(len(sizes))]
    order = sorted((i, k) for k, size in enumerate(sizes) for i in range(size))
    return ["C" * (i + 1) + scaffolds[k] for i, k in order]


def scaffold_of(smiles: str) -> str:
    """Return the scaffold of a molecule of `rings` without RDKit."""
    return smiles.partition("1")[2]


def listed(splits) -> dict[str, list[int]]:
    return {split: indices.tolist() for split, indices in splits.items()}


def everything(splits) -> list[int]:
    return sorted(chain.from_iterable(listed(splits).values()))


@pytest.fixture(scope="module", autouse=True)
def _remember_scaffolds():
    """The molecules are repeated many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fragments, "murcko_scaffold", cache(fragments.murcko_scaffold))
        yield


@st.composite
def tables(draw) -> list[str]:
    """Molecules of a few common scaffolds and many rare ones."""
    common = draw(st.lists(st.integers(2, 40), max_size=5))
    return rings([*common, *[1] * draw(st.integers(20, 60))])


draws = st.fixed_dictionaries(
    {
        "split_type": st.sampled_from(TYPES),
        "split_seed": st.integers(0, 2**32),
        "split": st.sampled_from([(0.8, 0.1, 0.1), (0.6, 0.2, 0.2), (0.5, 0.2, 0.3)]),
    }
)


random_draws = draws.filter(lambda settings: settings["split_type"] != "scaffold-ogb")

# Drawn: what holds of all kinds


@pytest.mark.claim(
    "In a split, each molecule occurs once and scaffolds stay together. The test molecules "
    "are the same in all folds and replicates. OGB's splits are reproduced."
)
@given(smiles=tables(), settings=draws, folds=st.sampled_from([None, 2, 5]), data=st.data())
def test_a_draw_puts_every_molecule_into_one_split_and_repeats_itself(
    smiles, settings, folds, data
):
    replicates = 20
    if settings["split_type"] == "scaffold-ogb":
        folds, replicates = None, 1
    fold = data.draw(st.integers(0, (folds or replicates) - 1))
    splits = feasible(smiles, folds=folds, fold=fold, **settings)
    assert tuple(splits) == ("train", "val", "test")
    assert everything(splits) == list(range(len(smiles)))
    for indices in splits.values():
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()
    assert listed(make(smiles, folds=folds, fold=fold, **settings)) == listed(splits)
    test = listed(feasible(smiles, **settings))["test"]
    assert listed(splits)["test"] == test
    if settings["split_type"] != "random":
        owners = [{scaffold_of(smiles[index]) for index in part} for part in splits.values()]
        assert len(set.union(*owners)) == sum(map(len, owners))
    if settings["split_type"] == "scaffold" and not folds:
        ends = np.rint(np.cumsum(settings["split"]) * len(smiles)).astype(int)
        assert len(splits["test"]) <= ends[2] - ends[1]
        assert len(splits["val"]) <= ends[1] - ends[0]


@given(smiles=tables(), settings=random_draws, folds=st.integers(2, 8))
def test_every_other_molecule_validates_in_exactly_one_fold(smiles, settings, folds):
    each = [listed(make(smiles, folds=folds, fold=fold, **settings)) for fold in range(folds)]
    validated = sorted(chain.from_iterable(splits["val"] for splits in each))
    assert validated == sorted(each[0]["train"] + each[0]["val"])
    sizes = [len(splits["val"]) for splits in each]
    groups = defaultdict(int)
    for index in validated:
        groups[scaffold_of(smiles[index])] += 1
    largest = 1 if settings["split_type"] == "random" else max(groups.values())
    assert max(sizes) - min(sizes) <= largest


@given(smiles=tables(), settings=random_draws, folds=st.integers(2, 8))
def test_without_a_test_set_every_molecule_is_tested_in_exactly_one_fold(smiles, settings, folds):
    """The validation molecules are drawn from the others: whole scaffolds, in their share."""
    settings |= {"folds": folds, "test_set": False}
    try:
        each = [listed(make(smiles, fold=fold, **settings)) for fold in range(folds)]
    except DataError:  # a single scaffold is left
        assert settings["split_type"] != "random"
        reject()
    tested = [index for splits in each for index in splits["test"]]
    assert sorted(tested) == list(range(len(smiles)))
    train, val, _ = settings["split"]
    for splits in each:
        assert sorted(chain.from_iterable(splits.values())) == list(range(len(smiles)))
        share = round((len(smiles) - len(splits["test"])) * val / (train + val))
        if settings["split_type"] == "random":
            assert len(splits["val"]) == share
            continue
        of = [{scaffold_of(smiles[index]) for index in part} for part in splits.values()]
        assert len(set.union(*of)) == sum(map(len, of))
        assert splits["val"]
        assert len(splits["val"]) <= share or len(of[1]) == 1


@pytest.mark.parametrize("split_type", ["random", "scaffold"])
def test_another_seed_or_replicate_is_another_draw(split_type):
    smiles = rings([30, 20, 10, *[1] * 60])
    one, other = (make(smiles, split_type=split_type, split_seed=seed) for seed in (0, 1))
    assert listed(one)["test"] != listed(other)["test"]
    replicates = [listed(make(smiles, split_type=split_type, fold=i))["val"] for i in range(4)]
    assert len(set(map(tuple, replicates))) == 4
    assert {len(val) for val in replicates} == {12}


# Drawn one by one


def test_a_random_split_of_a_seed_stays_what_it_was():
    """So that models of earlier versions are not scored on their own training molecules."""
    order = np.random.default_rng(3).permutation(50)
    splits = make(alkanes(50), split_seed=3)
    assert listed(splits) == {
        "train": sorted(order[:40]),
        "val": sorted(order[40:45]),
        "test": sorted(order[45:]),
    }


STRATIFIED = [
    ({"split": (0.5, 0.2, 0.3)}, {"val": 0.2, "test": 0.3}),
    ({"fold": 5}, {"val": 0.1, "test": 0.1}),
    ({"folds": 5, "fold": 4}, {"val": 0.18, "test": 0.1}),
    ({"folds": 5, "fold": 3, "test_set": False}, {"test": 0.2}),
]


@pytest.mark.parametrize(("settings", "shares"), STRATIFIED, ids=str)
def test_a_stratified_split_has_the_same_share_of_each_stratum(settings, shares):
    """To one molecule, also of a stratum of ten among a thousand."""
    strata = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [890, 100, 10]))
    settings = {"split_type": "stratified", **settings}
    splits = make(["C"] * 1000, strata=strata, **settings)
    assert everything(splits) == [*range(1000)]
    plain = make(["C"] * 1000, **settings | {"split_type": "random"})
    for name, share in shares.items():
        assert len(splits[name]) == len(plain[name])
        counts = np.bincount(strata[splits[name]], minlength=3)
        assert np.abs(counts - share * np.array([890, 100, 10])).max() <= 1.2


def test_strata_are_combinations_of_classes():
    """Regression targets do not count, and a missing label is a class of its own."""
    config = DataConfig(table=TABLE, split_type="stratified")
    nan = np.nan
    labels = np.array([[0, 0.1, 2], [1, 0.2, 2], [0, 0.3, 2], [nan, 0.4, 2], [nan, 0.5, nan]])
    targets = [
        Target("a", "binary"),
        Target("b", "regression"),
        Target("c", "multiclass", classes=("x", "y", "z")),
    ]
    found = strata_of(config, targets, labels)
    assert found[0] == found[2] and len(np.unique(found)) == 4
    assert strata_of(DataConfig(table=TABLE), targets[:1], labels[:, :1]) is None
    with pytest.raises(ConfigError, match="stratified needs a target with classes"):
        strata_of(config, targets[1:2], labels[:, 1:2])


SEVERAL_ROWS = [
    {"split": (0.5, 0.25, 0.25), "split_seed": 4},
    {"fold": 2},
    {"folds": 5, "fold": 1},
    {"folds": 5, "fold": 4, "test_set": False},
]


@pytest.mark.parametrize("settings", SEVERAL_ROWS, ids=str)
@pytest.mark.parametrize("strata", [None, np.arange(400) % 9 == 0], ids=["random", "stratified"])
def test_a_random_split_keeps_the_rows_of_a_molecule_together(settings, strata):
    """The shares are nearly kept, and all rows are in one of the splits."""
    rng = np.random.default_rng(0)
    molecules = rng.permutation(np.repeat(np.arange(100), rng.integers(1, 6, 100)))
    settings = settings | {"split_type": "random" if strata is None else "stratified"}
    splits = make(["C"] * len(molecules), molecules=molecules, strata=strata, **settings)
    assert np.sort(np.concatenate([*splits.values()])).tolist() == [*range(len(molecules))]
    in_splits = [set(molecules[part]) for part in splits.values()]
    assert sum(map(len, in_splits)) == 100
    plain = make(alkanes(len(molecules)), **settings)
    for name, part in splits.items():
        assert abs(len(part) - len(plain[name])) <= 5


@pytest.mark.parametrize("test_set", [True, False])
def test_no_fold_is_empty_where_there_are_enough_molecules(test_set):
    """Although one molecule has more rows than several folds."""
    for seed in range(20):
        molecules = np.array([0] * 40 + [*range(1, 8)])
        for fold in range(5):
            settings = {"folds": 5, "fold": fold, "test_set": test_set, "split_seed": seed}
            splits = make(["C"] * 47, molecules=molecules, **settings)
            assert all(map(len, splits.values()))
        few = make(["C"] * 46, molecules=np.repeat([0, 1, 2], [40, 3, 3]), split_seed=seed)
        assert all(map(len, few.values()))


@pytest.mark.parametrize(
    ("smiles", "settings", "message"),
    [
        ([], {}, "0 usable rows, too few for shares of 0.8 / 0.1 / 0.1: the random split"),
        (alkanes(60), {"molecules": np.arange(60) % 2}, "60 usable rows, .* would have 0 train"),
        (rings([10, 10]), {"split_type": "scaffold"}, "20 usable rows, .* scaffold split would"),
    ],
)
def test_too_few_molecules_or_groups(smiles, settings, message):
    with pytest.raises(DataError, match=f"^my.csv has {message}"):
        make(smiles, **settings)


# Drawn by scaffold


@pytest.mark.parametrize(
    ("sizes", "split", "expected"),
    [
        ([30, 6, *[5] * 5, *[1] * 39], (0.8, 0.1, 0.1), (80, 10, 10)),
        ([50, 15, 15, *[1] * 20], (0.6, 0.2, 0.2), (60, 20, 20)),
        ([1] * 10, (0.8, 0.1, 0.1), (8, 1, 1)),
        ([90, *[1] * 10], (0.5, 0.2, 0.3), (90, 4, 6)),
    ],
)
def test_scaffolds_go_where_they_fit_and_those_too_large_for_any_split_train(
    sizes, split, expected
):
    for seed in range(5):
        splits = make(rings(sizes), split_type="scaffold", split=split, split_seed=seed)
        assert tuple(map(len, splits.values())) == expected
        assert 0 in splits["train"] or sizes[0] < 30  # of the commonest scaffold


@pytest.mark.parametrize("name", ["bace", "esol", "freesolv"])
def test_ogb_s_own_splits(datasets, name):
    """ogbg-molbace, -molesol and -molfreesolv, molecule by molecule."""
    table = pd.read_csv(datasets / "moleculenet" / f"{name}.csv")
    splits = make(table["smiles"].tolist(), split_type="scaffold-ogb")
    official = table.groupby("scaffold_split").groups
    assert listed(splits) == listed({part: official[part] for part in splits})


# Drawn by cluster


def by_rdkit(smiles: list[str], max_distance: float) -> list[list[int]]:
    distances = 1 - similarities(smiles, smiles)[np.tril_indices(len(smiles), -1)]
    found = Butina.ClusterData(distances.tolist(), len(smiles), max_distance, isDistData=True)
    return [list(cluster) for cluster in found]


@pytest.mark.parametrize(
    ("name", "max_distance", "pairs"),
    [("bace", 0.6, splitters._PAIRS), ("bace", 0.35, 1000), ("freesolv", 0.6, 1000)],
)
def test_clusters_equal_rdkit_s(datasets, monkeypatch, name, max_distance, pairs):
    """In their order and with their centres, whether or not the pairs fit into one block."""
    monkeypatch.setattr(splitters, "_PAIRS", pairs)
    smiles = pd.read_csv(datasets / "moleculenet" / f"{name}.csv")["smiles"][:300].tolist()
    expected = by_rdkit(smiles, max_distance)
    found = butina_clusters(morgan_matrix(smiles), max_distance)
    assert [cluster.tolist() for cluster in found] == expected
    assert 1 < len(expected) < 300


# Drawn by time

TIMED = {"split_type": "time", "time_column": "date"}


def test_the_oldest_rows_train_and_the_newest_ones_test():
    column = [f"20{20 - i:02}-01-01" for i in range(20)]
    splits = make(alkanes(20), None, column, **TIMED)
    assert listed(splits) == {"train": [*range(4, 20)], "val": [2, 3], "test": [0, 1]}
    rows = [row for row in range(20) if row != 19]  # the oldest could not be read
    column[0] = ""  # and the newest has no date
    splits = make(alkanes(20), rows, column, **TIMED)
    assert listed(splits) == {"train": [*range(5, 19)], "val": [3, 4], "test": [1, 2]}


def test_a_column_that_is_no_time():
    message = "line 6, column 'date': '1.2.2020' is not a time.* 16 such cells"
    with pytest.raises(DataError, match=message):
        make(alkanes(20), None, [*["2020-01-01"] * 4, "1.2.2020", *["soon"] * 15], **TIMED)


# Named by a column

WORDS = ["train", "Training ", "VAL", " valid", "validation", "Dev", "test", "Testing", "train"]


@pytest.mark.parametrize(
    ("column", "rows", "expected"),
    [
        (WORDS, None, [[0, 1, 8], [2, 3, 4, 5], [6, 7]]),
        (["train", "", "train", "val", "train", " ", "test"], [0, 1, 3, 4, 6], [[0, 3], [2], [4]]),
    ],
)
def test_a_column_names_the_splits(column, rows, expected):
    """A blank cell or a row without a molecule is in no split."""
    splits = make(alkanes(len(column)), rows, column, splits_column="part of")
    assert [*listed(splits).values()] == expected


def test_folds_divide_the_rows_outside_of_the_test_split_of_a_column():
    """Every one of them validates once; the test rows stay, and rows of a molecule together."""
    column = ["train"] * 8 + ["val"] * 2 + ["test"] * 3 + [""]
    molecules, seen = np.array([0, 0, *range(1, 13)]), []
    for fold in range(4):
        settings = {"splits_column": "part", "folds": 4, "fold": fold}
        splits = listed(make(alkanes(14), None, column, molecules, **settings))
        assert splits["test"] == [10, 11, 12]
        assert sorted(splits["train"] + splits["val"]) == list(range(10))
        assert (0 in splits["val"]) == (1 in splits["val"])
        seen += splits["val"]
    assert sorted(seen) == list(range(10))
    with pytest.raises(DataError, match="the 3 rows outside of the test split are too few"):
        make(alkanes(4), None, ["train", "train", "val", "test"], splits_column="part", folds=4)


def test_validation_molecules_are_drawn_from_the_training_split_if_none_are_named():
    """All rows of a molecule together."""
    column, numbers = ["train"] * 18 + ["test"] * 6, np.arange(24)
    for molecules, settings, sizes in (
        (numbers, {}, [16, 2, 6]),
        (numbers // 2, {}, [16, 2, 6]),
        (numbers // 3, {"split": (0.5, 0.25, 0.25), "split_seed": 3}, [12, 6, 6]),
    ):
        settings |= {"splits_column": "part"}
        splits = make(alkanes(24), None, column, molecules, **settings)
        assert [len(part) for part in splits.values()] == sizes
        assert sorted([*splits["train"], *splits["val"]]) == list(range(18))
        assert splits["test"].tolist() == list(range(18, 24))
        assert not {*molecules[splits["train"]]} & {*molecules[splits["val"]]}
        assert listed(make(alkanes(24), None, column, molecules, **settings)) == listed(splits)
    with pytest.raises(DataError, match="the 18 rows outside of the test split are too few"):
        make(alkanes(24), None, column, 0 * numbers, **settings)


@pytest.mark.parametrize(
    ("column", "rows", "message"),
    [
        (["train", "val", "Trian", "0"], None, "'Trian' names no split.* 2 such cells"),
        (["train"] * 3 + ["val", "test"], [0, 1, 4], "0 val molecule.* 3 train, 1 val, 1 test"),
    ],
)
def test_a_column_that_names_too_little(column, rows, message):
    with pytest.raises(DataError, match=f"column 'part of'.*{message}"):
        make(alkanes(len(column)), rows, column, splits_column="part of")


# Named by a file


@pytest.fixture
def by_file(tmp_path):
    """`by_file(content, fold, rows)`: the splits by splits.json with that content."""

    def read(content, fold=0, rows=None):
        path = tmp_path / "splits.json"
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return make(alkanes(10), rows, splits_file=path, fold=fold)

    return read


def test_a_file_names_the_splits(by_file):
    entries = [
        {"train": [9, 0, 1], "val": [2], "test": [3, 8]},
        {"train": "0-2,4, 9", "val": "5", "test": " 6 - 7 "},
    ]
    assert listed(by_file(entries)) == {"train": [0, 1, 9], "val": [2], "test": [3, 8]}
    one = {"train": [0, 1, 2, 4, 9], "val": [5], "test": [6, 7]}
    assert listed(by_file(json.dumps(entries).encode("utf-8-sig"), fold=1)) == one
    none = {"train": [0, 1], "val": [2], "test": []}
    assert listed(by_file([{"train": [0, 1], "val": [2]}])) == listed(by_file([none])) == none
    entry = {"train": "0-5", "val": [6, 7], "test": [8, 9]}
    splits = by_file([entry], rows=[0, 2, 4, 7, 8, 9])  # the others cannot be read
    assert listed(splits) == {"train": [0, 1, 2], "val": [3], "test": [4, 5]}


GOOD = {"train": [0, 1], "val": [2], "test": [3]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD, "splits.json: .*valid .*Expected is a list of splits"),
        ([GOOD | {"val": "5-4"}], "entry 0, 'val': '5-4' is neither a row nor a range"),
        ([GOOD | {"val": "4-999999999"}], "entry 0, 'val': there is no row 10"),
        ([GOOD | {"test": [3, 0]}], "entry 0, 'test': row 0 is in 'train' already"),
    ],
)
def test_a_file_that_names_no_split(by_file, content, message):
    with pytest.raises(DataError, match=message):
        by_file(content)


# --- rows without a label -------------------------------------------------------------------------


def _gaps(labels: dict[int, object], n: int = 30, **settings) -> tuple[pd.DataFrame, DataConfig]:
    config = DataConfig(in_memory=True, targets=["y"], featurizer="zinc", **settings)
    cells = [labels.get(row, "") for row in range(n)]
    return label_table([np.nan if cell == "" else cell for cell in cells], ["y"]), config


@pytest.mark.parametrize(
    "settings",
    [{}, {"split_type": "scaffold"}, {"folds": 3}, {"duplicates": "mean"}],
)
def test_rows_without_a_label_are_in_no_drawn_split(settings):
    """The split is that of a table without these rows."""
    labels = {row: float(row) for row in range(0, 30, 2)}
    table, config = _gaps(labels, **settings)
    molecules = [text for pair in zip(rings([1] * 15), alkanes(15), strict=True) for text in pair]
    found = memory_dataset(molecules, table, config, ZINC)
    y = label_table([*labels.values()], ["y"])
    alone = memory_dataset(molecules[::2], y, config, ZINC)
    assert {n: (part // 2).tolist() for n, part in found.splits.items()} == {
        name: part.tolist() for name, part in alone.splits.items()
    }
    assert found.warnings == ("Left out: 15 rows without a label.",)


def test_named_test_rows_without_a_label_stay():
    """So do splits with too few labels; training then says which labels are missing."""
    table, config = _gaps({row: float(row) for row in range(10)})
    splits = {"train": [*range(8), 20, 21], "val": [8, 9, 22], "test": [23, 24]}
    found = memory_dataset(alkanes(30), table, config, ZINC, splits=splits).splits
    assert listed(found) == {"train": [*range(8)], "val": [8, 9], "test": [23, 24]}
    splits = {"train": [0, 20, 21], "val": [22, 23], "test": [2]}
    found = memory_dataset(alkanes(30), table, config, ZINC, splits=splits).splits
    assert listed(found) == splits


def order_of(cells):
    times, odd = read_times(cells)
    assert len(odd) == 0
    return np.argsort(times, kind="stable").tolist()


def test_dates_of_every_length_are_ordered():
    """A year or a month stands for its first moment."""
    cells = [
        "2021-05-03",
        "2021",
        " 2021-05 ",
        "2021-05-03T14:30:00Z",
        "2020-12-31",
        "2021-05-03T16:00:00+02:00",  # 14:00 UTC
        "1850-01-01",
        "2021-05-03 14:15",
    ]
    assert order_of(cells) == [6, 4, 1, 2, 0, 5, 7, 3]


def test_numbers_are_ordered_as_numbers():
    assert order_of(["10", "9", "-2.5", "1e3", "20210503"]) == [2, 1, 0, 3, 4]
    assert order_of(["05.2021", "17.5"]) == [0, 1]
    assert order_of(["20201231", "20200131"]) == [1, 0]
    assert order_of(["1125", "930", "1250"]) == [1, 0, 2]
    assert order_of(["1.25", "2.50", "10.50"]) == [0, 1, 2]
    assert order_of(["1.190", "2.201", "3.203", "0.5"]) == [3, 0, 1, 2]


@pytest.mark.parametrize(
    ("cells", "time_format"),
    [
        (["03/05/2021", "12/01/2020", "04/05/2021"], "%d/%m/%Y"),
        (["5-Mar-21", "01-Jan-20", "6-Mar-21"], "%d-%b-%y"),
        (["052021", "122020", "062021"], "%m%Y"),
        (["44319", "9000", "52015"], "number"),
    ],
)
def test_times_of_a_declared_format(cells, time_format):
    times, odd = read_times([*cells, "", "x"], time_format)
    assert np.argsort(times[:3]).tolist() == [1, 0, 2]
    assert np.isnan(times[3:]).all()
    assert odd.tolist() == [4]


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (["2021-05-03", "03/05/2021", "May 2021"], [1, 2]),
        (["2021-02-30", "2021-02-28"], [0]),
        (["05.2021", "", "11.2020"], [0, 2]),
        (["050319", "171120", "230419"], [0, 1, 2]),
        (["2021.2", "", "2021.10"], [0, 2]),  # October is not before February
        (["2021", "2021.9", "2021.10"], [0, 1, 2]),
        (["2019", "20150510"], [0, 1]),
        (["2021111", "2021112"], [0, 1]),  # 1 November or 11 January
    ],
)
def test_other_cells_are_not_times(cells, odd):
    assert read_times(cells)[1].tolist() == odd


@given(
    times=st.lists(st.one_of(st.integers(0, 12), st.just(math.nan)), max_size=40),
    shares=st.sampled_from([(0.8, 0.1), (0.5, 0.25), (0.2, 0.3)]),
)
def test_a_split_equals_one_row_after_the_other(times, shares):
    """The oldest first; a molecule of the same time as the one before stays with it."""
    known = sorted((time, i) for i, time in enumerate(times) if not math.isnan(time))
    num_train, num_val = (int(share * len(known)) for share in shares)
    expected = [[], [], []]
    part = 0
    for place, (time, i) in enumerate(known):
        if place and time != known[place - 1][0]:
            part = (place >= num_train) + (place >= num_train + num_val)
        expected[part].append(i)
    found = split_by_time(np.array(times, dtype=float), num_train, num_val)
    assert [part.tolist() for part in found] == expected
