"""The atoms behind each fingerprint count, to compute the counts of a part of a molecule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from molsepnorm.molecules.featurize.descriptors import (
    COUNTS,
    MORGAN_GENERATOR,
    PAIR_GENERATOR,
    PAIRS,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol


@dataclass(frozen=True, eq=False)
class Environments:
    """The E environments, parts of a molecule of N atoms, that make up its fingerprint counts."""

    width: int
    """Number of counts, F."""
    columns: np.ndarray
    """int64 [E]: the count to which each environment adds 1."""
    members: np.ndarray
    """float32 [E, N]: 1 for the atoms of each environment, otherwise 0."""

    def counts(self, present: np.ndarray) -> np.ndarray:  # bool (n, N) -> float32 (n, F)
        """Return the counts of n subsets of the atoms.

        An environment counts if all of its atoms are present. It is never replaced by another one:
        the environments of the remaining atoms are those of the whole molecule.
        """
        whole = present.astype(np.float32) @ self.members.T == self.members.sum(axis=1)  # (n, E)
        counts = np.zeros((self.width, len(present)), dtype=np.float32)
        np.add.at(counts, self.columns, whole.T)
        return counts.T


def morgan_environments(smiles: str) -> Environments:
    """Return the environments of `morgan_counts`; with all atoms present the counts are equal.

    Args:
        smiles: a SMILES that is its own canonical form, so that the atoms have its order.
    """
    mol = oriented_mol(smiles)
    columns, centers, radii = _places(mol, MORGAN_GENERATOR)
    members = Chem.GetDistanceMatrix(mol)[centers] <= radii[:, None]
    return Environments(COUNTS, columns, members.astype(np.float32))


def pair_environments(smiles: str) -> Environments:
    """Return the pairs of `pair_counts` as environments of two atoms; see `morgan_environments`."""
    mol = oriented_mol(smiles)
    columns, *ends = _places(mol, PAIR_GENERATOR)
    members = np.zeros((len(columns), mol.GetNumAtoms()), dtype=np.float32)
    for atoms in ends:
        members[np.arange(len(columns)), atoms] = 1
    return Environments(PAIRS, columns, members)


def _places(mol: Chem.Mol, generator: Any) -> np.ndarray:  # int64 (3, E)
    """Return the count of each environment, and the two numbers that RDKit gives for its place."""
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    generator.GetCountFingerprint(mol, additionalOutput=output)
    places = output.GetBitInfoMap().items()
    found = [(column, *place) for column, its in places for place in its]
    return np.array(found, dtype=np.int64).reshape(-1, 3).T
