"""SMILES to `MolGraph`: the only place that imports RDKit.

`get` finds a featuriser, a callable; `SIZES` says how large its feature tables are, without RDKit,
which a model that is already encoded can do without.

>>> get("zinc")("c1ccccc1O")
MolGraph(7 atoms, 7 bonds)
>>> SIZES["zinc"]
FeatureSizes(atoms=(28,), bonds=(3,))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from molsepnorm.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from molsepnorm.molecules.featurize.smiles import Featurizer

__all__ = ["SIZES", "FeatureSizes", "get"]


class FeatureSizes(NamedTuple):
    """How many values each feature of a featuriser's graphs can take."""

    atoms: tuple[int, ...]
    """For each of the A atom features."""
    bonds: tuple[int, ...]
    """For each of the F bond features."""


SIZES = {
    "zinc": FeatureSizes(atoms=(28,), bonds=(3,)),
    "ogb": FeatureSizes(atoms=(119, 5, 12, 12, 10, 6, 6, 2, 2), bonds=(5, 6, 2)),
    "rich": FeatureSizes(atoms=(119, 5, 12, 12, 10, 6, 6, 2, 2, 4, 11, 11), bonds=(5, 6, 2, 2)),
}
"""The featurisers. zinc: the 28 atom and 3 bond labels of ZINC. ogb: OGB's 9 atom and 3 bond
features. rich: OGB's and ring membership."""


def get(name: str) -> Featurizer:
    """The featuriser of that name.

    Raises:
        ConfigError: there is no such featuriser; the message names the nearest.
    """
    if name == "zinc":
        from molsepnorm.molecules.featurize.zinc import ZincFeaturizer

        return ZincFeaturizer()
    if name == "ogb":
        from molsepnorm.molecules.featurize.ogb import OgbFeaturizer

        return OgbFeaturizer()
    if name == "rich":
        from molsepnorm.molecules.featurize.rich import RichFeaturizer

        return RichFeaturizer()
    raise ConfigError(f"unknown featuriser '{name}'. {did_you_mean(name, SIZES)}")
