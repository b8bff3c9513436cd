"""`MolGraph`: a molecule as a featuriser returns it, before any encoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from molsepnorm.errors import InvalidMolecule


@dataclass(frozen=True, eq=False)
class MolGraph:
    """A molecule as an undirected graph whose atoms and bonds carry categorical features.

    Each feature is an index below the featuriser's `atom_sizes` or `bond_sizes`. The constructor
    checks the arrays and converts them to the dtypes below.

    >>> import molsepnorm
    >>> ethanol = molsepnorm.molecules.featurize.get("zinc")("CCO")
    >>> ethanol
    MolGraph(3 atoms, 2 bonds)
    >>> ethanol.atom_features.tolist(), ethanol.bonds.tolist(), ethanol.bond_features.tolist()
    ([[0], [0], [1]], [[0, 1], [1, 2]], [[0], [0]])

    Raises:
        InvalidMolecule: there are no atoms, an array has a wrong shape, or a bond is given twice,
            joins an atom to itself or to an atom that does not exist.
    """

    atom_features: np.ndarray
    """uint8 [N, A]: the A categorical features of each of N atoms, N ≥ 1."""
    bonds: np.ndarray
    """int32 [M, 2]: the two atoms of each of M bonds, every bond once, in any order."""
    bond_features: np.ndarray
    """uint8 [M, K]: the K categorical features of each bond."""
    features: np.ndarray | None = None
    """float32 [F]: numbers that describe the whole molecule; None if there are none."""

    def __post_init__(self) -> None:
        atoms = _as_indices(self.atom_features, "atom_features", np.uint8)
        bonds = _as_indices(self.bonds, "bonds", np.int32)
        bond_features = _as_indices(self.bond_features, "bond_features", np.uint8)
        if len(atoms) == 0:
            raise InvalidMolecule("the molecule has no atoms")
        if bonds.shape[1] != 2 or len(bond_features) != len(bonds):
            raise InvalidMolecule(
                f"bonds must have shape [M, 2] and bond_features [M, K] with the same M; "
                f"got {list(bonds.shape)} and {list(bond_features.shape)}"
            )
        if len(bonds):
            _check_bonds(bonds, len(atoms))
        object.__setattr__(self, "atom_features", atoms)
        object.__setattr__(self, "bonds", bonds)
        object.__setattr__(self, "bond_features", bond_features)
        if self.features is not None:
            features = np.asarray(self.features)
            if features.ndim != 1 or features.dtype.kind not in "fiub":
                raise InvalidMolecule(
                    "features must be a one-dimensional array of numbers; "
                    f"got shape {list(features.shape)} of {features.dtype}"
                )
            with np.errstate(over="ignore"):  # infinite numbers are refused with the feature's name
                object.__setattr__(self, "features", features.astype(np.float32))

    @property
    def num_atoms(self) -> int:
        return len(self.atom_features)

    @property
    def num_bonds(self) -> int:
        return len(self.bonds)

    def __repr__(self) -> str:
        return f"MolGraph({self.num_atoms} atoms, {self.num_bonds} bonds)"


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
    if bonds.view(np.uint32).max() >= num_atoms:  # negative indices are huge when unsigned
        raise InvalidMolecule(
            f"bonds name atoms {bonds.min()} … {bonds.max()}, "
            f"but the molecule's atoms are 0 … {num_atoms - 1}"
        )
    pairs = bonds.tolist()  # Python is faster than numpy for so few
    different = {(a, b) if a < b else (b, a) for a, b in pairs if a != b}
    if len(different) < len(pairs):
        if loops := [a for a, b in pairs if a == b]:
            raise InvalidMolecule(f"atom {loops[0]} is bonded to itself")
        raise InvalidMolecule("a bond is given twice; each undirected bond belongs in once")
