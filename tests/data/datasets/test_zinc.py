"""ZINC by name: the real files, files that are none, and what is said where there are no files."""

from __future__ import annotations

import gzip
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

from molsepnorm.data.datasets import DataConfig, load, named, zinc
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.errors import DataError, MolsepnormError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.tasks import Target

SPEC = EncodingSpec(bond_sizes=(3,), max_path_length=5)
SMILES = ("CCO", "c1ccccc1", "C[NH3+]", "CC(=O)[O-]", "N#N")
MOLECULE = {
    "atom_type": torch.tensor([0, 1]),
    "bond_type": torch.tensor([[0, 2], [2, 0]]),
    "logP_SA_cycle_normalized": torch.tensor([0.5]),
}


@pytest.fixture(scope="module")
def official(datasets):
    """The subset, loaded once."""
    return load(DataConfig(dataset="zinc", data_dir=datasets), SPEC)


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A data folder with five molecules in each split."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    for name, sizes in (("zinc", (2, 2, 2)), ("zinc-full", (5, 5, 5))):
        monkeypatch.setitem(zinc.SIZES, name, sizes)
    folder = tmp_path / "zinc"
    folder.mkdir()
    for split in SPLITS:
        table = "smiles,y\n" + "".join(f"{text},{row / 4}\n" for row, text in enumerate(SMILES))
        (folder / f"{split}.csv.gz").write_bytes(gzip.compress(table.encode()))
    return tmp_path


def _load(folder, name):
    return load(DataConfig(dataset=name, data_dir=folder), SPEC)


def _pickles(folder, molecules):
    raw = folder / "ZINC" / "raw"
    raw.mkdir(parents=True)
    for split in SPLITS:
        (raw / f"{split}.pickle").write_bytes(pickle.dumps(molecules))
        (raw / f"{split}.index").write_text(",".join(map(str, range(len(molecules)))) + "\n")
    return raw


def test_the_subset_has_12_000_molecules_in_the_official_split(official):
    assert [len(official.splits[name]) for name in SPLITS] == [10_000, 1_000, 1_000]
    assert np.concatenate(list(official.splits.values())).tolist() == list(range(12_000))
    assert official.targets == (Target("penalised_logp", "regression"),)
    assert official.store.featurizer == "zinc"


def test_labels_and_sizes_are_those_of_the_raw_files_in_their_order(official, datasets):
    """Read straight from the pickles and the index files, without PyTorch Geometric."""
    raw = datasets / "ZINC" / "raw"
    for split in ("val", "test"):
        with open(raw / f"{split}.pickle", "rb") as file:
            molecules = pickle.load(file)
        wanted = [int(number) for number in (raw / f"{split}.index").read_text().split(",")]
        part = official.splits[split]
        labels = [float(molecules[index]["logP_SA_cycle_normalized"]) for index in wanted]
        sizes = [len(molecules[index]["atom_type"]) for index in wanted]
        np.testing.assert_allclose(official.labels[part, 0], labels, rtol=1e-6, atol=1e-7)
        assert official.store.sizes[part].tolist() == sizes


def test_tables_are_read_whole(few):
    full = _load(few, "zinc-full")
    assert [full.splits[name].tolist() for name in SPLITS] == [
        [*range(5)],
        [*range(5, 10)],
        [*range(10, 15)],
    ]
    assert full.store.sizes.tolist() == [3, 6, 2, 4, 2] * 3
    assert full.labels[:, 0].tolist() == [number / 4 for number in range(5)] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"smiles,y\nCC,1\nC1CC,1\n" + b"C,1\n" * 3, r"val\.csv\.gz, line 3.*unclosed ring"),
        (b"smiles,y\nCC,1\n", r"5 molecules in its val split, and .*val\.csv\.gz has 1"),
        (b"smiles,y\nCC,inf\n" + b"C,1\n" * 4, r"val\.csv\.gz, column 'y'"),
    ],
)
def test_a_table_that_is_none_of_zinc_s(few, content, message):
    (few / "zinc" / "val.csv.gz").write_bytes(gzip.compress(content))
    with pytest.raises(MolsepnormError, match=message):
        _load(few, "zinc-full")


@pytest.mark.parametrize("rows", ["0", "0,-1", "1,1", "0,x"])
def test_an_index_that_is_not_the_subset_s(few, rows):
    (_pickles(few, [MOLECULE] * 2) / "val.index").write_text(rows)
    with pytest.raises(DataError, match=r"val\.index should list 2 different rows of val\.pickle"):
        _load(few, "zinc")


def test_without_files_and_network_it_is_said_what_to_put_where(tmp_path, monkeypatch, capfd):
    def fail(url, timeout):
        raise OSError("[Errno -3] Temporary failure in name resolution")

    monkeypatch.setattr(named, "urlopen", fail)
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    message = "name resolution. Put train.pickle, .* into DIR/ZINC/raw and give --data-dir"
    with pytest.raises(DataError, match=message):
        _load(tmp_path, "zinc")
    assert capfd.readouterr().err == ""
    (tmp_path / "zinc").mkdir()
    (tmp_path / "zinc" / "val.csv.gz").touch()
    with pytest.raises(DataError, match=r"zinc lacks train\.csv\.gz, test\.csv\.gz"):
        _load(tmp_path, "zinc-full")


class Call:
    """Pickled, a call."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


ATTACK = Call(os.system, "touch run")
IN_STORAGE = Call(torch.storage._load_from_bytes, pickle.dumps(ATTACK))
TENSOR = (0, (1,), (1,), False, OrderedDict())


@pytest.mark.parametrize(
    "content",
    [
        b"<html>404</html>",
        b"\x80\x04]",  # cut
        {"a": 1},
        [Call(torch.storage._load_from_bytes, 10**15)],
        [Call(torch._utils._rebuild_tensor_v2)],
        [ATTACK],
        [{"a": torch.zeros(2), "b": [(1, {"c": ATTACK})]}],
        [Call(torch._utils._rebuild_tensor_v2, ATTACK, *TENSOR)],
        [Call(torch._utils._rebuild_tensor_v2, IN_STORAGE, *TENSOR)],
    ],
)
def test_a_damaged_pickle_is_refused_and_nothing_that_one_calls_is_run(
    tmp_path, monkeypatch, content
):
    """Wherever the call is, the file is refused by name."""
    monkeypatch.chdir(tmp_path)
    path = _pickles(tmp_path, [MOLECULE]) / "train.pickle"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    with pytest.raises(DataError, match=f"{path} cannot be read as ZINC"):
        _load(tmp_path, "zinc")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"atom_type": [0, 1]}, r"should have shapes \[N\], \[N, N\] and \[1\]"),
        ({"logP_SA_cycle_normalized": torch.tensor([float("nan")])}, "the label finite"),
        ({"atom_type": torch.zeros(0), "bond_type": torch.zeros(0, 0)}, "has no atoms"),
    ],
)
def test_a_pickled_molecule_that_does_not_fit_is_named(few, change, message):
    _pickles(few, [MOLECULE, {**MOLECULE, **change}])
    with pytest.raises(DataError, match=f"train.pickle, molecule 1, counted from 0.*{message}"):
        _load(few, "zinc")
