"""ZINC's pickles: tensors are read, and nothing else that a file calls is run."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict

import pytest
import torch

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.data.datasets.zinc import RAW_FILES
from molsepnorm.errors import DataError
from molsepnorm.molecules.encodings import EncodingSpec


class Call:
    """Pickled, a call."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


SPEC = EncodingSpec(bond_sizes=(3,), max_path_length=5)
MOLECULE = {
    "atom_type": torch.tensor([0, 1]),
    "bond_type": torch.tensor([[0, 2], [2, 0]]),
    "logP_SA_cycle_normalized": torch.tensor([0.5]),
}


def _raw(folder, molecules):
    raw = folder / "ZINC" / "raw"
    raw.mkdir(parents=True)
    for file in RAW_FILES:
        if file.endswith(".index"):
            (raw / file).write_text(",".join(map(str, range(len(molecules)))) + "\n")
        else:
            (raw / file).write_bytes(pickle.dumps(molecules))
    return raw


@pytest.mark.parametrize("place", ["alone", "nested", "in a tensor", "in a storage"])
def test_nothing_that_a_file_calls_is_run(tmp_path, place):
    """Wherever the call is, the file is refused by name."""
    target = tmp_path / "run"
    call = Call(os.system, f"touch {target}")
    if place == "nested":
        call = {"a": torch.zeros(2), "b": [(1, {"c": call})]}
    elif place == "in a tensor":
        call = Call(torch._utils._rebuild_tensor_v2, call, 0, (1,), (1,), False, OrderedDict())
    elif place == "in a storage":
        call = Call(torch.storage._load_from_bytes, pickle.dumps(call))
    raw = _raw(tmp_path, [call])
    with pytest.raises(DataError, match=f"{raw}/train.pickle cannot be read as ZINC"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"<html>404</html>",
        b"\x80\x04]",  # cut
        pickle.dumps({"a": 1}),
        pickle.dumps([Call(torch.storage._load_from_bytes, 10**15)]),
        pickle.dumps([Call(torch._utils._rebuild_tensor_v2)]),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content):
    raw = _raw(tmp_path, [MOLECULE])
    (raw / "train.pickle").write_bytes(content)
    with pytest.raises(DataError, match=f"{raw}/train.pickle cannot be read as ZINC"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)


def test_malicious_files_that_pytorch_geometric_processed_run_nothing(tmp_path, monkeypatch):
    """Its `torch.load` falls back on running what a file calls; ours are read from raw files."""
    target, root = tmp_path / "run", tmp_path / "cache" / "pyg" / "ZINC"
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    _raw(tmp_path / "cache" / "pyg", [MOLECULE])
    (root / "subset" / "processed").mkdir(parents=True)
    for name in ("train", "val", "test", "pre_transform", "pre_filter"):
        torch.save(Call(os.system, f"touch {target}"), root / "subset/processed" / f"{name}.pt")
    with pytest.raises(DataError, match="give 1"):
        load(DataConfig(dataset="zinc"), SPEC)
    assert not target.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"atom_type": [0, 1]}, "should have tensors atom_type"),
        ({"bond_type": torch.zeros(2, 3)}, r"should have shapes \[N\], \[N, N\] and \[1\]; got"),
        ({"bond_type": torch.tensor([[1, 1], [1, 0]])}, "bonded to itself"),
        ({"atom_type": torch.tensor([0, 28])}, "should lie in 0 … 27 .* found 28"),
        ({"logP_SA_cycle_normalized": torch.tensor([float("nan")])}, "the label finite"),
        ({"atom_type": torch.zeros(0), "bond_type": torch.zeros(0, 0)}, "has no atoms"),
    ],
)
def test_a_molecule_that_does_not_fit_is_named(tmp_path, monkeypatch, change, message):
    from molsepnorm.data.datasets import zinc

    about = zinc.SETS["zinc"]._replace(sizes=(2, 2, 2))
    monkeypatch.setitem(zinc.SETS, "zinc", about)
    raw = _raw(tmp_path, [MOLECULE, {**MOLECULE, **change}])
    with pytest.raises(DataError, match=f"train.pickle, molecule 1, counted from 0.*{message}"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
    (raw / "train.index").write_text("0,2\n")
    with pytest.raises(DataError, match="train.index should list 2 different rows of train.pick"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
