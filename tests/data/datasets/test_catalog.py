"""The sets known by name: all of them, and what of them is on this machine."""

from __future__ import annotations

import gzip

import pytest
from support import set_zinc_sizes

from molsepnorm.data.datasets import NAMES, DataConfig, load
from molsepnorm.data.datasets.catalog import list_sets
from molsepnorm.data.store import SCHEMA
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import SIZES


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """An empty cache and no data folder; `cached(name)` puts a store of that name there."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(folder))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    return lambda name: (folder / name).touch()


def _sets(*args):
    return {each.name: each for each in list_sets(*args)}


def test_every_name_that_can_be_loaded_is_listed(cached):
    sets = list_sets()
    assert tuple(each.name for each in sets) == NAMES
    assert all(each.about and each.metric and each.tasks for each in sets)
    assert {(each.raw, each.folder, each.stores) for each in sets} == {("missing", None, 0)}


SOME = "0123456789abcdef01234567-b3-g15-d39"  # a digest, and the sizes of an encoding


@pytest.mark.parametrize(
    ("name", "store"),
    [
        ("zinc", f"zinc-zinc-downloaded-b3-g15-d39-l5-s{SCHEMA}.store"),
        ("zinc-full", f"zinc-csv-{SOME}-l5-s{SCHEMA}.store"),
        ("ogbg-molhiv", f"ogb-ogbg-molhiv-{SOME}-l5-s{SCHEMA}.store"),
        (None, f"zinc-{SOME}-l5-s{SCHEMA}.store"),  # a table's
        (None, f"zinc-zinc-{SOME}-l5-s{SCHEMA + 1}.store"),
    ],
)
def test_stores_are_counted_where_they_belong(cached, name, store):
    cached(store)
    assert {each.name: each.stores for each in list_sets() if each.stores} == (
        {name: 1} if name else {}
    )


def test_a_store_that_loading_made_is_counted(cached, tmp_path, monkeypatch):
    """Once for each encoding."""
    set_zinc_sizes(monkeypatch, (1, 1, 1))
    for split in ("train", "val", "test"):
        with gzip.open(tmp_path / f"{split}.csv.gz", "wt") as file:
            file.write("smiles,y\nCCO,1\n")
    assert _sets(tmp_path)["zinc-full"].folder == tmp_path
    config, bonds = DataConfig(dataset="zinc-full", data_dir=tmp_path), SIZES["zinc"].bonds
    for length in (1, 2, 2):
        load(config, EncodingSpec(bonds, max_path_length=length))
    stores = {name: each.stores for name, each in _sets(tmp_path).items() if each.stores}
    assert stores == {"zinc-full": 2}


def test_raw_files_of_the_data_folder(cached, datasets, monkeypatch):
    """Given, or named by the environment."""
    here = {name for name, each in _sets(datasets).items() if each.raw == "here"}
    assert {"zinc", "ogbg-molhiv"} <= here
    monkeypatch.setenv("MOLSEPNORM_DATA", str(datasets))
    sets = _sets()
    assert {name for name, each in sets.items() if each.raw == "here"} == here
    assert sets["ogbg-molhiv"].folder == datasets / "ogbg_molhiv"


def test_raw_files_that_are_not_complete(cached, tmp_path):
    (tmp_path / "ogbg_molhiv" / "raw").mkdir(parents=True)
    (tmp_path / "ZINC" / "raw").mkdir(parents=True)
    sets = _sets(tmp_path)
    assert (sets["ogbg-molhiv"].raw, sets["ogbg-molhiv"].folder) == ("incomplete", None)
    assert sets["zinc"].raw == "missing"
