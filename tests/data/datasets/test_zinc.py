"""ZINC by name: the real files, the cache, and what is said where there are none."""

from __future__ import annotations

import csv
import gzip
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support import set_zinc_sizes

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.datasets.zinc import require_size
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, StorageError
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


def _full(folder, rows=None, header=("smiles", "y")):
    """`{train,val,test}.csv.gz` as the full set has them."""
    folder.mkdir(parents=True, exist_ok=True)
    label = 0.0
    for split, smiles in (rows or SMILES).items():
        with gzip.open(folder / f"{split}.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
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
    assert zinc.targets == ("penalised_logp",)
    assert zinc.kinds == ("regression",)
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


def test_the_graphs_are_those_that_the_smiles_give(zinc, datasets):
    """By way of the index into the full set's SMILES: atoms and bonds match as multisets."""
    from molsepnorm.molecules.featurize import get

    folder = datasets / "zinc"
    if not (folder / "test.index").exists():
        pytest.skip("the full set's SMILES are not there")
    with gzip.open(folder / "test.csv.gz", "rt") as file:
        full = list(csv.DictReader(file))
    wanted = [int(n) for n in (folder / "test.index").read_text().replace(",", " ").split()]
    starts = np.cumsum(zinc.store.sizes) - zinc.store.sizes
    for place in range(0, 1000, 50):
        row, number = full[wanted[place]], zinc.splits["test"][place]
        size, start = zinc.store.sizes[number], starts[number]
        atoms = zinc.store.atoms[start : start + size, 0]
        graph = get("zinc")(row["smiles"])
        assert sorted(atoms) == sorted(graph.atom_features[:, 0])
        assert int(zinc.store.degrees[start : start + size].sum()) == 2 * graph.num_bonds
        assert zinc.labels[number, 0] == pytest.approx(float(row["y"]), abs=0.01)


def test_the_second_load_comes_from_the_cache(zinc, datasets, monkeypatch):
    """The raw files are not read again."""
    from molsepnorm.data.datasets import zinc as module

    def refuse(*_, **__):
        raise AssertionError("read again")

    monkeypatch.setattr(module, "_read_pickle", refuse)
    again = load(DataConfig(dataset="zinc", data_dir=datasets), SPEC)
    assert (again.labels == zinc.labels).all()
    assert {k: len(v) for k, v in again.splits.items()} == {
        k: len(v) for k, v in zinc.splits.items()
    }


@pytest.mark.parametrize("layout", ["ZINC/raw", "raw", "."])
@pytest.mark.parametrize("by", ["setting", "environment"])
def test_the_data_folder_may_be_any_of_three(zinc, datasets, tmp_path, monkeypatch, layout, by):
    """DIR, DIR/raw or DIR/ZINC/raw holds the files; the same files come from the same cache."""
    place = tmp_path / layout
    place.mkdir(parents=True, exist_ok=True)
    for file in (datasets / "ZINC" / "raw").iterdir():
        (place / file.name).symlink_to(file)
    if by == "setting":
        monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
        dataset = load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
    else:
        monkeypatch.setenv("MOLSEPNORM_DATA", str(tmp_path))
        dataset = load(DataConfig(dataset="zinc"), SPEC)
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


def test_files_with_too_few_molecules_are_refused(tmp_path):
    """Truncated files must not pass for the benchmark; the message says what belongs there."""
    raw = tmp_path / "ZINC" / "raw"
    _few(raw, 3)
    with pytest.raises(
        DataError,
        match=f"zinc should have 10,000 molecules in its train split, and the files in {raw} "
        "give 3. Put train.pickle",
    ):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)


def test_the_subsets_files_do_not_pass_for_the_full_set(tmp_path):
    _few(tmp_path / "ZINC" / "raw", 4)
    with pytest.raises(DataError, match="zinc-full should have 220,011 molecules in its train"):
        load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)


def test_a_data_folder_that_is_read_only(tmp_path):
    """Nothing is written there, though PyTorch Geometric would."""
    raw = tmp_path / "data" / "ZINC" / "raw"
    _few(raw, 5)
    before = sorted(path for path in (tmp_path / "data").rglob("*"))
    for folder in (raw, raw.parent, raw.parent.parent):
        folder.chmod(0o555)
    try:
        with pytest.raises(DataError, match="give 5"):
            load(DataConfig(dataset="zinc", data_dir=tmp_path / "data"), SPEC)
    finally:
        for folder in (raw.parent.parent, raw.parent, raw):
            folder.chmod(0o755)
    assert sorted(path for path in (tmp_path / "data").rglob("*")) == before


def test_the_real_files_from_a_read_only_mount(zinc, datasets, tmp_path):
    """The real thing, where this user may mount: root is stopped by no permission bits."""
    place = tmp_path / "mount"
    place.mkdir()
    bind = ["mount", "--bind", "-o", "ro", str(datasets), str(place)]
    if not shutil.which("mount") or subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("only root can mount")
    try:
        subprocess.run(
            ["mount", "-o", "remount,bind,ro", str(place)], capture_output=True, check=False
        )
        if os.access(place, os.W_OK):
            pytest.skip("the mount is not read-only here")
        spec = EncodingSpec(bond_sizes=(3,), max_path_length=2)  # in no cache yet
        dataset = load(DataConfig(dataset="zinc", data_dir=place), spec)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    assert (dataset.labels == zinc.labels).all()


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


@pytest.mark.parametrize("name", ["zinc", "zinc-full"])
def test_without_files_and_network_two_lines_say_what_to_fetch_and_where_to_put_it(
    offline, name, capfd
):
    with pytest.raises(DataError) as caught:
        load(DataConfig(dataset=name), SPEC)
    why, what = str(caught.value).splitlines()
    assert "downloading it from https://" in why
    assert "name resolution" in why
    assert "molecules.zip" in what
    assert "train.index" in what
    assert "DIR/ZINC/raw" in what
    assert "--data-dir DIR" in what
    assert "MOLSEPNORM_DATA=DIR" in what
    assert not list(offline.glob("*.store"))
    assert capfd.readouterr().err == ""


def test_a_data_folder_without_the_files_is_named(offline, tmp_path):
    """Someone who gave a folder learns that it was looked at."""
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match=str(tmp_path / "mine")):
        load(DataConfig(dataset="zinc", data_dir=tmp_path / "mine"), SPEC)


def test_a_download_that_is_no_archive_is_told_the_same_way(offline, monkeypatch):
    """Some networks answer every address with a page of their own."""
    import zipfile

    from torch_geometric.datasets import zinc as module

    def page(*_, **__):
        raise zipfile.BadZipFile("File is not a zip file")

    monkeypatch.setattr(module, "download_url", page)
    with pytest.raises(DataError, match="molecules.zip"):
        load(DataConfig(dataset="zinc"), SPEC)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown data set 'zink'. Did you mean 'zinc'\?"):
        load(DataConfig(dataset="zink"), SPEC)


@pytest.mark.parametrize("layout", ["zinc", "."])
def test_the_full_set_from_tables(tmp_path, monkeypatch, layout):
    """Three small ones in its place: molecules, labels and splits in their order."""
    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path / layout)
    dataset = load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)
    assert [dataset.splits[name].tolist() for name in ("train", "val", "test")] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7],
        [8, 9, 10, 11],
    ]
    assert dataset.store.sizes.tolist() == [3, 6, 2, 4, 2, 3, 3, 2, 2, 2, 2, 4]
    assert dataset.labels[:, 0].tolist() == [number / 4 for number in range(12)]


def test_the_full_set_comes_from_the_cache_until_its_files_change(tmp_path, monkeypatch):
    from molsepnorm.molecules.featurize import get

    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path, {**SMILES, "val": ["CCC", "CCCC", "CCCCC"]})
    config = DataConfig(dataset="zinc-full", data_dir=tmp_path)
    first = load(config, SPEC)
    with monkeypatch.context() as patch:
        patch.setattr(type(get("zinc")), "__call__", None)
        assert (load(config, SPEC).labels == first.labels).all()
    _full(tmp_path, {**SMILES, "val": ["C"]})
    set_zinc_sizes(monkeypatch, (5, 1, 4))
    assert len(load(config, SPEC).splits["val"]) == 1


def test_another_version_of_rdkit_reads_the_tables_again(tmp_path, monkeypatch):
    """Its Kekulé structures and ring searches may differ."""
    from molsepnorm.molecules.featurize import descriptors, get

    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path, {**SMILES, "val": ["CCC", "CO", "NC"]})
    config = DataConfig(dataset="zinc-full", data_dir=tmp_path)
    load(config, SPEC)
    read = []
    many = type(get("zinc")).many
    monkeypatch.setattr(
        type(get("zinc")), "many", lambda self, smiles: read.extend(smiles) or many(self, smiles)
    )
    load(config, SPEC)
    assert not read
    monkeypatch.setattr(descriptors, "RDKIT_VERSION", "another")
    load(config, SPEC)
    assert len(read) == 12


@pytest.mark.parametrize("smiles", [["CCC"], ["CCC", "CC", "C"]])
def test_tables_of_other_molecules_do_not_pass_for_the_full_set(tmp_path, monkeypatch, smiles):
    """Such as those of the subset, or a table of one's own with such a name."""
    set_zinc_sizes(monkeypatch, (5, 2, 4))
    _full(tmp_path, {**SMILES, "val": smiles})
    with pytest.raises(
        DataError,
        match=rf"zinc-full should have 2 molecules in its val split, and .*val\.csv\.gz has "
        rf"{len(smiles)}: it is not a table of ZINC. Put train.csv.gz",
    ):
        load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)


def test_the_real_tables_have_the_size_of_the_full_set(datasets):
    for split in SPLITS:
        path = datasets / "zinc" / f"{split}.csv.gz"
        with gzip.open(path) as file:
            require_size("zinc-full", split, path, sum(1 for _ in file) - 1)


def test_the_full_set_may_lack_one_molecule_in_a_hundred(tmp_path, monkeypatch):
    """Public lists of its SMILES lack some."""
    sizes = (200, len(SMILES["val"]), len(SMILES["test"]))
    set_zinc_sizes(monkeypatch, sizes)
    _full(tmp_path, {**SMILES, "train": ["CC"] * 198})
    found = load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)
    assert [len(rows) for rows in found.splits.values()] == [198, *sizes[1:]]


@pytest.mark.parametrize("damage", ["cut", "not gzip", "no column", "no number", "nan", "inf"])
def test_damaged_tables_of_the_full_set_are_named(tmp_path, monkeypatch, damage):
    """With the file, so that it can be fetched again."""
    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path)
    path = tmp_path / "val.csv.gz"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "not gzip":
        path.write_bytes(b"<html>404</html>")
    elif damage == "no column":
        _full(tmp_path, header=("molecule", "label"))
    else:
        label = "high" if damage == "no number" else damage
        with gzip.open(path, "wt") as file:
            file.write(f"smiles,y\nCC,{label}\nCO,1\nCN,2\n")
    with pytest.raises((ConfigError, DataError, StorageError), match=r"csv\.gz"):
        load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)


def test_a_molecule_of_the_full_set_that_cannot_be_read_is_placed(tmp_path, monkeypatch):
    set_zinc_sizes(monkeypatch, (5, 3, 4))
    _full(tmp_path, {**SMILES, "test": ["CC", "C1CC"]})
    with pytest.raises(DataError, match=r"test\.csv\.gz, line 3.*unclosed ring") as caught:
        load(DataConfig(dataset="zinc-full", data_dir=tmp_path), SPEC)
    assert not isinstance(caught.value, InvalidMolecule)


def test_loading_prints_nothing(tmp_path):
    """PyTorch Geometric's announcements and progress bars stay out of the way."""
    raw = tmp_path / "ZINC" / "raw"
    _few(raw, 6)
    code = (
        "from molsepnorm.data.datasets import DataConfig, load\n"
        "from molsepnorm.molecules.encodings import EncodingSpec\n"
        "from molsepnorm.errors import DataError\n"
        "try:\n"
        f"    load(DataConfig(dataset='zinc', data_dir={str(tmp_path)!r}), "
        "EncodingSpec(bond_sizes=(3,)))\n"
        "except DataError:\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_damaged_raw_files_are_named(tmp_path):
    """With what belongs there in their place."""
    raw = tmp_path / "ZINC" / "raw"
    _few(raw, 3)
    (raw / "train.pickle").write_bytes(b"<html>404</html>")
    with pytest.raises(
        DataError, match=f"{raw}/train.pickle cannot be read as ZINC: .*\n.*molecules.zip"
    ):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
