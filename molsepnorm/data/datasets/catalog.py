"""`list_sets`: the named data sets, and their files on this machine."""

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


@dataclass(frozen=True)
class NamedSet:
    """A named data set and its files on this machine."""

    name: str
    about: str
    molecules: int | None
    """Number of molecules; None if its source does not state it."""
    tasks: int
    kind: Kind
    metric: str
    """The metric of the literature."""
    raw: Literal["here", "incomplete", "missing"]
    """State of its raw files, in the data folder or the cache. Missing files are downloaded at
    first use, except the SMILES of zinc-rich."""
    folder: Path | None
    """Folder of the raw files."""
    stores: int
    """Number of its stores in the cache, one for each encoding."""


def list_sets(data_dir: Path | None = None) -> tuple[NamedSet, ...]:
    """Return every set that `data.dataset` can name. Nothing is downloaded.

    >>> [(each.name, each.molecules, each.tasks) for each in list_sets()][:2]
    [('zinc', 12000, 1), ('zinc-full', 249456, 1)]

    Args:
        data_dir: folder of raw files. [default: $MOLSEPNORM_DATA]
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
    """Count the names of stores that begin with <featuriser>-<key>-<digest>-b…"""
    pattern = re.compile(rf"{featurizer}-(?:{keys})-(?:[0-9a-f]+|downloaded)-b\d")
    return sum(pattern.match(name) is not None for name in stores)
