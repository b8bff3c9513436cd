"""Load a data set by name or file, and list the named ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from molsepnorm.data.datasets import ogb, zinc
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS, Dataset, Rejected, data_folder
from molsepnorm.data.datasets.named import NamedSet
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.molecules.encodings.encoding import EncodingSpec

__all__ = ["NAMES", "SPLITS", "DataConfig", "Dataset", "Rejected", "featurizer_of", "load"]

HOMES: dict[str, ModuleType] = {name: home for home in (zinc, ogb) for name in home.SETS}
"""Module of each named data set."""
NAMES = tuple(HOMES)


def featurizer_of(config: DataConfig) -> str:
    """Return the name of the featuriser of a data set; an unknown set is a `ConfigError`."""
    if config.dataset is None:
        return config.featurizer
    if config.dataset not in NAMES:
        raise ConfigError(
            f"unknown data set '{config.dataset}'. {did_you_mean(config.dataset, NAMES)} "
            "For a table of your own use --data FILE.csv"
        )
    featurizer: str = HOMES[config.dataset].SETS[config.dataset].featurizer
    return featurizer


def load(
    config: DataConfig, encoding: EncodingSpec, labelled: bool = True, for_training: bool = True
) -> Dataset:
    """Load a data set.

    Args:
        labelled: whether a table must have the columns of its targets; otherwise missing columns
            are blank.
        for_training: whether the feature columns of a table must not be empty or constant.

    Raises:
        ConfigError: an unknown name or column.
        DataError: the source is missing or cannot be used.
        StorageError: a file cannot be read, or the cache cannot be written.
    """
    featurizer_of(config)
    if config.in_memory:
        raise ConfigError(
            "these molecules were in memory and cannot be loaded: call molsepnorm.fit with the "
            "same molecules, labels and settings (and the run folder and resume=True to resume)"
        )
    if config.dataset is None:
        from molsepnorm.data.datasets.table import load_table

        return load_table(config, encoding, labelled, for_training)
    load_named: Callable[..., Dataset] = HOMES[config.dataset].load_named
    return load_named(config.dataset, data_folder(config.data_dir), encoding)


@dataclass(frozen=True)
class ListedSet:
    """A named data set and its files on this machine."""

    name: str
    about: NamedSet
    raw: str
    """State of its raw files: here, incomplete or missing, that is, downloaded at first use."""
    folder: Path | None


def list_sets(data_dir: Path | None = None) -> tuple[ListedSet, ...]:
    """Return every set that `data.dataset` can name. Nothing is downloaded."""
    listed = []
    for name, home in HOMES.items():
        try:
            folder, raw = home.find(name, data_folder(data_dir)), "missing"
        except DataError:
            folder, raw = None, "incomplete"
        listed.append(ListedSet(name, home.SETS[name], "here" if folder else raw, folder))
    return tuple(listed)
