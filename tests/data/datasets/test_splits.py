"""Splits: named by a column or a file, or drawn; and every way in which that can go wrong."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from molsepnorm.data.datasets import DataConfig, clusters, load
from molsepnorm.data.datasets.clusters import butina_clusters
from molsepnorm.data.datasets.memory import label_table, memory_dataset
from molsepnorm.data.datasets.splits import (
    make_splits,
    named_splits,
    strata_of,
    with_validation,
)
from molsepnorm.errors import ConfigError, DataError, DataWarning, InvalidMolecule, StorageError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import get, scaffold
from molsepnorm.molecules.featurize.fingerprints import morgan_matrix

TABLE = Path("my.csv")
TYPES = ("random", "scaffold", "scaffold-ogb")


def make(smiles, rows=None, column=None, molecules=None, strata=None, **settings):
    """Return `make_splits` of a table with these SMILES; the store has all rows, or `rows`. All
    rows are different molecules, or those with these numbers."""
    config = DataConfig(table=TABLE).model_copy(update=settings)
    rows = np.arange(len(smiles)) if rows is None else np.array(rows)
    molecules = np.arange(len(rows)) if molecules is None else molecules
    index = range(len(smiles))
    return make_splits(config, rows, molecules, smiles, column, TABLE, index, strata)


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
        patch.setattr(scaffold, "murcko_scaffold", cache(scaffold.murcko_scaffold))
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


# Drawn: what holds of all kinds


@pytest.mark.claim(
    "In a split, each molecule occurs once and scaffolds stay together. The test molecules "
    "are the same in all folds and replicates. OGB's splits are reproduced."
)
@given(smiles=tables(), settings=draws, folds=st.sampled_from([None, 2, 5]), data=st.data())
def test_a_draw_puts_every_molecule_into_one_split_and_repeats_itself(
    smiles, settings, folds, data
):
    replicates = 1 if settings["split_type"] == "scaffold-ogb" else 20
    fold = data.draw(st.integers(0, (folds or replicates) - 1))
    splits = feasible(smiles, folds=folds, fold=fold, **settings)
    assert tuple(splits) == ("train", "val", "test")
    assert everything(splits) == list(range(len(smiles)))
    for indices in splits.values():
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()
    assert listed(make(smiles, folds=folds, fold=fold, **settings)) == listed(splits)


@given(smiles=tables(), settings=draws, folds=st.integers(2, 8))
def test_the_test_molecules_are_the_same_in_every_fold_and_replicate(smiles, settings, folds):
    test = listed(feasible(smiles, **settings))["test"]
    for fold in range(folds):
        assert listed(make(smiles, folds=folds, fold=fold, **settings))["test"] == test
        if settings["split_type"] != "scaffold-ogb":
            assert listed(make(smiles, fold=fold, **settings))["test"] == test


@given(smiles=tables(), settings=draws, folds=st.integers(2, 8))
def test_every_other_molecule_validates_in_exactly_one_fold(smiles, settings, folds):
    each = [listed(feasible(smiles, folds=folds, fold=fold, **settings)) for fold in range(folds)]
    validated = sorted(chain.from_iterable(splits["val"] for splits in each))
    assert validated == sorted(each[0]["train"] + each[0]["val"])
    sizes = [len(splits["val"]) for splits in each]
    groups = defaultdict(int)
    for index in validated:
        groups[scaffold_of(smiles[index])] += 1
    largest = 1 if settings["split_type"] == "random" else max(groups.values())
    assert max(sizes) - min(sizes) <= largest


@given(smiles=tables(), settings=draws, folds=st.integers(2, 8))
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
    for fold, splits in enumerate(each):
        assert sorted(chain.from_iterable(splits.values())) == list(range(len(smiles)))
        assert listed(make(smiles, fold=fold, **settings)) == splits
        rest = len(smiles) - len(splits["test"])
        if settings["split_type"] == "random":
            assert len(splits["val"]) == round(rest * val / (train + val))
        else:
            of = [{scaffold_of(smiles[index]) for index in part} for part in splits.values()]
            assert len(set.union(*of)) == sum(map(len, of))
            if settings["split_type"] == "scaffold":
                share = round(rest * val / (train + val))
                assert splits["val"]
                assert len(splits["val"]) <= share or len(of[1]) == 1


def test_the_inner_validation_molecules_follow_neither_the_folds_nor_the_table():
    """Each fold has a draw of its own, from all molecules outside the fold."""
    settings = {"folds": 5, "test_set": False, "split": (0.6, 0.3, 0.1)}
    each = [make(alkanes(100), fold=fold, **settings) for fold in range(5)]
    tests = [set(splits["test"].tolist()) for splits in each]
    for fold, splits in enumerate(each):
        val = set(splits["val"].tolist())
        assert all(val & tests[other] for other in range(5) if other != fold)
        assert 30 < splits["val"].mean() < 70


def test_a_scaffold_validates_even_if_all_are_larger_than_the_share():
    splits = make(rings([10] * 10), split_type="scaffold", folds=5, test_set=False)
    assert [len(part) for part in splits.values()] == [70, 10, 20]


def test_ogb_s_order_holds_within_a_fold():
    """The commonest scaffolds outside the fold are trained on, the rarest ones validate."""
    smiles = rings([6, 5, 4, 3, 2, 1, 1, 1, 1])
    settings = {"split_type": "scaffold-ogb", "folds": 3, "test_set": False}
    splits = make(smiles, fold=0, **settings)
    sizes = defaultdict(int)
    for text in smiles:
        sizes[scaffold_of(text)] += 1
    smallest = min(sizes[scaffold_of(smiles[i])] for i in splits["train"])
    assert all(sizes[scaffold_of(smiles[i])] <= smallest for i in splits["val"])


@given(smiles=tables(), settings=draws, folds=st.sampled_from([None, 3]), fold=st.integers(0, 2))
def test_a_scaffold_stays_whole(smiles, settings, folds, fold):
    settings |= {"split_type": "scaffold"} if settings["split_type"] == "random" else {}
    fold = fold if folds or settings["split_type"] == "scaffold" else 0
    owners = defaultdict(set)
    for split, indices in feasible(smiles, folds=folds, fold=fold, **settings).items():
        for index in indices:
            owners[scaffold_of(smiles[index])].add(split)
    assert all(len(splits) == 1 for splits in owners.values())


@pytest.mark.parametrize("split_type", ["random", "scaffold"])
def test_another_seed_or_replicate_is_another_draw(split_type):
    smiles = rings([30, 20, 10, *[1] * 60])
    one, other = (make(smiles, split_type=split_type, split_seed=seed) for seed in (0, 1))
    assert listed(one)["test"] != listed(other)["test"]
    replicates = [listed(make(smiles, split_type=split_type, fold=i))["val"] for i in range(4)]
    assert len(set(map(tuple, replicates))) == 4
    assert {len(val) for val in replicates} == {12}


@pytest.mark.parametrize("split_type", TYPES)
def test_rows_that_could_not_be_read_take_no_part(split_type):
    smiles = rings([5, *[1] * 40])
    rows = [row for row in range(len(smiles)) if row % 3]
    gaps = ["?" if row % 3 == 0 else text for row, text in enumerate(smiles)]
    splits = make(gaps, rows, split_type=split_type)
    assert listed(splits) == listed(make([smiles[row] for row in rows], split_type=split_type))


def test_no_split_is_asked_for():
    assert make(alkanes(1), split=None) == {}


# Drawn one by one


@pytest.mark.parametrize(
    ("count", "shares", "sizes"),
    [
        (100, (0.8, 0.1, 0.1), (80, 10, 10)),
        (1000, (0.5, 0.25, 0.25), (500, 250, 250)),
        (10, (0.8, 0.1, 0.1), (8, 1, 1)),
        (4, (0.5, 0.25, 0.25), (2, 1, 1)),
        (4, (0.8, 0.1, 0.1), (2, 1, 1)),
        (7, (0.8, 0.1, 0.1), (5, 1, 1)),
        (3, (0.9, 0.1, 0), (2, 1, 0)),
    ],
)
def test_a_random_split_has_the_shares_asked_for(count, shares, sizes):
    splits = make(alkanes(count), split=shares)
    assert tuple(map(len, splits.values())) == sizes


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
    ({}, {"val": 0.1, "test": 0.1}),
    ({"split": (0.5, 0.2, 0.3)}, {"val": 0.2, "test": 0.3}),
    *(({"fold": fold}, {"val": 0.1, "test": 0.1}) for fold in (1, 5)),
    *(({"folds": 5, "fold": fold}, {"val": 0.18, "test": 0.1}) for fold in range(5)),
    *(({"folds": 5, "fold": fold, "test_set": False}, {"test": 0.2}) for fold in range(5)),
]


@pytest.mark.parametrize(("settings", "shares"), STRATIFIED, ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_stratified_split_has_the_same_share_of_each_stratum(settings, shares, seed):
    """To one molecule, also of a stratum of ten among a thousand."""
    strata = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], [890, 100, 10]))
    settings = {"split_type": "stratified", "split_seed": seed, **settings}
    splits = make(["C"] * 1000, strata=strata, **settings)
    assert everything(splits) == [*range(1000)]
    plain = make(["C"] * 1000, **settings | {"split_type": "random"})
    for name, share in shares.items():
        assert len(splits[name]) == len(plain[name])
        counts = np.bincount(strata[splits[name]], minlength=3)
        assert np.abs(counts - share * np.array([890, 100, 10])).max() <= 1.2


def test_replicates_of_a_stratified_split_share_their_test_molecules():
    strata = np.arange(100) % 7 == 0
    every = [
        listed(make(["C"] * 100, strata=strata, split_type="stratified", fold=i)) for i in range(4)
    ]
    assert len({tuple(splits["test"]) for splits in every}) == 1
    assert len({tuple(splits["val"]) for splits in every}) == 4


def test_strata_are_combinations_of_classes():
    """Regression targets do not count, and a missing label is a class of its own."""
    config = DataConfig(table=TABLE, split_type="stratified")
    nan = np.nan
    labels = np.array([[0, 0.1, 2], [1, 0.2, 2], [0, 0.3, 2], [nan, 0.4, 2], [nan, 0.5, nan]])
    found = strata_of(config, ("binary", "regression", "multiclass"), labels)
    assert found[0] == found[2] and len(np.unique(found)) == 4
    assert strata_of(DataConfig(table=TABLE), ("binary",), labels[:, :1]) is None
    with pytest.raises(ConfigError, match="needs a target with classes, and there is none"):
        strata_of(config, ("regression",), labels[:, 1:2])


SEVERAL_ROWS = [
    {},
    {"split": (0.5, 0.25, 0.25), "split_seed": 4},
    {"fold": 2},
    *({"folds": 5, "fold": fold} for fold in range(5)),
    *({"folds": 5, "fold": fold, "test_set": False} for fold in range(5)),
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


def test_folds_of_several_rows_are_disjoint_and_complete():
    molecules = np.arange(60) // 4
    for test_set, split in ((True, "val"), (False, "test")):
        settings = {"molecules": molecules, "folds": 3, "test_set": test_set}
        folds = [make(["C"] * 60, fold=fold, **settings)[split] for fold in range(3)]
        others = 60 - len(make(["C"] * 60, fold=0, **settings)["test"]) * test_set
        assert len(np.unique(np.concatenate(folds))) == sum(map(len, folds)) == others


def test_too_few_molecules_of_many_rows():
    message = (
        r"^my.csv has 60 usable rows of 2 molecules: too few for a split into 0.8 / 0.1 / 0.1 "
        r"with at least 2, 1 and 1. Rows of a molecule stay together; to divide them, name the "
    )
    with pytest.raises(DataError, match=message):
        make(["C"] * 60, molecules=np.arange(60) % 2)
    with pytest.raises(DataError, match="20 usable rows of 1 molecule:"):
        make(["C"] * 20, molecules=np.zeros(20, dtype=int))


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


def test_random_folds_do_not_follow_the_order_of_the_table():
    for fold in range(5):
        val = make(alkanes(100), folds=5, fold=fold)["val"]
        assert val.min() < 40
        assert val.max() > 60


@pytest.mark.parametrize(
    ("count", "settings", "wanted"),
    [
        (0, {}, "a split into 0.8 / 0.1 / 0.1"),
        (3, {}, "a split into 0.8 / 0.1 / 0.1"),
        (3, {"split": (0.4, 0.3, 0.3)}, "a split into 0.4 / 0.3 / 0.3"),
        (10, {"folds": 10, "fold": 9}, "10 folds beside a test share of 0.1"),
        (3, {"folds": 2, "split": (0.3, 0.3, 0.4)}, "2 folds beside a test share of 0.4"),
        (3, {"folds": 2, "test_set": False}, "2 folds and a validation split beside each"),
    ],
)
def test_too_few_molecules(count, settings, wanted):
    message = f"^my.csv has {count} usable molecules: too few for {wanted} with at least 2, 1 "
    with pytest.raises(DataError, match=message):
        make(alkanes(count), **settings)


# Drawn by scaffold


@given(smiles=tables(), settings=draws, fold=st.integers(0, 5))
def test_validation_and_test_keep_to_their_shares(smiles, settings, fold):
    settings["split_type"] = "scaffold"
    splits = make(smiles, fold=fold, **settings)
    ends = np.rint(np.cumsum(settings["split"]) * len(smiles)).astype(int)
    assert len(splits["test"]) <= ends[2] - ends[1]
    assert len(splits["val"]) <= ends[1] - ends[0]


@given(seed=st.integers(0, 2**32), fold=st.integers(0, 5))
def test_common_scaffolds_train_and_rare_ones_fill_the_other_splits(seed, fold):
    smiles = rings([30, 6, *[5] * 5, *[1] * 39])  # 100 molecules
    splits = make(smiles, split_type="scaffold", split_seed=seed, fold=fold)
    assert {split: len(indices) for split, indices in splits.items()} == {
        "train": 80,
        "val": 10,
        "test": 10,
    }
    train = {scaffold_of(smiles[i]) for i in splits["train"]}
    assert {scaffold_of(smiles[0]), scaffold_of(smiles[1])} <= train


def test_common_scaffolds_that_training_has_no_place_for_go_where_they_fit():
    for sizes in ([20] * 5, [50, 15, 15, *[1] * 20]):
        for seed in range(5):
            splits = make(
                rings(sizes), split_type="scaffold", split=(0.6, 0.2, 0.2), split_seed=seed
            )
            assert tuple(map(len, splits.values())) == (60, 20, 20)


@pytest.mark.parametrize("seed", range(10))
def test_small_tables_of_small_scaffolds(seed):
    settings = {"split_type": "scaffold", "split_seed": seed}
    splits = make(rings([1] * 10), **settings)
    assert tuple(map(len, splits.values())) == (8, 1, 1)
    splits = make(rings([2] * 8 + [1] * 4), **settings, split=(0.85, 0.05, 0.1))
    assert tuple(map(len, splits.values())) == (17, 1, 2)


@pytest.mark.parametrize("split_type", ["scaffold", "scaffold-ogb"])
def test_folds_of_whole_scaffolds_are_as_even_as_can_be(split_type):
    smiles, settings = rings([10, *[1] * 120]), {"split_type": split_type, "split": (0.6, 0.2, 0.2)}
    for seed in range(20):
        each = [make(smiles, **settings, split_seed=seed, folds=4, fold=i) for i in range(4)]
        assert [len(splits["val"]) for splits in each] == [26] * 4


def test_a_scaffold_too_large_for_any_split_trains():
    """The others are shared between validation and test."""
    smiles = rings([90, *[1] * 10])
    splits = make(smiles, split_type="scaffold", split=(0.5, 0.2, 0.3))
    assert tuple(map(len, splits.values())) == (90, 4, 6)
    assert {scaffold_of(smiles[i]) for i in splits["train"]} == {scaffold_of(smiles[0])}


@pytest.mark.parametrize("split_type", ["scaffold", "scaffold-ogb"])
def test_duplicates_are_on_one_side(split_type):
    """Under any spelling, as they have one scaffold."""
    spellings = ["OCc1ccccc1C2CC2", "C1CC1c1c(CO)cccc1"]
    smiles = [*rings([1] * 40), *spellings]
    for seed in range(10):
        splits = make(smiles, split_type=split_type, split_seed=seed)
        assert sum({40, 41} <= set(indices) for indices in listed(splits).values()) == 1


@pytest.mark.parametrize("split_type", ["scaffold", "scaffold-ogb"])
def test_molecules_without_a_ring_have_one_scaffold_in_common(split_type):
    smiles = [*alkanes(30), *rings([1] * 70)]
    splits = make(smiles, split_type=split_type)
    assert set(range(30)) <= set(listed(splits)["train"])


@pytest.mark.parametrize(
    ("smiles", "settings", "found"),
    [
        (alkanes(20), {}, "20 usable molecules of 1 scaffold, the commonest with 20"),
        (rings([10, 10]), {}, "20 usable molecules of 2 scaffolds, the commonest with 10"),
        (rings([10, 1, 1, 1]), {"folds": 5}, "13 usable molecules of 4 scaffold"),
        ([], {}, "0 usable molecules of 0 scaffolds, the commonest with 0"),
    ],
)
@pytest.mark.parametrize("split_type", ["scaffold", "scaffold-ogb"])
def test_too_few_scaffolds(smiles, settings, found, split_type):
    with pytest.raises(DataError, match=f"^my.csv has {found}.*too few for .*data.split_type: ran"):
        make(smiles, split_type=split_type, **settings, fold=4 if settings else 0)


def test_ogb_s_split_has_no_replicates():
    with pytest.raises(ConfigError, match="^data.fold is 2, but data.split_type: scaffold-ogb"):
        make(rings([1] * 40), split_type="scaffold-ogb", fold=2)


def test_ogb_s_split_by_hand():
    """Largest first, of equals the last first; what fits nowhere else tests."""
    smiles = rings([4, 2, 2, 1, 1])
    splits = make(smiles, split_type="scaffold-ogb", split=(0.6, 0.2, 0.2), split_seed=7)
    found = {split: {scaffold_of(smiles[i]) for i in indices} for split, indices in splits.items()}
    a, b, c, d, e = (scaffold_of(smiles[i]) for i in range(5))
    assert found == {"train": {a, c}, "val": {b}, "test": {d, e}}


@pytest.fixture(scope="module")
def moleculenet(datasets):
    """`moleculenet(name)`: the SMILES, the rows that RDKit can read, and the official split."""

    def read(name):
        with open(datasets / "moleculenet" / f"{name}.csv") as lines:
            table = list(csv.DictReader(lines))
        smiles = [row["smiles"] for row in table]
        return smiles, [row for row, text in enumerate(smiles) if _readable(text)], table

    return read


def _readable(smiles: str) -> bool:
    try:
        scaffold.murcko_scaffold(smiles, True)
    except InvalidMolecule:
        return False
    return True


@pytest.mark.parametrize("name", ["bace", "esol", "freesolv"])
def test_ogb_s_own_splits(moleculenet, name):
    """ogbg-molbace, -molesol and -molfreesolv, molecule by molecule."""
    smiles, rows, table = moleculenet(name)
    splits = make(smiles, rows, split_type="scaffold-ogb")
    official = defaultdict(list)
    for row, cells in enumerate(table):
        official[cells["scaffold_split"]].append(row)
    assert len(rows) == len(smiles)
    assert listed(splits) == official


def test_ogb_s_split_of_tox21(moleculenet):
    """Eight of its molecules were read by the RDKit of the time; without them the borders move."""
    smiles, rows, table = moleculenet("tox21")
    splits = make(smiles, rows, split_type="scaffold-ogb")
    moved = [
        row
        for split, indices in splits.items()
        for row in np.array(rows)[indices]
        if table[row]["scaffold_split"] != split
    ]
    assert len(smiles) - len(rows) <= 10
    assert len(moved) <= 2 * (len(smiles) - len(rows))


def test_scaffolds_of_real_molecules_stay_whole(moleculenet):
    smiles, rows, _ = moleculenet("freesolv")
    for settings in ({"fold": 1}, {"folds": 5, "fold": 2}):
        owners = defaultdict(set)
        for split, indices in make(smiles, rows, split_type="scaffold", **settings).items():
            for index in indices:
                owners[scaffold.murcko_scaffold(smiles[rows[index]])].add(split)
        assert {len(splits) for splits in owners.values()} == {1}


# Drawn by cluster


def test_butina_clusters_stay_whole_and_share_one_test_set(moleculenet):
    smiles, rows, _ = moleculenet("freesolv")
    groups = butina_clusters(morgan_matrix([smiles[row] for row in rows]))
    cluster_of = {index: k for k, members in enumerate(groups) for index in members.tolist()}
    tests = []
    for settings in ({}, {"fold": 1}, {"folds": 5, "fold": 2}):
        splits = make(smiles, rows, split_type="butina", **settings)
        assert everything(splits) == list(range(len(rows)))
        owners = defaultdict(set)
        for split, indices in splits.items():
            for index in indices.tolist():
                owners[cluster_of[index]].add(split)
        assert {len(splits) for splits in owners.values()} == {1}
        tests.append(listed(splits)["test"])
    assert tests[0] == tests[1] == tests[2]
    assert 0.05 * len(rows) < len(tests[0]) <= 0.1 * len(rows) + 1
    other = make(smiles, rows, split_type="butina", split_seed=1)
    assert listed(other)["test"] != tests[0]


def test_too_few_clusters_and_too_many_molecules(monkeypatch):
    message = "^my.csv has 20 usable molecules of 1 cluster, the largest with 20: too few for"
    with pytest.raises(DataError, match=f"{message}.* data.split_type: random draws single"):
        make(["CCO"] * 20, split_type="butina")
    monkeypatch.setattr(clusters, "MAX_MOLECULES", 19)
    message = "^my.csv has 20 usable molecules, and data.split_type: butina, .* at most 19: use "
    with pytest.raises(DataError, match=message):
        make(alkanes(20), split_type="butina")


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


def test_rows_of_one_time_are_in_the_older_split():
    column = [*["2019"] * 7, *["2020"] * 2, "2021"]
    splits = make(alkanes(10), None, column, **TIMED, split=(0.5, 0.3, 0.2))
    assert tuple(map(len, splits.values())) == (7, 2, 1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["2020"] * 20, "20 usable molecules at 1 different time: too few for .*--split"),
        ([""] * 20, "20 usable molecules at 0 different times: too few for"),
        (
            [*["2020-01-01"] * 4, "1.2.2020", *["soon"] * 15],
            r"my.csv, line 6, column 'date': '1.2.2020' is not a time. 16 such cells in this "
            "column; expected are ISO dates such as 2021, 2021-05 or 2021-05-03, numbers in all",
        ),
    ],
)
def test_columns_that_are_no_times(column, message):
    with pytest.raises(DataError, match=message):
        make(alkanes(20), None, column, **TIMED)


# Named by a column

WORDS = ["train", "Training ", "VAL", " valid", "validation", "Dev", "test", "Testing", "train"]


def by_column(column, rows=None):
    return make(alkanes(len(column)), rows, column, splits_column="part of")


def test_a_column_names_the_splits():
    splits = by_column(WORDS)
    assert listed(splits) == {"train": [0, 1, 8], "val": [2, 3, 4, 5], "test": [6, 7]}


def test_a_column_or_a_file_may_name_no_test_rows(by_file):
    expected = {"train": [0, 1], "val": [2], "test": []}
    assert listed(by_column(["train", "train", "val", ""])) == expected
    for test in ({}, {"test": []}):
        assert listed(by_file([{"train": [0, 1], "val": [2], **test}])) == expected


def test_rows_with_a_blank_or_an_unreadable_molecule_are_left_out():
    column = ["train", "", "train", "val", "train", " ", "test", "test"]
    splits = by_column(column, rows=[0, 1, 3, 4, 5, 7])  # rows 2 and 6 could not be read
    assert listed(splits) == {"train": [0, 3], "val": [2], "test": [5]}


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
    with pytest.raises(DataError, match="too few for 4 folds"):
        make(alkanes(4), None, ["train", "train", "val", "test"], splits_column="part", folds=4)


def test_a_column_goes_before_a_file_and_a_draw():
    settings = {"splits_file": Path("none.json"), "split_type": "scaffold"}
    assert listed(make(alkanes(9), None, WORDS, **settings)) == listed(by_column(WORDS))


def test_validation_molecules_are_drawn_from_the_training_split_if_none_are_named():
    column = ["train"] * 18 + ["test"] * 6
    named = by_column(column)
    assert {name: len(part) for name, part in named.items()} == {"train": 18, "val": 0, "test": 6}
    numbers = np.arange(24)
    splits = with_validation(named, numbers, DataConfig(table=Path("my.csv")))
    assert {name: len(part) for name, part in splits.items()} == {"train": 16, "val": 2, "test": 6}
    assert sorted([*splits["train"], *splits["val"]]) == list(range(18))
    assert splits["test"].tolist() == list(range(18, 24))
    larger = DataConfig(table=Path("my.csv"), split=(0.5, 0.25, 0.25), split_seed=3)
    drawn = [with_validation(named, numbers, larger)["val"].tolist() for _ in range(2)]
    assert len(drawn[0]) == 6 and drawn[0] == drawn[1] != [*range(12, 18)]
    mostly_val = DataConfig(table=Path("my.csv"), split=(0.1, 0.8, 0.1))
    few = with_validation(by_column(["train"] * 3 + ["test"]), numbers, mostly_val)
    assert {name: len(part) for name, part in few.items()} == {"train": 2, "val": 1, "test": 1}
    complete = by_column(WORDS)
    assert with_validation(complete, numbers, larger) is complete


def test_validation_rows_are_drawn_molecule_by_molecule():
    molecules = np.arange(24) // 3
    config = DataConfig(table=TABLE, split=(0.5, 0.25, 0.25))
    splits = with_validation(by_column(["train"] * 18 + ["test"] * 6), molecules, config)
    assert {name: len(part) for name, part in splits.items()} == {"train": 12, "val": 6, "test": 6}
    assert not {*molecules[splits["train"]]} & {*molecules[splits["val"]]}
    with pytest.raises(DataError, match=r"drawn from the 18 training rows, because rows of the"):
        one = np.zeros(24, dtype=int)
        with_validation(by_column(["train"] * 18 + ["test"] * 6), one, config)


def test_another_word_in_the_column():
    with pytest.raises(
        DataError,
        match=r"^my.csv, line 4, column 'part of': 'Trian' names no split. 2 such cells in "
        r"this column; expected are train, training, val, .*, testing, or a blank to leave",
    ):
        by_column(["train", "val", "Trian", "0"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            ["train"] * 2 + ["test"] * 2,
            r"2 train molecules that can be read; its rows are 2 train, 0 val, 2 test. train "
            r"needs 3 or more, as the model is fitted to them: name them there, or leave "
            r"data.splits_column out to have the split drawn",
        ),
        (["train", "val", "test"], r"1 train .*1 train, 1 val, 1 test. train needs 2 or more"),
        ([""] * 4, r"0 train molecule.* 0 train, 0 val, 0 test. .*the model is fitted to them"),
    ],
)
def test_a_column_without_one_of_the_splits(column, message):
    with pytest.raises(DataError, match=f"^my.csv, column 'part of': {message}"):
        by_column(column)


def test_a_split_whose_molecules_cannot_be_read():
    column = ["train", "train", "val", "val", "test"]
    with pytest.raises(DataError, match=r"0 val molecule.* its rows are 2 train, 2 val, 1 test"):
        by_column(column, rows=[0, 1, 4])
    with pytest.raises(DataError, match=r"0 test molecule.* 2 train, 2 val, 1 test.*is scored on"):
        by_column(column, rows=[0, 1, 2])


# Named by a file


@pytest.fixture
def by_file(tmp_path):
    """`by_file(content, count=10, fold=0)`: the splits by splits.json with that content."""

    def read(content, count=10, fold=0, rows=None):
        path = tmp_path / "splits.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return make(alkanes(count), rows, splits_file=path, fold=fold)

    return read


def test_a_file_names_the_splits(by_file):
    entries = [
        {"train": [9, 0, 1], "val": [2], "test": [3, 8]},
        {"train": "0-2,4, 9", "val": "5", "test": " 6 - 7 "},
        {"train": "0-9"},
    ]
    assert listed(by_file(entries)) == {"train": [0, 1, 9], "val": [2], "test": [3, 8]}
    one = {"train": [0, 1, 2, 4, 9], "val": [5], "test": [6, 7]}
    assert listed(by_file(entries, fold=1)) == one
    assert listed(by_file(json.dumps(entries).encode("utf-8-sig"), fold=1)) == one


def test_rows_of_a_file_that_could_not_be_read_are_absent(by_file):
    entry = {"train": "0-5", "val": [6, 7], "test": [8, 9]}
    splits = by_file([entry], rows=[0, 2, 4, 7, 8, 9])
    assert listed(splits) == {"train": [0, 1, 2], "val": [3], "test": [4, 5]}


def test_a_blank_line_that_counts_as_a_row_of_a_file_is_announced(tmp_path):
    """Programs that skip it number the rows after it differently."""
    path = tmp_path / "splits.json"
    path.write_text(json.dumps([{"train": "0-5", "val": [6, 7], "test": [8, 9]}]))
    smiles = alkanes(10)
    smiles[4] = " "
    with pytest.warns(DataWarning, match=r"line 6 has no SMILES, and counts as row 4 in .*s\.json"):
        make(smiles, [0, 1, 2, 3, 5, 6, 7, 8, 9], splits_file=path)


def test_a_run_s_splits_load_back(tmp_path):
    """Rejected rows included: the rows of the file are those of the table."""
    from molsepnorm.training import load_config
    from molsepnorm.training.run_folder.folder import RunFolder

    table = tmp_path / "my.csv"
    texts = alkanes(30)
    texts[3] = texts[17] = "C1CC"
    table.write_text("smiles,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    encoding = EncodingSpec(bond_sizes=(3,), max_path_length=3)
    drawn = load(DataConfig(table=table, featurizer="zinc", split_seed=5), encoding)
    run = RunFolder(tmp_path / "run")
    run.begin(load_config(table), drawn)
    again = DataConfig(table=table, featurizer="zinc", splits_file=run.splits)
    assert len(drawn.store) == 28
    assert listed(load(again, encoding).splits) == listed(drawn.splits)


GOOD = {"train": [0, 1], "val": [2], "test": [3]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "train: [0]",
            "splits.json is not valid JSON: Expecting value.* Expected is a list of splits",
        ),
        (
            b"\xff\xfe",
            "splits.json is not valid JSON: .*codec.* Expected is a list of splits, such as",
        ),
        ("[" * 100_000, "splits.json is not valid JSON: "),
        (GOOD, "splits.json is not a list of splits. Expected is a list of splits, such as"),
        ([[0, 1], [2], [3]], "splits.json is not a list of splits. Expected is"),
        ([GOOD | {"extra": [4]}], "splits.json, entry 0, 'extra' is not a split. Expected is"),
        ([GOOD | {"val": 2}], "entry 0, 'val' is not a list of rows: 2. Expected is"),
        ([GOOD | {"val": None}], "entry 0, 'val' is not a list of rows: None. Expected is"),
        ([GOOD | {"val": [2.0]}], "entry 0, 'val': 2.0 is not a row, a whole number"),
        ([GOOD | {"val": [True]}], "entry 0, 'val': True is not a row, a whole number"),
        ([GOOD | {"val": ["4-5"]}], "entry 0, 'val': '4-5' is not a row, a whole number"),
        ([GOOD | {"val": "4,x"}], "entry 0, 'val': 'x' is neither a row nor a range of rows; rows"),
        ([GOOD | {"val": "5-4"}], "entry 0, 'val': '5-4' is neither a row nor a range of rows"),
        ([GOOD | {"val": "-4"}], "entry 0, 'val': '-4' is neither a row nor a range of rows"),
        ([GOOD | {"val": "9" * 5000}], "entry 0, 'val': '9+' is neither a row nor a range"),
        ([GOOD | {"val": [10]}], "entry 0, 'val': there is no row 10. my.csv has 10 rows, and the"),
        ([GOOD | {"val": [-1]}], "entry 0, 'val': there is no row -1. my.csv has 10 rows"),
        ([GOOD | {"val": "4-999999999"}], "entry 0, 'val': there is no row 10. my.csv has 10 rows"),
        ([GOOD | {"test": [3, 0]}], "entry 0, 'test': row 0 is in 'train' already; a row belongs"),
        ([GOOD | {"test": [3, 3]}], "entry 0, 'test': row 3 is in 'test' already; a row belongs"),
        (
            [{"train": "0-1", "test": [9]}],
            "entry 0: 2 train molecule.* 2 train, 0 val, 1 test.*needs 3 or more.*leave",
        ),
    ],
)
def test_a_file_that_names_no_split(by_file, content, message):
    with pytest.raises(DataError, match=message) as caught:
        by_file(content)
    assert len(str(caught.value).splitlines()) == 1


def test_rows_in_python_that_are_not_a_list():
    for rows in ({0, 1}, (row for row in range(2)), {"rows": {1}}):
        splits = {"train": rows, "val": [2], "test": [3]}
        with pytest.raises(DataError, match=r"splits, 'train' is not a list of rows: [{<]"):
            named_splits(splits, np.arange(4), 4)


def test_an_entry_that_does_not_exist(by_file):
    with pytest.raises(ConfigError, match=r"^data.fold is 2, but .*splits.json has 2 splits"):
        by_file([GOOD, GOOD], fold=2)
    with pytest.raises(ConfigError, match=r"^data.fold is 0, but .*splits.json has 0 splits"):
        by_file([])


def test_a_file_that_does_not_exist():
    with pytest.raises(StorageError, match="^cannot read nowhere.json: there is no such file"):
        make(alkanes(10), splits_file=Path("nowhere.json"))


# --- rows without a label -------------------------------------------------------------------------


def _encoding() -> EncodingSpec:
    return EncodingSpec(bond_sizes=get("zinc").bond_sizes, max_path_length=3)


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
    found = memory_dataset(molecules, table, config, _encoding())
    y = label_table([*labels.values()], ["y"])
    alone = memory_dataset(molecules[::2], y, config, _encoding())
    assert {n: (part // 2).tolist() for n, part in found.splits.items()} == {
        name: part.tolist() for name, part in alone.splits.items()
    }
    assert found.warnings == ("Left out: 15 rows without a label.",)


def test_named_test_rows_without_a_label_stay():
    table, config = _gaps({row: float(row) for row in range(10)})
    splits = {"train": [*range(8), 20, 21], "val": [8, 9, 22], "test": [23, 24]}
    found = memory_dataset(alkanes(30), table, config, _encoding(), splits=splits).splits
    assert {name: part.tolist() for name, part in found.items()} == {
        "train": [*range(8)],
        "val": [8, 9],
        "test": [23, 24],
    }


def test_named_splits_with_too_few_labels_stay_as_they_are():
    """Training then says which labels are missing."""
    table, config = _gaps({row: float(row) for row in range(10)})
    splits = {"train": [0, 20, 21], "val": [22, 23], "test": [2]}
    found = memory_dataset(alkanes(30), table, config, _encoding(), splits=splits).splits
    assert {name: part.tolist() for name, part in found.items()} == splits
