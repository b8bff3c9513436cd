"""ZINC by name: the real files, the cache, and what is said where there are none."""

from __future__ import annotations

import csv
import gzip
import pickle

import numpy as np
import pytest
from support import of_targets, set_zinc_sizes

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.datasets.zinc import require_size
from molsepnorm.errors import ConfigError, DataError, StorageError
from molsepnorm.molecules.encodings import EncodingSpec

SPEC = EncodingSpec(bond_sizes=(3,), max_path_length=5)
SMILES = {
    "train": ["CCO", "c1ccccc1", "C[NH3+]", "CC(=O)[O-]", "N#N"],
    "val": ["CCCl", "CCN", "CBr"],
    "test": ["CI", "CF", "CS", "CCCC"],
}


@pytest.fixture(scope="module")
def zinc(datasets):
    """The subset, loaded once."""
    return load(DataConfig(dataset="zinc", data_dir=datasets), SPEC)


def _full(folder, rows=None):
    """`{train,val,test}.csv.gz` as the full set has them."""
    folder.mkdir(parents=True, exist_ok=True)
    label = 0.0
    for split, smiles in (rows or SMILES).items():
        with gzip.open(folder / f"{split}.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("smiles", "y"))
            for text in smiles:
                writer.writerow([text, label])
                label += 0.25
    return folder


def test_the_subset_has_12_000_molecules_in_the_official_split(zinc):
    assert {name: len(part) for name, part in zinc.splits.items()} == {
        "train": 10_000,
        "val": 1_000,
        "test": 1_000,
    }
    assert np.concatenate(list(zinc.splits.values())).tolist() == list(range(12_000))
    assert zinc.target_names == ("penalised_logp",)
    assert of_targets(zinc, "kind") == ("regression",)
    assert zinc.store.featurizer == "zinc"
    assert not np.isnan(zinc.labels).any()


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_labels_and_sizes_are_those_of_the_raw_files_in_their_order(zinc, datasets, split):
    """Read straight from the pickles and the index files, without PyTorch Geometric."""
    raw = datasets / "ZINC" / "raw"
    with open(raw / f"{split}.pickle", "rb") as file:
        molecules = pickle.load(file)
    with open(raw / f"{split}.index") as file:
        wanted = [int(number) for number in file.read().strip().split(",")]
    part = zinc.splits[split]
    labels = [float(molecules[index]["logP_SA_cycle_normalized"]) for index in wanted]
    sizes = [len(molecules[index]["atom_type"]) for index in wanted]
    np.testing.assert_allclose(zinc.labels[part, 0], labels, rtol=1e-6, atol=1e-7)
    assert zinc.store.sizes[part].tolist() == sizes


@pytest.mark.parametrize("layout", ["raw", "."])
def test_the_data_folder_may_be_any_of_three(zinc, datasets, tmp_path, monkeypatch, layout):
    """DIR, DIR/raw or DIR/ZINC/raw holds the files. The same files come from the same cache, so raw
    files are not read again."""
    from molsepnorm.data.datasets import zinc as module

    place = tmp_path / layout
    place.mkdir(parents=True, exist_ok=True)
    for file in (datasets / "ZINC" / "raw").iterdir():
        (place / file.name).symlink_to(file)
    monkeypatch.setattr(module, "_read_pickle", None)
    monkeypatch.setenv("MOLSEPNORM_DATA", str(tmp_path))
    for folder in (tmp_path, None):
        dataset = load(DataConfig(dataset="zinc", data_dir=folder), SPEC)
        assert (dataset.labels == zinc.labels).all()


def _few(folder, count: int):
    """Raw files of the right form with too few molecules."""
    import torch

    folder.mkdir(parents=True)
    molecule = {
        "atom_type": torch.tensor([0, 0]),
        "bond_type": torch.tensor([[0, 1], [1, 0]]),
        "logP_SA_cycle_normalized": torch.tensor([0.5]),
    }
    for split in ("train", "val", "test"):
        with open(folder / f"{split}.pickle", "wb") as file:
            pickle.dump([molecule] * count, file)
        (folder / f"{split}.index").write_text(",".join(map(str, range(count))) + "\n")


@pytest.mark.parametrize(("name", "count"), [("zinc", "10,000"), ("zinc-full", "220,011")])
def test_files_with_too_few_molecules_are_refused(tmp_path, name, count):
    """Truncated files must not pass for the benchmark, nor the subset's files for the full set."""
    _few(tmp_path / "ZINC" / "raw", 3)
    with pytest.raises(DataError, match=f"{name} should have {count} molecules in its train"):
        load(DataConfig(dataset=name, data_dir=tmp_path), SPEC)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No files and no network, and a cache in which nothing was downloaded before."""
    from torch_geometric.datasets import zinc as module

    def fail(*_, **__):
        raise OSError("[Errno -3] Temporary failure in name resolution")

    monkeypatch.setattr(module, "download_url", fail)
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_files_and_network_two_lines_say_what_to_fetch_and_where_to_put_it(
    offline, tmp_path, capfd
):
    with pytest.raises(DataError) as caught:
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
    why, what = str(caught.value).splitlines()
    assert str(tmp_path) in why and "name resolution" in why
    assert "molecules.zip" in what and "MOLSEPNORM_DATA=DIR" in what
    assert not list(offline.glob("*.store"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("layout", ["zinc", "."])
def test_the_full_set_from_tables(tmp_path, monkeypatch, layout):
    """Three small ones in its place: molecules, labels and splits in their order, which come from
    the cache until the files change."""
    from molsepnorm.molecules.featurize import get

    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path / layout)
    config = DataConfig(dataset="zinc-full", data_dir=tmp_path)
    dataset = load(config, SPEC)
    assert [dataset.splits[name].tolist() for name in SPLITS] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7],
        [8, 9, 10, 11],
    ]
    assert dataset.store.sizes.tolist() == [3, 6, 2, 4, 2, 3, 3, 2, 2, 2, 2, 4]
    assert dataset.labels[:, 0].tolist() == [number / 4 for number in range(12)]
    with monkeypatch.context() as patch:
        patch.setattr(type(get("zinc")), "__call__", None)
        assert (load(config, SPEC).labels == dataset.labels).all()
    _full(tmp_path / layout, {**SMILES, "val": ["C"]})
    set_zinc_sizes(monkeypatch, (5, 1, 4))
    assert len(load(config, SPEC).splits["val"]) == 1


def test_the_real_tables_have_the_size_of_the_full_set(datasets):
    for split in SPLITS:
        path = datasets / "zinc" / f"{split}.csv.gz"
        with gzip.open(path) as file:
            require_size("zinc-full", split, path, sum(1 for _ in file) - 1)


@pytest.mark.parametrize(
    ("val", "message"),
    [
        (["CC", "C1CC", "C"], r"val\.csv\.gz, line 3.*unclosed ring"),
        (["CC", "C"], r"3 molecules in its val split, and .*val\.csv\.gz has 2"),
        (b"smiles,y\nCC,inf\nCO,1\nCN,2\n", r"val\.csv\.gz"),
        (b"molecule,y\nCC,1\nCO,1\nCN,2\n", r"val\.csv\.gz"),
        (None, r"val\.csv\.gz"),
    ],
)
def test_damaged_tables_of_the_full_set_are_named(tmp_path, monkeypatch, val, message):
    """With the file, so that it can be fetched again. Other tables with such a name, as those of
    the subset, do not pass for it."""
    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path, {**SMILES, "val": val} if isinstance(val, list) else SMILES)
    path = tmp_path / "val.csv.gz"
    if isinstance(val, bytes):
        path.write_bytes(gzip.compress(val))
    elif val is None:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises((ConfigError, DataError, StorageError), match=message):
        load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)
