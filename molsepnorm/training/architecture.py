"""`architecture`: the network that a configuration describes."""

from __future__ import annotations

from dataclasses import replace

from molsepnorm.data import datasets
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.training.config import TrainConfig

__all__ = ["architecture"]


def architecture(config: TrainConfig) -> GraphormerConfig:
    """Return the configured network, with the feature sizes of the configured data."""
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    return replace(
        config.model,
        atom_sizes=sizes.atoms,
        bond_sizes=sizes.bonds,
        molecule_features=len(sizes.molecule),
    )
