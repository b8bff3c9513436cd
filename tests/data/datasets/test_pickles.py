"""ZINC's pickles: what tensors they hold, and that nothing that they call is run."""

from __future__ import annotations

import builtins
import os
import pickle
import struct
import subprocess
from collections import OrderedDict

import numpy as np
import pytest
import torch

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.data.datasets.pickles import Tensor, read_molecules
from molsepnorm.data.datasets.zinc import RAW_FILES
from molsepnorm.errors import DataError, StorageError
from molsepnorm.molecules.encodings import EncodingSpec

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float32", "float64", "bool"]


class Call:
    """Pickled, a call."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def _read(path, content):
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    return read_molecules(path)


def _storage(values: torch.Tensor) -> bytes:
    """Take the storage of a pickled tensor apart."""
    _, (storage, *_) = values.__reduce_ex__(2)
    _, (content,) = storage.__reduce__()
    return content


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_are_read_as_pytorch_reads_them(tmp_path, dtype, protocol):
    """Tensors of every type, contiguous or not, from any version of pickle's protocol."""
    values = torch.arange(12).to(getattr(torch, dtype))
    tensors = [values, values.reshape(3, 4).T, values[5:7], values[::3], values[:0], values[3]]
    path = tmp_path / "x.pickle"
    path.write_bytes(pickle.dumps([{"a": tensor} for tensor in tensors], protocol))
    for read, tensor in zip(read_molecules(path), tensors, strict=True):
        array = read["a"].numpy()
        assert array.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(array, tensor.numpy())


def test_plain_values_are_read(tmp_path):
    content = [{"n": 3, "x": 0.5, "who": "é", "of": (None, True, b"1")}, OrderedDict(a=[{}])]
    assert _read(tmp_path / "x.pickle", content) == content


HOSTILE = {
    "os.system": lambda target: Call(os.system, f"touch {target}"),
    "builtins.eval": lambda target: Call(builtins.eval, f"open({str(target)!r}, 'w')"),
    "builtins.exec": lambda target: Call(builtins.exec, f"open({str(target)!r}, 'w')"),
    "subprocess.run": lambda target: Call(subprocess.run, ["touch", str(target)]),
    "builtins.getattr": lambda target: Call(getattr, "x", "upper"),
    "builtins.open": lambda target: Call(open, str(target), "w"),
    "torch.load": lambda target: Call(torch.load, str(target)),
    "np.load": lambda target: Call(np.load, str(target), None, True),
}


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("place", ["alone", "nested", "in a tensor", "in a storage", "as state"])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_a_pickle_calls_is_run(tmp_path, monkeypatch, name, place, protocol):
    """Wherever the call stands, the file is refused, and what was found is said."""
    target, path = tmp_path / "run", tmp_path / "x.pickle"
    call = HOSTILE[name](target)
    if place == "nested":
        call = [{"a": torch.zeros(2), "b": [(1, {"c": call})]}]
    elif place == "in a tensor":
        call = [Call(torch._utils._rebuild_tensor_v2, call, 0, (1,), (1,), False, OrderedDict())]
    elif place == "in a storage":
        inner = pickle.dumps(call, protocol)
        call = [Call(torch.storage._load_from_bytes, inner)]
    elif place == "as state":
        call = [Call(OrderedDict, state={"x": call})]
    path.write_bytes(pickle.dumps(call, protocol))
    if place == "in a storage":
        (storage,) = read_molecules(path)
        with pytest.raises(pickle.UnpicklingError, match="nothing in it was run"):
            Tensor(storage, 0, (1,), (1,)).numpy()
    else:
        with pytest.raises(pickle.UnpicklingError, match="nothing in it was run"):
            read_molecules(path)
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    {
        "state": b"ccollections\nOrderedDict\n}b.",
        "new object": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "instance": b"(icollections\nOrderedDict\n.",
        "object": b"(ccollections\nOrderedDict\no.",
        "extension": b"\x80\x02\x82\x01.",
        "buffer": b"\x80\x05\x97.",
        "unknown": b"\xff.",
    }.values(),
)
def test_other_ways_to_make_objects_are_refused(tmp_path, content):
    with pytest.raises(pickle.UnpicklingError, match=r"the instruction \d+ is not allowed"):
        _read(tmp_path / "x.pickle", content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>404</html>",
        b"\x80\x04]",  # cut
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",  # so many bytes are declared
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"x.",
        b"]r\xff\xff\xff\xff.",  # an entry of the memo
        b"\x8b\xff\xff\xff\x7fx.",  # an integer
        b"I" + b"9" * 5000 + b"\n.",
        b"(" * 200_000 + b"l" + b"t" * 50,
        b"0.",
        b"h\x05.",
        pickle.dumps({"a": 1}),
        pickle.dumps([Call(torch.storage._load_from_bytes, 10**15)]),
        pickle.dumps([Call(torch._utils._rebuild_tensor_v2, b"", 0, 3, (1,), False, None)]),
        pickle.dumps([Call(torch._utils._rebuild_tensor_v2)]),
        b"c_codecs\nencode\n(I1\nVlatin1\ntR.",
        b"c_codecs\nencode\n(VAAAA\nVzip\ntR.",
    ],
)
def test_damaged_pickles_are_refused(tmp_path, content):
    """Without an error of another kind, and without the memory that they declare."""
    path = tmp_path / "x.pickle"
    path.write_bytes(content)
    if content.startswith(b"]r"):  # harmless, since the memo is a dictionary
        assert read_molecules(path) == []
        return
    with pytest.raises(pickle.UnpicklingError):
        read_molecules(path)


FOUR = _storage(torch.arange(4))


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (0, (5,), (1,)),
        (1, (4,), (1,)),
        (-1, (2,), (1,)),
        (0, (-1,), (1,)),
        (0, (2,), (-1,)),
        (0, (2, 2), (1,)),
        (0, (10**6, 10**6), (0, 0)),
        (0, (10**30,), (1,)),
        (0, (2,), (3.0,)),
        (0, ("2",), (1,)),
        (None, (2,), (1,)),
        (True, (2,), (1,)),
    ],
)
def test_a_tensor_beyond_its_storage_is_refused(offset, size, stride):
    with pytest.raises(pickle.UnpicklingError, match="does not fit into its storage of 4 elements"):
        Tensor(FOUR, offset, size, stride).numpy()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (FOUR[-40:-32], struct.pack("<q", 5), "two different lengths"),
        (FOUR[-8:], b"", "declares 4 elements and has 24 bytes"),
        (FOUR[-8:], b"\0" * 9, "declares 4 elements and has 33 bytes"),
        (b"LongStorage", b"HalfStorage", "it calls torch.HalfStorage"),
        (b"storage", b"package", "is not in PyTorch's format"),
    ],
)
def test_a_storage_that_is_damaged_is_refused(old, new, message):
    head, found, tail = FOUR.rpartition(old)
    assert found
    with pytest.raises(pickle.UnpicklingError, match=message):
        Tensor(head + new + tail, 0, (4,), (1,)).numpy()


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="no such file"):
        read_molecules(tmp_path / "x.pickle")


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


def test_a_malicious_file_in_a_data_folder_runs_nothing(tmp_path):
    """The message names the file, what it calls, and what belongs there."""
    target = tmp_path / "run"
    raw = _raw(tmp_path, [Call(os.system, f"touch {target}")])
    message = rf"{raw}/train.pickle cannot be read as ZINC: it calls (posix|nt).system, .* attack"
    with pytest.raises(DataError, match=message):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
    assert not target.exists()


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
        ({"bond_type": torch.tensor([[0, 1], [2, 0]])}, "should be symmetric"),
        ({"bond_type": torch.tensor([[1, 1], [1, 0]])}, "bonded to itself"),
        ({"bond_type": torch.tensor([[0, 4], [4, 0]])}, r"bond_type in 0 … 3; found 1 and 4"),
        ({"atom_type": torch.tensor([0, 28])}, "should lie in 0 … 27 .* found 28"),
        ({"atom_type": torch.tensor([0, -1])}, "must lie in 0"),
        ({"logP_SA_cycle_normalized": torch.tensor([float("nan")])}, "the label finite"),
        ({"atom_type": torch.zeros(0), "bond_type": torch.zeros(0, 0)}, "does not fit"),
    ],
)
def test_a_molecule_that_does_not_fit_is_named(tmp_path, monkeypatch, change, message):
    from molsepnorm.data.datasets import zinc

    about = zinc.SETS["zinc"]._replace(sizes=(2, 2, 2))
    monkeypatch.setitem(zinc.SETS, "zinc", about)
    _raw(tmp_path, [MOLECULE, {**MOLECULE, **change}])
    with pytest.raises(DataError, match=f"train.pickle, molecule 1, counted from 0.*{message}"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)


def test_an_index_beyond_the_pickle_is_refused(tmp_path, monkeypatch):
    from molsepnorm.data.datasets import zinc

    about = zinc.SETS["zinc"]._replace(sizes=(2, 2, 2))
    monkeypatch.setitem(zinc.SETS, "zinc", about)
    raw = _raw(tmp_path, [MOLECULE, MOLECULE])
    (raw / "val.index").write_text("0,2\n")
    with pytest.raises(DataError, match=r"val.index should list 2 different rows of val.pickle"):
        load(DataConfig(dataset="zinc", data_dir=tmp_path), SPEC)
