"""`RichFeaturizer`: OGB's features and ring membership."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from rdkit import Chem

from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.featurize.ogb import ogb_graph
from molsepnorm.molecules.featurize.smiles import Featurizer, oriented_mol
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["RichFeaturizer", "smallest_rings"]

_MANY_RINGS = 3  # an atom in more of them counts as in so many
_LARGE = 12  # atoms of a ring; larger ones count as of so many


class RichFeaturizer(Featurizer):
    """OGB's 9 atom and 3 bond features, and ring membership.

    Atom, besides: in how many rings it lies (0, 1, 2, 3 or more); the sizes of the smallest and of
    the largest of its bonds' rings (none, 3, 4, …, 11, 12 or more). Bond, besides: in a ring. Its
    size is told by the atoms alone, since each combination of a bond's values is a label of its own
    on the paths between atoms: four kinds of rings would double the paths of ZINC.

    A bond's ring is the smallest one through it. How many rings there are is counted in unique ring
    families, as rings that stand in for each other would otherwise be picked by the atoms' order.
    Both are the same for all SMILES of a molecule, in cages too, which a smallest set of smallest
    rings is not. As RDKit has it, a dative bond closes no ring.

    Source: of the families, Kolodzik, Urbaczek and Rarey, J. Chem. Inf. Model. 2012, 52, 2013.

    >>> graph = RichFeaturizer()("CC1CC12CCCCCC2")  # rings of 3 and 7 with an atom in common
    >>> graph.atom_features[:5, 9:].tolist()
    [[0, 0, 0], [1, 1, 1], [1, 1, 1], [2, 1, 5], [1, 5, 5]]
    >>> graph.bond_features[:, 3].tolist()
    [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    name = "rich"
    atom_sizes, bond_sizes = SIZES["rich"]

    def __call__(self, smiles: str) -> MolGraph:
        """The graph of one molecule; no element and no bond type is refused.

        Raises:
            InvalidMolecule: the SMILES cannot be read.
        """
        mol = oriented_mol(smiles)
        graph = ogb_graph(mol, smiles)
        of_atoms, of_bonds = _ring_features(mol, graph.bonds)
        return MolGraph(
            np.hstack([graph.atom_features, of_atoms]),
            graph.bonds,
            np.hstack([graph.bond_features, of_bonds]),
        )


def _ring_features(
    mol: Chem.Mol, bonds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # uint8 (N, 3), bool (M, 1)
    Chem.FindRingFamilies(mol)
    rings = mol.GetRingInfo()
    of_atoms = np.zeros((mol.GetNumAtoms(), 3), dtype=np.uint8)
    # not by IsInRing: before 2026, RDKit misses bonds of some cages, by the order of the atoms
    cyclic = _memberships(rings.BondRingFamilies(), len(bonds)) > 0
    if cyclic.any():
        ends = bonds[cyclic]
        sizes, within = smallest_rings(ends), np.unique(ends)
        members = _memberships(rings.AtomRingFamilies(), len(of_atoms))
        count, smallest, largest = of_atoms.T
        count[within] = members[within].clip(max=_MANY_RINGS)
        smallest[within] = _LARGE
        for side in ends.T:
            np.minimum.at(smallest, side, sizes)
            np.maximum.at(largest, side, sizes)
        of_atoms[within, 1:] -= 2  # 1 stands for a ring of three
    return of_atoms, cyclic[:, None]


def _memberships(families: Iterable[Iterable[int]], size: int) -> np.ndarray:  # int (size,)
    """In how many families each atom, or each bond, occurs."""
    members = np.fromiter(chain.from_iterable(families), dtype=np.int64)
    return np.bincount(members, minlength=size)


def smallest_rings(bonds: np.ndarray) -> np.ndarray:  # int (M, 2) -> uint8 (M,)
    """The size of the smallest ring through each bond, at most 12.

    Let every atom be on the side of that end of a bond to which it is nearer. The smallest ring
    through the bond is closed by an atom that is equally far from both ends, or by another bond
    that joins the two sides.

    Args:
        bonds: the two atoms of each bond, all of them in rings.

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
    for _ in range(_LARGE // 2):  # farther atoms close larger rings
        distance += ~reached
        reached |= reached @ adjacent > 0
    side = distance[a] - distance[b]  # (M, N): −1, 0 or 1
    nearer = np.minimum(distance[a], distance[b])
    odd = np.where(side == 0, 2 * nearer + 1, _LARGE).min(axis=1)
    joins = side[:, a] * side[:, b] == -1  # (M, M)
    np.fill_diagonal(joins, False)
    even = np.where(joins, 2 * np.minimum(nearer[:, a], nearer[:, b]) + 2, _LARGE).min(axis=1)
    return np.minimum(odd, even).astype(np.uint8)
