"""`list_sets`: the named data sets, and their files on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from molsepnorm.data.datasets import HOMES
from molsepnorm.data.datasets.dataset import data_folder
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
    stores = [path.name for path in cache_folder().glob(f"*-s{SCHEMA}.store")]
    found = []
    for name, home in HOMES.items():
        each, folder, incomplete = home.SETS[name], None, False
        try:
            folder = home.find(name, data_folder(data_dir))
        except DataError:
            incomplete = True
        own = re.compile(rf"{each.featurizer}-{name}-[0-9a-f]+-b\d")
        found.append(
            NamedSet(
                name=name,
                about=each.about,
                molecules=each.molecules,
                tasks=each.tasks,
                kind=each.kind,
                metric=each.metric,
                raw="here" if folder else "incomplete" if incomplete else "missing",
                folder=folder,
                stores=sum(own.match(store) is not None for store in stores),
            )
        )
    return tuple(found)
