"""ZINC's subset from SMILES: the same molecules, labels and split as the benchmark's own files."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from molsepnorm.data.datasets import DataConfig, load, zinc
from molsepnorm.errors import DataError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import SIZES, get

SPEC = EncodingSpec(SIZES["rich"].bonds, max_path_length=1)
SPLITS = ("train", "val", "test")
SMILES = ("CCO", "c1ccccc1", "CC#N", "C1CC1", "CCC")


@pytest.fixture
def few(tmp_path, monkeypatch):
    """Two of five molecules in each split, `DIR/zinc` as the set wants it."""
    about = zinc.SETS["zinc-rich"]._replace(sizes=(2, 2, 2))
    monkeypatch.setitem(zinc.SETS, "zinc-rich", about)
    folder = tmp_path / "zinc"
    folder.mkdir()
    for split, rows in zip(SPLITS, ("3\n1\n", "0,4\n", "2 0"), strict=True):
        with gzip.open(folder / f"{split}.csv.gz", "wt") as file:
            file.write("smiles,y\n" + "".join(f"{s},{i}\n" for i, s in enumerate(SMILES)))
        (folder / f"{split}.index").write_text(rows)
    return tmp_path


def _load(folder):
    return load(DataConfig(dataset="zinc-rich", data_dir=folder), SPEC)


def test_the_molecules_of_the_official_files_in_their_order(datasets, monkeypatch):
    """All 12,000, by the benchmark's 28 labels, which are quicker to make than rich features."""
    if zinc.find_files(datasets, "zinc", (*zinc.TABLES, *zinc.INDICES)) is None:
        pytest.skip("the SMILES are not there")
    about = zinc.SETS["zinc-rich"]._replace(featurizer="zinc")
    monkeypatch.setitem(zinc.SETS, "zinc-rich", about)
    ours, official = (
        load(DataConfig(dataset=name, data_dir=datasets), EncodingSpec((3,), max_path_length=5))
        for name in ("zinc-rich", "zinc")
    )
    assert [len(ours.splits[name]) for name in SPLITS] == [10_000, 1_000, 1_000]
    for name, part in official.splits.items():
        assert (ours.splits[name] == part).all()
    assert ours.targets == official.targets
    np.testing.assert_allclose(ours.labels, official.labels, atol=2e-6)
    assert (ours.store.sizes == official.store.sizes).all()
    molecule = np.repeat(np.arange(12_000), ours.store.sizes)
    found, expected = (
        each.store.atoms[:, 0] * 16 + each.store.degrees for each in (ours, official)
    )
    orders = [np.lexsort((atoms, molecule)) for atoms in (found, expected)]
    assert (found[orders[0]] == expected[orders[1]]).all()


def test_the_rows_that_the_index_names_in_its_order(few):
    dataset = _load(few)
    assert dataset.labels[:, 0].tolist() == [3, 1, 0, 4, 2, 0]
    graphs = [get("rich")(SMILES[row]) for row in (3, 1, 0, 4, 2, 0)]
    assert (
        dataset.store.atoms.tolist() == np.concatenate([g.atom_features for g in graphs]).tolist()
    )


def test_without_smiles_it_is_said_which_files_belong_where(few):
    """Nothing can be downloaded in their place."""
    (few / "zinc" / "train.index").unlink()
    with pytest.raises(DataError, match=f"cannot be downloaded and are not in {few}.\nPut train"):
        _load(few)


@pytest.mark.parametrize("rows", ["0", "0,5", "0,-1", "1,1", "0,1,2", "0,x"])
def test_an_index_that_is_not_the_subset_s(few, rows):
    (few / "zinc" / "val.index").write_text(rows)
    with pytest.raises(DataError, match=r"val\.index should list 2 different rows of val\.csv\.gz"):
        _load(few)
