"""Convert SMILES to `MolGraph`s; RDKit is imported here, and for pictures and fragments.

`get` returns a featuriser, which is called with SMILES. `SIZES` lists all featurisers with their
features, for the built-in ones without importing RDKit. `register` adds a featuriser.

>>> get("zinc")("c1ccccc1O")
MolGraph(7 atoms, 7 bonds)
>>> SIZES["zinc"]
FeatureSizes(atoms=(28,), bonds=(3,), molecule=(), version='1')
"""

from molsepnorm.molecules.featurize.registry import SIZES, FeatureSizes, Featurizer, get, register

__all__ = ["SIZES", "FeatureSizes", "Featurizer", "get", "register"]
