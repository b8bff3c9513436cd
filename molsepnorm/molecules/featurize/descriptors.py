"""RDKit's 2D descriptors and fingerprints of molecules, and the atoms behind each count."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import (
    Descriptors,
    MolSurf,
    rdFingerprintGenerator,
    rdMolDescriptors,
    rdPartialCharges,
)

from molsepnorm.errors import ModelError
from molsepnorm.molecules.featurize.smiles import oriented_mol

LEFT_OUT = ("qed", "Ipc")
"""Descriptors of RDKit that are not computed: `qed` takes a fifth of the time of all others and is
a function of eight of them; `Ipc` grows exponentially with the molecule (`AvgIpc` does not)."""

RDKIT_VERSION: str = rdBase.rdkitVersion
"""The version of RDKit, on which the values may depend."""

COUNTS = 2048
"""Number of Morgan counts."""

PAIRS = 2048
"""Number of atom-pair counts."""

_Calculation: TypeAlias = Callable[[Chem.Mol], Iterable[float]]
_FUNCTIONS: dict[str, Callable[[Chem.Mol], float]] = {
    name: function for name, function in Descriptors.descList if name not in LEFT_OUT
}
_CHARGES = ("MaxPartialCharge", "MinPartialCharge", "MaxAbsPartialCharge", "MinAbsPartialCharge")
_BINS = MolSurf.logpBins, MolSurf.mrBins
_CRIPPEN = (
    *("MolLogP", "MolMR"),
    *(f"SlogP_VSA{k + 1}" for k in range(len(_BINS[0]) + 1)),
    *(f"SMR_VSA{k + 1}" for k in range(len(_BINS[1]) + 1)),
)
_PEOE = tuple(f"PEOE_VSA{k + 1}" for k in range(len(MolSurf.chgBins) + 1))
_BCUT = tuple(name for name in _FUNCTIONS if name.startswith("BCUT2D_"))

DESCRIPTORS = (*(name for name in _FUNCTIONS if name not in _BCUT), *_BCUT)
"""Names of the D descriptors that `describe` computes by default."""

_SURFACE = ("PEOE_VSA", "SMR_VSA", "SlogP_VSA")  # beginnings of names
_FAST = {
    *("MolWt", "HeavyAtomMolWt", "ExactMolWt", "MolLogP", "MolMR", "TPSA", "LabuteASA"),
    *_CHARGES,
    *("HallKierAlpha", "FractionCSP3", "RingCount", "HeavyAtomCount", "NHOHCount", "NOCount"),
    *("NumAliphaticCarbocycles", "NumAliphaticHeterocycles", "NumAliphaticRings"),
    *("NumAromaticCarbocycles", "NumAromaticHeterocycles", "NumAromaticRings"),
    *("NumSaturatedCarbocycles", "NumSaturatedHeterocycles", "NumSaturatedRings"),
    *("NumAmideBonds", "NumAtomStereoCenters", "NumBridgeheadAtoms", "NumHAcceptors"),
    *("NumHDonors", "NumHeteroatoms", "NumHeterocycles", "NumRotatableBonds", "NumSpiroAtoms"),
    "NumUnspecifiedAtomStereoCenters",
}

FAST_DESCRIPTORS = tuple(name for name in DESCRIPTORS if name in _FAST or name.startswith(_SURFACE))
"""Names of the 72 descriptors that a forest reads: mass, logP, refractivity, charges, surface
areas, and counts of atoms, bonds and rings. They take a sixth of the time of all, and forests are
almost as accurate with them."""

MORGAN_GENERATOR = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=COUNTS)
"""RDKit's generator of the Morgan counts."""
PAIR_GENERATOR = rdFingerprintGenerator.GetAtomPairGenerator(fpSize=PAIRS)
"""RDKit's generator of the atom-pair counts."""


def describe(mol: Chem.Mol, names: Sequence[str] = DESCRIPTORS) -> np.ndarray:  # (D,)
    """Return descriptors of a molecule, float32; NaN where RDKit cannot compute one.

    The values are those of `rdkit.Chem.Descriptors.CalcMolDescriptors`, in half of its time, since
    descriptors that share a calculation are computed together. There is one exception: if RDKit has
    no partial charge for one of the atoms, the smallest and largest charges are NaN, since RDKit's
    then depend on the order of the atoms.

    >>> values = dict(zip(DESCRIPTORS, describe(Chem.MolFromSmiles("CCO")).tolist()))
    >>> values["HeavyAtomCount"], values["NumHDonors"]
    (3.0, 1.0)
    """
    found: dict[str, float] = {}
    with rdBase.BlockLogs():
        for name in names:
            if name not in found:
                together, function = _CALCULATIONS[name]
                values: Iterable[float] = repeat(math.nan)
                with suppress(RuntimeError, ValueError, ArithmeticError, LookupError):
                    values = function(mol)
                found |= zip(together, values, strict=False)
    single = np.array([found[name] for name in names], dtype=np.float64).astype(np.float32)
    single[~np.isfinite(single)] = np.nan
    return single


def _charge_range(mol: Chem.Mol) -> tuple[float, ...]:
    """Return `_CHARGES`; NaN unless all atoms have a partial charge."""
    rdPartialCharges.ComputeGasteigerCharges(mol)
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))
    charges = [atom.GetDoubleProp("_GasteigerCharge") for atom in atoms]
    if not all(map(math.isfinite, charges)):
        return (math.nan,) * len(_CHARGES)
    ends = max(charges), min(charges)
    return *ends, *sorted(map(abs, ends), reverse=True)


def _crippen(mol: Chem.Mol) -> tuple[float, ...]:
    """Return `_CRIPPEN`: sums of logP and refractivity, and surface areas of heavy atoms by bin."""
    shares = [*zip(*rdMolDescriptors._CalcCrippenContribs(Chem.AddHs(mol)), strict=True)]
    areas, _ = rdMolDescriptors._CalcLabuteASAContribs(mol)
    surfaces = [[0.0] * (len(bins) + 1) for bins in _BINS]
    for surface, bins, its in zip(surfaces, _BINS, shares, strict=True):
        for area, share in zip(areas, its, strict=False):  # the hydrogens are the last atoms
            surface[bisect(bins, share)] += area
    return *map(sum, shares), *chain.from_iterable(surfaces)


def _alone(function: Callable[[Chem.Mol], float]) -> _Calculation:
    return lambda mol: (function(mol),)


_CALCULATIONS: dict[str, tuple[tuple[str, ...], _Calculation]] = {
    **{name: ((name,), _alone(function)) for name, function in _FUNCTIONS.items()},
    **dict.fromkeys(_CHARGES, (_CHARGES, _charge_range)),
    **dict.fromkeys(_CRIPPEN, (_CRIPPEN, _crippen)),
    **dict.fromkeys(_PEOE, (_PEOE, rdMolDescriptors.PEOE_VSA_)),
    **dict.fromkeys(_BCUT, (_BCUT, rdMolDescriptors.BCUT2D)),
}
"""For each descriptor, those that are computed together, and the function for all of them. It
raises an error if RDKit cannot compute one."""


def morgan_counts(mol: Chem.Mol) -> np.ndarray:  # (COUNTS,)
    """Return how often each hashed environment of up to two bonds occurs in the molecule, uint32.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742, as in RDKit.
    """
    return MORGAN_GENERATOR.GetCountFingerprintAsNumPy(mol)


def pair_counts(mol: Chem.Mol) -> np.ndarray:  # (PAIRS,)
    """Return how often each hashed pair of atoms occurs in the molecule, uint32.

    Two atoms are equal if they have the same element, number of neighbours and number of π
    electrons, and two pairs if the number of bonds between their atoms is the same, too.

    Source: Carhart, Smith and Venkataraghavan, J. Chem. Inf. Comput. Sci. 1985, 25, 64, as in
    RDKit.
    """
    return PAIR_GENERATOR.GetCountFingerprintAsNumPy(mol)


def structure_inputs(
    smiles: Sequence[str], counted: bool, names: Sequence[str], paired: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Morgan counts, the named descriptors and atom-pair counts of n molecules: uint16
    (n, K), float32 (n, D) and uint16 (n, P). Counts that are not wanted have no columns.

    Raises:
        ModelError: this version of RDKit does not have one of the descriptors.
    """
    if missing := [name for name in names if name not in _CALCULATIONS]:
        raise ModelError(
            f"the model reads the descriptor '{missing[0]}', which RDKit {RDKIT_VERSION} does not "
            "have: install the version of RDKit that the model was trained with"
        )
    rows = len(smiles)
    counts = np.zeros((rows, COUNTS * counted), dtype=np.uint16)
    described = np.zeros((rows, len(names)), dtype=np.float32)
    pairs = np.zeros((rows, PAIRS * paired), dtype=np.uint16)
    for row, text in enumerate(smiles if counted or names or paired else ()):
        mol = oriented_mol(text)
        if counted:
            counts[row] = morgan_counts(mol)
        if names:
            described[row] = describe(mol, names)
        if paired:
            pairs[row] = pair_counts(mol)
    return counts, described, pairs


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

        An environment of the whole molecule counts if all of its atoms are present.
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
    """Return the pairs of `pair_counts` as environments; see `morgan_environments`."""
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
