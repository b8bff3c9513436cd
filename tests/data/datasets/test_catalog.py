"""The sets known by name: all of them, and what of them is on this machine."""

from __future__ import annotations

import pytest

from molsepnorm.data.datasets import NAMES, DataConfig, list_sets, load
from molsepnorm.data.store import SCHEMA
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import SIZES


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """An empty cache and no data folder."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(folder))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    return folder


def _sets(*args):
    return {each.name: each for each in list_sets(*args)}


def test_every_name_that_can_be_loaded_is_listed(empty_cache):
    sets = list_sets()
    assert tuple(each.name for each in sets) == NAMES
    assert all(each.about and each.metric and each.tasks for each in sets)
    assert {(each.raw, each.folder, each.stores) for each in sets} == {("missing", None, 0)}


def test_stores_are_counted_once_for_each_encoding(empty_cache, small_zinc):
    """Those of tables and of other schemas are not."""
    for name in (f"zinc-0123-b3-l5-s{SCHEMA}", f"zinc-zinc-0123-b3-l5-s{SCHEMA + 1}"):
        (empty_cache / f"{name}.store").touch()
    config = DataConfig(dataset="zinc-full", data_dir=small_zinc)
    for length in (1, 2, 2):
        load(config, EncodingSpec(SIZES["zinc"].bonds, max_path_length=length))
    sets = _sets(small_zinc)
    assert {name: each.stores for name, each in sets.items() if each.stores} == {"zinc-full": 2}
    assert sets["zinc-full"].folder == small_zinc / "zinc"
    assert sets["zinc-rich"].raw == "incomplete"
