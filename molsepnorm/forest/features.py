"""The inputs of a forest: Morgan counts and RDKit's 2D descriptors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["forest_features"]


def forest_features(
    smiles: Sequence[str], descriptors: np.ndarray | None = None
) -> np.ndarray:  # float32 (G, F)
    """Return the Morgan counts and the descriptors of molecules.

    The first `COUNTS` columns are the counts (radius 2), the others are `DESCRIPTORS`, see
    `molsepnorm.molecules.featurize.descriptors`.

    >>> forest_features(["CCO", "c1ccccc1"])[:, :2048].sum(axis=1).tolist()
    [6.0, 18.0]

    Args:
        smiles: SMILES of G molecules.
        descriptors: float32 (G, D), if they are known; they take most of the time.

    Returns:
        float32 (G, F); NaN where RDKit cannot compute a descriptor.

    Raises:
        InvalidMolecule: RDKit cannot read a SMILES.
    """
    from molsepnorm.molecules.featurize.descriptors import (
        COUNTS,
        DESCRIPTORS,
        describe,
        morgan_counts,
    )
    from molsepnorm.molecules.featurize.smiles import oriented_mol

    features = np.empty((len(smiles), COUNTS + len(DESCRIPTORS)), dtype=np.float32)
    if descriptors is not None:
        features[:, COUNTS:] = descriptors
    for row, text in enumerate(smiles):
        mol = oriented_mol(text)
        features[row, :COUNTS] = morgan_counts(mol)
        if descriptors is None:
            features[row, COUNTS:] = describe(mol)
    return features
