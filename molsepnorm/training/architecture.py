"""The network that a configuration describes, and the data set that it reads."""

from __future__ import annotations

from dataclasses import replace

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.training.config import TrainConfig

__all__ = ["architecture", "encoding", "load_dataset"]


def architecture(config: TrainConfig) -> GraphormerConfig:
    """Return the configured network, with the feature sizes of the configured data."""
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    return replace(
        config.model,
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        molecule_features=len(sizes.molecule),
    )


def encoding(config: TrainConfig) -> EncodingSpec:
    """Return the encoding of molecules that the configured network reads."""
    return encoding_of(architecture(config))


def load_dataset(config: TrainConfig) -> Dataset:
    """Load the configured data set, encoded for the configured network; errors as for
    `datasets.load`."""
    return datasets.load(config.data, encoding(config))
