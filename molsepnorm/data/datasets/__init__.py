"""Load a data set by name or file: molecules, labels and splits."""

from __future__ import annotations

from dataclasses import replace

from molsepnorm.data.datasets import ogb, zinc
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS, Dataset, Rejected, data_folder
from molsepnorm.data.datasets.ogb import SETS as OGB_SETS
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.molecules.encodings.encoding import EncodingSpec

__all__ = ["NAMES", "SPLITS", "DataConfig", "Dataset", "Rejected", "featurizer_of", "load"]

NAMES = (*zinc.SETS, *OGB_SETS)
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
    if config.dataset in OGB_SETS:
        return ogb.FEATURIZER
    return zinc.SETS[config.dataset].featurizer


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
        from molsepnorm.data.datasets.structures import load_structures

        dataset = load_structures(config, encoding)
    elif config.dataset is None:
        from molsepnorm.data.datasets.table import load_table

        dataset = load_table(config, encoding, labelled, for_training)
    else:
        load_named = ogb.load_ogb if config.dataset in OGB_SETS else zinc.load_zinc
        dataset = load_named(config.dataset, data_folder(config.data_dir), encoding)
    warnings = (*dataset.warnings, *filter(None, [dataset.store.warning]))
    return replace(dataset, warnings=warnings)
