"""Stores and labels in the cache: used again, and made anew where they are unsound."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from molsepnorm import load_config
from molsepnorm.data.datasets import DataConfig, cached, load
from molsepnorm.data.datasets.cached import LabelledGraph, cached_set
from molsepnorm.data.store import GraphStore
from molsepnorm.files.arrays import write_arrays
from molsepnorm.files.digests import BLANK, write_sealed
from molsepnorm.molecules import featurize
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
    about = json.loads(header["__metadata__"]["about"])
    arrays = {name: np.array(array) for name, array in _arrays(path).items()}
    change(about, arrays)
    data = bytearray(content[start:])
    for name, entry in header.items():
        if name != "__metadata__":
            data[slice(*entry["data_offsets"])] = arrays[name].tobytes()
    header["__metadata__"] = {"sha256": BLANK, "about": json.dumps(about)}
    text = json.dumps(header).encode()
    write_sealed(path, [len(text).to_bytes(8, "little") + text + data])


def _arrays(path):
    store = GraphStore.open(path)
    names = ("sizes", "atoms", "degrees", "pairs", "rows")
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
        (lambda about, _: about.update(featurizer="zinc"), "it is made of other data"),
        (lambda about, _: about.update(max_bonds=10**9), "the largest number of bonds"),
        (_set("rows", 0, 1), "its rows are not the 21 of the table"),
        (lambda about, _: about.update(rejected=[[{}, "", ""]]), "is damaged"),
        (lambda about, _: about.update(rejected=None), "no graph store of schema"),
    ],
)
def test_a_store_that_is_not_sound_is_made_anew(config, tmp_path, change, message):
    before = load(config, SPEC)
    path = before.store.path
    content = path.read_bytes()
    _forge(path, change)
    again = load(config, SPEC)
    assert any(message in remark for remark in again.warnings)
    assert any(re.search(r"\.store is damaged .*it was made anew", r) for r in again.warnings)
    assert path.read_bytes() == content
    assert load(config, SPEC).warnings == before.warnings


@pytest.fixture
def encodings(monkeypatch) -> list[int]:
    """Number of molecules of every call that encodes some for a store."""
    found: list[int] = []
    plain = cached.encode

    def encode(graphs, *rest):
        found.append(len(graphs))
        return plain(graphs, *rest)

    monkeypatch.setattr(cached, "encode", encode)
    return found


def test_another_target_encodes_nothing_again(tmp_path, monkeypatch, encodings):
    """Nor does a table of the same molecules with other labels, weights and splits."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    rows = [f"{'C' * (k + 1)},{k / 4},{k % 2},{'' if k % 3 else 1}" for k in range(30)]
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("smiles,a,b,w\n" + "\n".join(rows))
    two.write_text("c,smiles\n" + "\n".join(f"{k},{'C' * k}" for k in range(1, 31)))
    for table, settings in (
        (one, {"targets": ["a"]}),
        (one, {"targets": ["b"], "weight_column": "w", "split_seed": 5}),
        (two, {}),
    ):
        assert len(load(DataConfig(table=table, **settings), SPEC).store) == 30
    assert encodings == [30]


ZINC = EncodingSpec((3,))
SPLITS = {"train": [2, 0], "val": [1], "test": [3]}


@pytest.fixture
def labelled_set(tmp_path, monkeypatch):
    """Return the store and the labels of four molecules, as a named set is loaded."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    read = featurize.get("zinc")

    def make(spec: EncodingSpec = ZINC):
        texts = enumerate(("C", "CC", "CCC", "CCO"))
        molecules = (LabelledGraph(k, read(text), (k / 2, np.nan)) for k, text in texts)
        return cached_set("some", "zinc", spec, 2, molecules, SPLITS)

    return make


def _require_expected(labels) -> None:
    np.testing.assert_array_equal(labels.values, [[k / 2, np.nan] for k in range(4)])
    assert labels.values.dtype == np.float32
    assert {name: part.tolist() for name, part in labels.splits.items()} == SPLITS


def test_labels_of_a_named_set_lie_beside_its_stores(labelled_set, tmp_path, encodings):
    """One file of labels for all encodings."""
    for spec in (ZINC, ZINC, EncodingSpec((3,), max_path_length=2)):
        store, labels = labelled_set(spec)
        assert len(store) == 4 and not store.warning
        _require_expected(labels)
    assert encodings == [4, 4]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".labels", ".store", ".store"]


@pytest.mark.parametrize("damage", ["missing", "byte", "other targets", "other molecules", "split"])
def test_damaged_labels_are_made_anew(labelled_set, tmp_path, encodings, damage):
    """Without encoding the molecules again."""
    labelled_set()
    (path,) = tmp_path.glob("*.labels")
    content = path.read_bytes()
    values = np.zeros((4, 2), dtype=np.float32)
    arrays = {name: np.array(part) for name, part in SPLITS.items()}
    path.unlink()
    if damage == "byte":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif damage == "split":
        write_arrays(path, {"labels": values, **arrays, "val": np.array([4])}, {})
    elif damage != "missing":
        shown = values[:, :1] if damage == "other targets" else values[:3]
        write_arrays(path, {"labels": shown, **arrays}, {})
    store, labels = labelled_set()
    _require_expected(labels)
    assert ("is damaged or no file of labels" in store.warning) == (damage != "missing")
    assert path.read_bytes() == content
    assert encodings == [4]
