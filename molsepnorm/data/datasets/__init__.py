"""Load a data set by name or file: molecules, labels and splits."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from molsepnorm.data.datasets import ogb, zinc
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS, Dataset, Rejected, data_folder
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.molecules.encodings.encoding import EncodingSpec

__all__ = ["NAMES", "SPLITS", "DataConfig", "Dataset", "Rejected", "featurizer_of", "load"]

HOMES: dict[str, ModuleType] = {name: home for home in (zinc, ogb) for name in home.SETS}
"""Module of each named data set."""
NAMES = tuple(HOMES)
"""Names of data sets."""


def featurizer_of(config: DataConfig) -> str:
    """Return the name of the featuriser of a data set.

    Raises:
        ConfigError: there is no data set of that name.
    """
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
    """Load a data set, from the cache if it was encoded before.

    Args:
        config: the data set.
        encoding: the encoding of the store.
        labelled: whether a table must have the columns of its targets; if not, missing columns are
            blank.
        for_training: whether a model is trained with the feature columns of a table, so that they
            must not be empty or constant.

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
    if config.structures:
        from molsepnorm.data.datasets.table import load_structures

        return load_structures(config, encoding)
    if config.dataset is None:
        from molsepnorm.data.datasets.table import load_table

        return load_table(config, encoding, labelled, for_training)
    load_named: Callable[..., Dataset] = HOMES[config.dataset].load_named
    return load_named(config.dataset, data_folder(config.data_dir), encoding)
