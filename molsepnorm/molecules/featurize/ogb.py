"""`OgbFeaturizer`: the 9 atom and 3 bond features of the Open Graph Benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from rdkit import Chem

from molsepnorm.molecules.featurize.registry import SIZES, Featurizer
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.molecules.molecule import MolGraph

_KINDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_HYBRIDS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_STEREOS = ("NONE", "Z", "E", "CIS", "TRANS", "ANY")
# Each table maps a value to its index; other values get the last index of the feature.
_HYBRIDIZATION = {Chem.HybridizationType.names[name]: i for i, name in enumerate(_HYBRIDS)}
_BOND_STEREO = {Chem.BondStereo.names[f"STEREO{name}"]: i for i, name in enumerate(_STEREOS)}
_BOND_TYPE = {Chem.BondType.names[name]: i for i, name in enumerate(_KINDS)}

_OF_ATOM = (
    *(Chem.Atom.GetAtomicNum, Chem.Atom.GetChiralTag, Chem.Atom.GetTotalDegree),
    *(Chem.Atom.GetFormalCharge, Chem.Atom.GetTotalNumHs, Chem.Atom.GetNumRadicalElectrons),
    *(Chem.Atom.GetHybridization, Chem.Atom.GetIsAromatic, Chem.Atom.IsInRing),
)
_OF_BOND = Chem.Bond.GetBondType, Chem.Bond.GetStereo, Chem.Bond.GetIsConjugated


class OgbFeaturizer(Featurizer):
    """OGB's features.

    The graph equals `ogb.utils.mol.smiles2graph` of the SMILES, or of its canonical form if a
    tetrahedral centre is marked, since chirality tags depend on the order of the atoms. Isotopes
    are ignored. A hydrogen that marks the geometry of a double bond, an atom in OGB, is implicit.

    Atom: element, chirality tag, degree with hydrogens, formal charge, hydrogens, radical
    electrons, hybridisation, aromatic, in a ring. Bond: type, stereo, conjugated. Rare values
    share the last index, as in OGB.

    The `ogb` package is not imported, since its import contacts a server to look for updates.

    >>> graph = OgbFeaturizer()("C=CO")
    >>> graph.atom_features.tolist()
    [[5, 0, 3, 5, 2, 0, 1, 0, 0], [5, 0, 3, 5, 1, 0, 1, 0, 0], [7, 0, 2, 5, 1, 0, 1, 0, 0]]
    >>> graph.bond_features.tolist()
    [[1, 0, 1], [0, 0, 1]]
    """

    name = "ogb"
    atom_sizes, bond_sizes = SIZES["ogb"][:2]

    def __call__(self, smiles: str) -> MolGraph:
        mol = oriented_mol(smiles)
        atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
        bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
        ends = Chem.Bond.GetBeginAtomIdx, Chem.Bond.GetEndAtomIdx
        return MolGraph(
            _features(_atom, _OF_ATOM, atoms),
            np.array([list(map(end, bonds)) for end in ends], dtype=np.int32).T,
            _features(_bond, _OF_BOND, bonds),
        )


@cache
def _atom(*values: Any) -> bytes:
    element, chirality, degree, charge, hydrogens, radicals, hybridization, *flags = values
    return bytes(
        (
            element - 1 if 1 <= element <= 118 else 118,
            min(int(chirality), 4),
            min(degree, 11),
            charge + 5 if -5 <= charge <= 5 else 11,
            min(hydrogens, 9),
            min(radicals, 5),
            _HYBRIDIZATION.get(hybridization, 5),
            *flags,
        )
    )


@cache
def _bond(kind: Any, stereo: Any, conjugated: bool) -> bytes:
    return bytes((_BOND_TYPE.get(kind, 4), _BOND_STEREO.get(stereo, 5), conjugated))


def _features(
    encode: Callable[..., bytes], values: Sequence[Callable[[Any], Any]], parts: Sequence[Any]
) -> np.ndarray:  # uint8 (parts, values)
    rows = map(encode, *(map(value, parts) for value in values))
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, len(values))
