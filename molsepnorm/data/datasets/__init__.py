"""A name or a file to molecules, labels and a split."""

from __future__ import annotations

from dataclasses import replace

from molsepnorm.data.datasets import ogb, zinc
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS, Dataset, Rejected, data_folder
from molsepnorm.data.datasets.ogb import SETS as OGB_SETS
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.molecules.encodings.encode import EncodingSpec

__all__ = ["NAMES", "SPLITS", "DataConfig", "Dataset", "Rejected", "featurizer_of", "load"]

NAMES = (*zinc.SETS, *OGB_SETS)
"""Data sets known by name."""


def featurizer_of(config: DataConfig) -> str:
    """Name of the featuriser whose graphs `load` gives.

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
    if config.dataset in OGB_SETS:
        return ogb.FEATURIZER
    return zinc.SETS[config.dataset].featurizer


def load(config: DataConfig, encoding: EncodingSpec, labelled: bool = True) -> Dataset:
    """Load what the configuration names, from the cache where it was encoded before.

    Args:
        config: what to load.
        encoding: what to encode it with.
        labelled: whether a table must have the columns of its targets; otherwise those that it
            lacks are blank.

    Raises:
        ConfigError: an unknown name or column.
        DataError: the source cannot be had or used.
        StorageError: a file cannot be read, or the cache cannot be written.
    """
    featurizer_of(config)
    if config.in_memory:
        raise ConfigError(
            "these molecules were in memory and cannot be loaded: call molsepnorm.fit with the "
            "same molecules, labels and settings (and the run folder and resume=True to resume)"
        )
    dataset = _load(config, encoding, labelled)
    if not dataset.store.warning:
        return dataset
    return replace(dataset, warnings=(*dataset.warnings, dataset.store.warning))


def _load(config: DataConfig, encoding: EncodingSpec, labelled: bool) -> Dataset:
    if config.dataset is None:
        from molsepnorm.data.datasets.table import load_table

        return load_table(config, encoding, labelled)
    data_dir = data_folder(config.data_dir)
    if config.dataset in OGB_SETS:
        return ogb.load_ogb(config.dataset, data_dir, encoding)
    return zinc.load_zinc(config.dataset, data_dir, encoding)
