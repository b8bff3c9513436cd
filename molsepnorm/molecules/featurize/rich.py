"""`RichFeaturizer`: OGB's features and ring membership."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from rdkit import Chem

from molsepnorm.molecules.featurize.featurizer import Featurizer
from molsepnorm.molecules.featurize.ogb import ogb_graph
from molsepnorm.molecules.featurize.registry import SIZES
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.molecules.molecule import MolGraph

_MAX_RINGS = 3  # larger numbers of rings are clipped
_MAX_SIZE = 12  # larger rings are clipped


class RichFeaturizer(Featurizer):
    """OGB's 9 atom and 3 bond features, and ring membership.

    Additional atom features: the number of rings (0, 1, 2, 3 or more), and the sizes of the
    smallest and the largest ring of its bonds (none, 3, 4, …, 11, 12 or more). Additional bond
    feature: in a ring. Bonds have no ring size, since each combination of bond features is a label
    of its own on the paths between atoms: four ring sizes would double the paths of ZINC.

    The ring of a bond is the smallest ring through it. The number of rings is counted in unique
    ring families, since the choice among equivalent rings would depend on the order of the atoms.
    Unlike a smallest set of smallest rings, both are the same for all SMILES of a molecule, also
    in cages. A dative bond is not part of a ring, as in RDKit.

    Source: Kolodzik, Urbaczek and Rarey, J. Chem. Inf. Model. 2012, 52, 2013 (ring families).

    >>> graph = RichFeaturizer()("CC1CC12CCCCCC2")  # rings of 3 and 7 atoms that share one
    >>> graph.atom_features[:5, 9:].tolist()
    [[0, 0, 0], [1, 1, 1], [1, 1, 1], [2, 1, 5], [1, 5, 5]]
    >>> graph.bond_features[:, 3].tolist()
    [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    name = "rich"
    atom_sizes, bond_sizes = SIZES["rich"][:2]

    def __call__(self, smiles: str) -> MolGraph:
        """Return the graph of one molecule; every element and bond type is supported.

        Raises:
            InvalidMolecule: the SMILES cannot be read.
        """
        mol = oriented_mol(smiles)
        graph = ogb_graph(mol, smiles)
        atom_rings, bond_rings = _ring_features(mol, graph.bonds)
        return MolGraph(
            np.hstack([graph.atom_features, atom_rings]),
            graph.bonds,
            np.hstack([graph.bond_features, bond_rings]),
        )


def _ring_features(
    mol: Chem.Mol, bonds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # uint8 (N, 3), bool (M, 1)
    Chem.FindRingFamilies(mol)
    rings = mol.GetRingInfo()
    features = np.zeros((mol.GetNumAtoms(), 3), dtype=np.uint8)
    # Before 2026, RDKit's IsInRing missed bonds of some cages, depending on the order of atoms.
    cyclic = _memberships(rings.BondRingFamilies(), len(bonds)) > 0
    if cyclic.any():
        ends = bonds[cyclic]
        sizes, within = smallest_rings(ends), np.unique(ends)
        members = _memberships(rings.AtomRingFamilies(), len(features))
        count, smallest, largest = features.T
        count[within] = members[within].clip(max=_MAX_RINGS)
        smallest[within] = _MAX_SIZE
        for side in ends.T:
            np.minimum.at(smallest, side, sizes)
            np.maximum.at(largest, side, sizes)
        features[within, 1:] -= 2  # 1: a ring of three atoms
    return features, cyclic[:, None]


def _memberships(families: Iterable[Iterable[int]], size: int) -> np.ndarray:  # int (size,)
    """Return the number of families that contain each atom, or each bond."""
    members = np.fromiter(chain.from_iterable(families), dtype=np.int64)
    return np.bincount(members, minlength=size)


def smallest_rings(bonds: np.ndarray) -> np.ndarray:  # int (M, 2) -> uint8 (M,)
    """Return the size of the smallest ring through each bond, at most 12.

    Every atom is assigned to the nearer end of a bond. The smallest ring through the bond is
    closed by an atom at the same distance from both ends, or by another bond that joins an atom of
    one end to an atom of the other.

    Args:
        bonds: the two atoms of each bond; all bonds are in rings.

    >>> norbornane = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (2, 6), (6, 5)]
    >>> smallest_rings(np.array(norbornane)).tolist()
    [5, 5, 5, 5, 5, 5, 5, 5]
    """
    numbers, ends = np.unique(bonds, return_inverse=True)
    a, b = ends.reshape(-1, 2).T
    adjacent = np.zeros((len(numbers), len(numbers)), dtype=np.float32)
    adjacent[a, b] = adjacent[b, a] = 1
    reached = np.eye(len(numbers), dtype=bool)
    distance = np.zeros(adjacent.shape, dtype=np.int64)
    for _ in range(_MAX_SIZE // 2):  # more distant atoms close larger rings
        distance += ~reached
        reached |= reached @ adjacent > 0
    side = distance[a] - distance[b]  # (M, N): −1, 0 or 1
    nearer = np.minimum(distance[a], distance[b])
    odd = np.where(side == 0, 2 * nearer + 1, _MAX_SIZE).min(axis=1)
    joins = side[:, a] * side[:, b] == -1  # (M, M)
    np.fill_diagonal(joins, False)
    even = np.where(joins, 2 * np.minimum(nearer[:, a], nearer[:, b]) + 2, _MAX_SIZE).min(axis=1)
    return np.minimum(odd, even).astype(np.uint8)
