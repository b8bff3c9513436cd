"""A store in the cache is made anew where it is not what its name says, also if its digest fits."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from molsepnorm import load_config
from molsepnorm.data.datasets import load
from molsepnorm.data.store import GraphStore
from molsepnorm.files.digests import BLANK, write_sealed
from molsepnorm.molecules.encodings import EncodingSpec

SPEC = EncodingSpec((5, 6, 2), max_distance=5, max_path_length=3)


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    rows = "".join(f"{'C' * (k + 1)},{k % 3}\n" for k in range(20)) + "C1CC,1\n"
    (tmp_path / "data.csv").write_text(f"smiles,y\n{rows}")
    return load_config(tmp_path / "data.csv", overrides={"data.targets": ["y"]}).data


def _forge(path, change) -> None:
    """Change the header and the arrays of a store, which gets the digest that fits."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    about = json.loads(header["__metadata__"]["store"])
    arrays = {name: np.array(array) for name, array in _arrays(path).items()}
    change(about, arrays)
    data = bytearray(content[start:])
    for name, entry in header.items():
        if name != "__metadata__":
            data[slice(*entry["data_offsets"])] = arrays[name].tobytes()
    header["__metadata__"] = {"sha256": BLANK, "store": json.dumps(about)}
    text = json.dumps(header).encode()
    write_sealed(path, [len(text).to_bytes(8, "little") + text + data])


def _arrays(path):
    store = GraphStore.open(path)
    names = ("sizes", "atoms", "degrees", "pairs", "labels", "rows")
    found = {name: getattr(store, name) for name in names}
    return found | {
        f"path_{name}": getattr(store.paths, name) for name in ("parents", "bonds", "depths")
    }


def _set(name, place, value):
    return lambda about, arrays: arrays[name].__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("pairs", 7, 60_000), "a pair has a path that does not exist"),
        (_set("sizes", 0, -1), "the size of a molecule is out of range"),
        (_set("atoms", 0, 200), "an atom feature is out of range"),
        (lambda about, _: about.update(targets=["z"]), "it is made of other data"),
        (lambda about, _: about.update(featurizer="zinc"), "it is made of other data"),
        (lambda about, _: about["encoding"].update(max_distance=9), "it is made of other data"),
        (lambda about, _: about.update(max_bonds=10**9), "the largest number of bonds"),
    ],
)
def test_a_store_that_is_not_sound_is_made_anew(config, tmp_path, change, message):
    before = load(config, SPEC)
    path = before.store.path
    content = path.read_bytes()
    _forge(path, change)
    again = load(config, SPEC)
    assert any(message in remark for remark in again.remarks)
    assert any(re.search(r"\.store is damaged .*it was made anew", r) for r in again.remarks)
    assert path.read_bytes() == content
    assert load(config, SPEC).remarks == before.remarks


@pytest.mark.parametrize(
    "change",
    [
        _set("rows", 0, 10**6),
        _set("rows", 0, 1),
        lambda about, _: about["notes"].update(rejected=[]),
        lambda about, _: about["notes"].update(rejected=[[0]]),
        lambda about, _: about["notes"].update(rejected=[[{}, "", ""]]),
        lambda about, _: about.update(notes={}),
        lambda about, _: about.update(notes=None),
    ],
)
def test_a_store_of_other_rows_is_refused(config, change):
    """With what to do."""
    path = load(config, SPEC).store.path
    _forge(path, change)
    with pytest.raises(OSError, match=r"\.store is damaged: .*delete it, and it will be made anew"):
        load(config, SPEC)
