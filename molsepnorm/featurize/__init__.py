"""SMILES to `MolGraph`: the only place that imports RDKit.

A featuriser is a callable with a name and the sizes of its feature tables. `get` finds one:

>>> featurizer = get("zinc")
>>> featurizer.name, featurizer.atom_sizes, featurizer.bond_sizes
('zinc', (28,), (3,))
>>> featurizer("c1ccccc1O")
MolGraph(7 atoms, 7 bonds)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from molsepnorm.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from molsepnorm.featurize.smiles import Featurizer

__all__ = ["FEATURIZERS", "get"]

FEATURIZERS = ("zinc", "ogb")
"""zinc: the 28 atom and 3 bond labels of ZINC. ogb: OGB's 9 atom and 3 bond features."""


def get(name: str) -> Featurizer:
    """The featuriser of that name.

    Raises:
        ConfigError: there is no such featuriser; the message names the nearest.
    """
    if name == "zinc":
        from molsepnorm.featurize.zinc import ZincFeaturizer

        return ZincFeaturizer()
    if name == "ogb":
        from molsepnorm.featurize.ogb import OgbFeaturizer

        return OgbFeaturizer()
    raise ConfigError(f"unknown featuriser '{name}'. {did_you_mean(name, FEATURIZERS)}")
