"""`MolGraph`: the one record of a molecule, before any encoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from molsepnorm.errors import InvalidMolecule

__all__ = ["MolGraph"]


@dataclass(frozen=True, eq=False)
class MolGraph:
    """A molecule as an undirected graph whose atoms and bonds carry categorical features.

    Each feature is a small non-negative integer, an index into an embedding table; a featuriser's
    `atom_sizes` and `bond_sizes` say how large each table is. Making a `MolGraph` checks it, and
    converts the arrays to the dtypes below.

    >>> import molsepnorm
    >>> ethanol = molsepnorm.molecules.featurize.get("zinc")("CCO")
    >>> ethanol
    MolGraph(3 atoms, 2 bonds)
    >>> ethanol.atom_features.tolist(), ethanol.bonds.tolist(), ethanol.bond_features.tolist()
    ([[0], [0], [1]], [[0, 1], [1, 2]], [[0], [0]])

    Raises:
        InvalidMolecule: no atoms; a shape that does not fit; a bond to an atom that is not there,
            from an atom to itself, or given twice.
    """

    atom_features: np.ndarray
    """uint8 [N, A]: the A categorical features of each of N atoms, N ≥ 1."""

    bonds: np.ndarray
    """int32 [M, 2]: the two atoms of each of M bonds, every bond once, in any order."""

    bond_features: np.ndarray
    """uint8 [M, F]: the F categorical features of each bond."""

    def __post_init__(self) -> None:
        atoms = _as_indices(self.atom_features, "atom_features", np.uint8)
        bonds = _as_indices(self.bonds, "bonds", np.int32)
        features = _as_indices(self.bond_features, "bond_features", np.uint8)
        if len(atoms) == 0:
            raise InvalidMolecule("the molecule has no atoms")
        if bonds.shape[1] != 2 or len(features) != len(bonds):
            raise InvalidMolecule(
                f"bonds must have shape [M, 2] and bond_features [M, F] with the same M; "
                f"got {list(bonds.shape)} and {list(features.shape)}"
            )
        if len(bonds):
            _check_bonds(bonds, len(atoms))
        object.__setattr__(self, "atom_features", atoms)
        object.__setattr__(self, "bonds", bonds)
        object.__setattr__(self, "bond_features", features)

    @staticmethod
    def many(
        sizes: np.ndarray,
        atom_features: np.ndarray,
        bond_counts: np.ndarray,
        bonds: np.ndarray,
        bond_features: np.ndarray,
    ) -> list[MolGraph]:
        """G molecules that lie one after the other in flat arrays, whose memory they share.

        Bonds in ascending order, the lower atom first, are checked all at once; others are
        checked molecule by molecule.

        Args:
            sizes: int [G], atoms of each molecule.
            atom_features: [Σ N, A].
            bond_counts: int [G], bonds of each molecule.
            bonds: [Σ M, 2], each molecule's atoms numbered from 0.
            bond_features: [Σ M, F].

        Raises:
            InvalidMolecule: as making each one by itself.
        """
        atom_ends, bond_ends = np.cumsum(sizes).tolist(), np.cumsum(bond_counts).tolist()
        make = (
            _unchecked
            if _are_sound(sizes, atom_features, bond_counts, bonds, bond_features)
            else MolGraph
        )
        return [
            make(
                atom_features[atom:next_atom], bonds[bond:next_bond], bond_features[bond:next_bond]
            )
            for atom, next_atom, bond, next_bond in zip(
                [0, *atom_ends], atom_ends, [0, *bond_ends], bond_ends, strict=False
            )
        ]

    @property
    def num_atoms(self) -> int:
        """N, the number of atoms."""
        return len(self.atom_features)

    @property
    def num_bonds(self) -> int:
        """M, the number of bonds, each counted once."""
        return len(self.bonds)

    def __repr__(self) -> str:
        return f"MolGraph({self.num_atoms} atoms, {self.num_bonds} bonds)"


def _unchecked(atoms: np.ndarray, bonds: np.ndarray, bond_features: np.ndarray) -> MolGraph:
    graph = object.__new__(MolGraph)
    graph.__dict__.update(atom_features=atoms, bonds=bonds, bond_features=bond_features)
    return graph


def _are_sound(
    sizes: np.ndarray,
    atom_features: np.ndarray,
    bond_counts: np.ndarray,
    bonds: np.ndarray,
    bond_features: np.ndarray,
) -> bool:
    """Whether each molecule would be accepted as it is, as far as can be told at once."""
    wanted = ((atom_features, np.uint8), (bonds, np.int32), (bond_features, np.uint8))
    if any(array.dtype != dtype or array.ndim != 2 for array, dtype in wanted):
        return False
    if len(bonds) != len(bond_features) or bonds.shape[1] != 2 or not sizes.all():
        return False
    lower, upper = bonds[:, 0], bonds[:, 1]
    in_order = np.repeat(np.cumsum(sizes) - sizes, bond_counts) + lower
    places = (
        in_order * (int(sizes.max(initial=0)) + 1) + upper
    )  # ascending, as a dictionary's words
    return bool(
        (np.diff(places) > 0).all()
        and (lower >= 0).all()
        and (lower < upper).all()
        and (upper < np.repeat(sizes, bond_counts)).all()
    )


def _as_indices(values: np.ndarray, name: str, dtype: type[np.integer]) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype == dtype and array.ndim == 2:
        return array
    if array.ndim != 2 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise InvalidMolecule(
            f"{name} must be a two-dimensional array of integers; "
            f"got shape {list(array.shape)} of {array.dtype}"
        )
    limits = np.iinfo(dtype)
    if array.size and (array.min() < 0 or array.max() > limits.max):
        raise InvalidMolecule(
            f"{name} must lie in 0 … {limits.max}; found {array.min()} … {array.max()}"
        )
    return array.astype(dtype)


def _check_bonds(bonds: np.ndarray, num_atoms: int) -> None:
    if bonds.view(np.uint32).max() >= num_atoms:  # a negative one is huge as unsigned
        raise InvalidMolecule(
            f"bonds name atoms {bonds.min()} … {bonds.max()}, "
            f"but the molecule's atoms are 0 … {num_atoms - 1}"
        )
    pairs = bonds.tolist()  # for so few of them, Python is quicker than numpy
    different = {(a, b) if a < b else (b, a) for a, b in pairs if a != b}
    if len(different) < len(pairs):
        if loops := [a for a, b in pairs if a == b]:
            raise InvalidMolecule(f"atom {loops[0]} is bonded to itself")
        raise InvalidMolecule("a bond is given twice; each undirected bond belongs in once")
