"""`list_sets`: the data sets known by name, and what of them is on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from molsepnorm.data.datasets import ogb, zinc
from molsepnorm.data.datasets.dataset import data_folder
from molsepnorm.data.datasets.ogb.files import find_folder
from molsepnorm.data.store import SCHEMA
from molsepnorm.errors import DataError
from molsepnorm.files.writing import cache_folder
from molsepnorm.tasks.metrics import Kind

__all__ = ["NamedSet", "list_sets"]


@dataclass(frozen=True)
class NamedSet:
    """A data set known by name."""

    name: str
    about: str
    molecules: int | None
    """None where its source does not say."""
    tasks: int
    kind: Kind
    metric: str
    """The one by which papers compare."""
    raw: Literal["here", "incomplete", "missing"]
    """Whether its raw files are in the data folder, or were downloaded before; what is missing is
    downloaded when the set is first used, but for zinc-rich's SMILES."""
    folder: Path | None
    """Where they are."""
    stores: int
    """How many stores in the cache are made of it: one for each encoding."""


def list_sets(data_dir: Path | None = None) -> tuple[NamedSet, ...]:
    """Every set that `data.dataset` can name. Nothing is downloaded.

    >>> [(each.name, each.molecules, each.tasks) for each in list_sets()][:2]
    [('zinc', 12000, 1), ('zinc-full', 249456, 1)]

    Args:
        data_dir: where raw files lie; $MOLSEPNORM_DATA where it is not given.
    """
    data_dir = data_folder(data_dir)
    stores = [path.name for path in cache_folder().glob(f"*-s{SCHEMA}.store")]
    return (*_zinc(data_dir, stores), *_ogb(data_dir, stores))


def _zinc(data_dir: Path | None, stores: Sequence[str]) -> Iterator[NamedSet]:
    pickles = zinc.find_files(data_dir, "ZINC/raw", zinc.RAW_FILES)
    pickles = pickles or zinc.find_files(cache_folder() / "pyg", "ZINC/raw", zinc.RAW_FILES)
    tables = zinc.find_files(data_dir, "zinc", zinc.TABLES)
    smiles = zinc.find_files(data_dir, "zinc", (*zinc.TABLES, *zinc.INDICES))
    sources = {
        "zinc": (pickles, "zinc"),
        "zinc-full": (tables or pickles, "zinc-full|csv"),
        "zinc-rich": (smiles, "zinc-rich"),
    }
    for name, each in zinc.SETS.items():
        folder, keys = sources[name]
        yield NamedSet(
            name=name,
            about=f"penalised logP of drug-like molecules, {each.about}",
            molecules=sum(each.sizes),
            tasks=1,
            kind="regression",
            metric="mae",
            raw="here" if folder else "missing",
            folder=folder,
            stores=_count(stores, each.featurizer, keys),
        )


def _ogb(data_dir: Path | None, stores: Sequence[str]) -> Iterator[NamedSet]:
    for each in ogb.SETS.values():
        folder: Path | None = None
        raw: Literal["here", "incomplete", "missing"] = "missing"
        try:
            folder = find_folder(each.name, data_dir) or find_folder(
                each.name, cache_folder() / "ogb"
            )
        except DataError:
            raw = "incomplete"
        yield NamedSet(
            name=each.name,
            about=each.about,
            molecules=each.molecules,
            tasks=each.num_tasks,
            kind=each.kind,
            metric=each.metric,
            raw="here" if folder else raw,
            folder=folder,
            stores=_count(stores, ogb.FEATURIZER, each.name),
        )


def _count(stores: Sequence[str], featurizer: str, keys: str) -> int:
    """How many of these names of stores begin so: <featuriser>-<key>-<fingerprint>-b…"""
    pattern = re.compile(rf"{featurizer}-(?:{keys})-(?:[0-9a-f]+|downloaded)-b\d")
    return sum(pattern.match(name) is not None for name in stores)
