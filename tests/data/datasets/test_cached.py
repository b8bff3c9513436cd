"""Stores and labels in the cache: used again, and made anew where they are damaged."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.data.datasets import NAMES, DataConfig, cached, list_sets, load
from molsepnorm.data.datasets.cached import NamedContent, cached_set
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec

SPEC = EncodingSpec((5, 6, 2), max_distance=5, max_path_length=3)
ZINC = EncodingSpec((3,))
SPLITS = {"train": [2, 0], "val": [1], "test": [3]}


@pytest.fixture
def encodings(monkeypatch, tmp_path) -> list[int]:
    """An empty cache, and the number of molecules of every call that encodes some for a store."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    found: list[int] = []
    plain = cached.encode

    def encode(graphs, *rest):
        found.append(len(graphs))
        return plain(graphs, *rest)

    monkeypatch.setattr(cached, "encode", encode)
    return found


def _damage(path) -> bytes:
    """Change a bit, and return the content before."""
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    return content


def test_another_target_encodes_nothing_again(tmp_path, encodings):
    """Nor does a table of the same molecules with other labels, weights and splits."""
    rows = [f"{'C' * (k + 1)},{k / 4},{k % 2},{'' if k % 3 else 1}" for k in range(30)]
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("smiles,a,b,w\n" + "\n".join(rows))
    two.write_text("c,smiles\n" + "\n".join(f"{k},{'C' * k}" for k in range(1, 31)))
    for table, settings in (
        (one, {"targets": ["a"]}),
        (one, {"targets": ["b"], "weight_column": "w", "split_seed": 5}),
        (two, {}),
    ):
        store = load(DataConfig(table=table, **settings), SPEC).store
        assert len(store) == 30
    assert encodings == [30]
    content = _damage(store.path)
    assert len(load(DataConfig(table=two), SPEC).store) == 30
    assert store.path.read_bytes() == content
    assert encodings == [30, 30]


@pytest.mark.parametrize("damage", ["none", "missing", "byte"])
def test_labels_of_a_named_set_lie_beside_its_stores(tmp_path, encodings, damage):
    """One file of labels for all encodings; if it is damaged, molecules are not encoded again."""
    raw = tmp_path / "raw"
    raw.touch()
    texts = ("C", "CC", "CCC", "CCO")
    labels = np.array([[k / 2, np.nan] for k in range(4)])

    def read():
        return NamedContent(map(featurize.get("zinc"), texts), labels, SPLITS)

    for spec in (ZINC, ZINC, EncodingSpec((3,), max_path_length=2)):
        store, found, splits = cached_set("some", [raw], "zinc", spec, read)
        assert len(store) == 4
        np.testing.assert_array_equal(found, labels)
        assert found.dtype == np.float32
        assert {name: part.tolist() for name, part in splits.items()} == SPLITS
        (path,) = store.path.parent.glob("*.labels")
        if damage == "byte":
            content = _damage(path)
        elif damage == "missing":
            path.unlink()
    assert encodings == [4, 4]
    cached_set("some", [raw], "zinc", ZINC, read)
    assert damage != "byte" or path.read_bytes() == content
    raw.write_text("changed")
    cached_set("some", [raw], "zinc", ZINC, read)
    assert encodings == [4, 4, 4]


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """An empty cache and no data folder."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(folder))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    return folder


def test_every_name_that_can_be_loaded_is_listed(empty_cache):
    sets = list_sets()
    assert tuple(each.name for each in sets) == NAMES
    assert all(each.about.metric and each.about.tasks for each in sets)
    assert {(each.raw, each.folder) for each in sets} == {("missing", None)}


def test_the_files_of_a_set_are_found(empty_cache, small_zinc):
    sets = {each.name: each for each in list_sets(small_zinc)}
    assert sets["zinc-full"].folder == small_zinc / "zinc"
