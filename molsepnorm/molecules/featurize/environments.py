"""The atoms behind each Morgan count, so that counts of a part of a molecule can be computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from molsepnorm.molecules.featurize.descriptors import COUNTS
from molsepnorm.molecules.featurize.smiles import oriented_mol

__all__ = ["Environments", "morgan_environments"]

_COUNTED = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=COUNTS)


@dataclass(frozen=True, eq=False)
class Environments:
    """The E environments that make up the Morgan counts of a molecule of N atoms."""

    columns: np.ndarray
    """int64 [E]: the count to which each environment adds 1."""
    members: np.ndarray
    """float32 [E, N]: 1 for the atoms of each environment, otherwise 0."""

    def counts(self, present: np.ndarray) -> np.ndarray:  # bool (n, N) -> float32 (n, COUNTS)
        """Return the Morgan counts of n subsets of the atoms.

        An environment counts if all of its atoms are present. It is never replaced by another one:
        the environments of the remaining atoms are those of the whole molecule.
        """
        whole = present.astype(np.float32) @ self.members.T == self.members.sum(axis=1)  # (n, E)
        counts = np.zeros((COUNTS, len(present)), dtype=np.float32)
        np.add.at(counts, self.columns, whole.T)
        return counts.T


def morgan_environments(smiles: str) -> Environments:
    """Return the environments of `morgan_counts`; with all atoms present the counts are equal.

    Args:
        smiles: a SMILES that is its own canonical form, so that the atoms have its order.
    """
    mol = oriented_mol(smiles)
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    _COUNTED.GetCountFingerprint(mol, additionalOutput=output)
    places = output.GetBitInfoMap().items()
    found = np.array([(column, *place) for column, its in places for place in its])
    columns, centers, radii = found.T
    distances = Chem.GetDistanceMatrix(mol)
    return Environments(columns, (distances[centers] <= radii[:, None]).astype(np.float32))
