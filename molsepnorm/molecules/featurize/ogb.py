"""`OgbFeaturizer`: the 9 atom and 3 bond features of the Open Graph Benchmark."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rdkit import Chem

from molsepnorm.molecules.featurize.featurizer import Featurizer
from molsepnorm.molecules.featurize.registry import SIZES
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["OgbFeaturizer", "ogb_graph"]

_Chiral, _Hybrid, _Bond, _Stereo = (
    Chem.ChiralType,
    Chem.HybridizationType,
    Chem.BondType,
    Chem.BondStereo,
)
# Each table maps a value to its index; other values get the last index of the feature.
_ELEMENT = {number: number - 1 for number in range(1, 119)}
_CHIRALITY = {
    _Chiral.CHI_UNSPECIFIED: 0,
    _Chiral.CHI_TETRAHEDRAL_CW: 1,
    _Chiral.CHI_TETRAHEDRAL_CCW: 2,
    _Chiral.CHI_OTHER: 3,
}
_DEGREE = {degree: degree for degree in range(11)}
_CHARGE = {charge: charge + 5 for charge in range(-5, 6)}
_HYDROGENS = {hydrogens: hydrogens for hydrogens in range(9)}
_RADICALS = {electrons: electrons for electrons in range(5)}
_HYBRIDIZATION = {
    _Hybrid.SP: 0,
    _Hybrid.SP2: 1,
    _Hybrid.SP3: 2,
    _Hybrid.SP3D: 3,
    _Hybrid.SP3D2: 4,
}
_BOND_TYPE: dict[float, int] = {  # by type, or by order: 1, 2, 3
    _Bond.SINGLE: 0,
    _Bond.DOUBLE: 1,
    _Bond.TRIPLE: 2,
    _Bond.AROMATIC: 3,
    1.5: 3,
}
_BOND_STEREO = {
    _Stereo.STEREONONE: 0,
    _Stereo.STEREOZ: 1,
    _Stereo.STEREOE: 2,
    _Stereo.STEREOCIS: 3,
    _Stereo.STEREOTRANS: 4,
    _Stereo.STEREOANY: 5,
}


class OgbFeaturizer(Featurizer):
    """OGB's features, equal to `ogb.utils.mol.smiles2graph`.

    Atoms are in the order of the SMILES, or of its canonical form if a tetrahedral centre is
    marked, since chirality tags depend on the order.

    Atom: element, chirality tag, degree with hydrogens, formal charge, hydrogens, radical
    electrons, hybridisation, aromatic, in a ring. Bond: type, stereo, conjugated. Rare values
    share the last index, as in OGB. OGB fails on an unknown bond stereo, which SMILES cannot
    express; here it is read as 'any'.

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
        """Return the graph of one molecule; every element and bond type is supported.

        Raises:
            InvalidMolecule: the SMILES cannot be read.
        """
        return ogb_graph(oriented_mol(smiles), smiles)


def ogb_graph(mol: Chem.Mol, smiles: str) -> MolGraph:
    """Return a molecule's graph with OGB's features, see `OgbFeaturizer`.

    Args:
        mol: the result of `oriented_mol`.
        smiles: the SMILES from which it was read.
    """
    atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
    bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
    # One feature after the other is faster than one atom after the other. Calls into RDKit take
    # most of the time, so they are skipped if the SMILES rules a feature out: there is no
    # tetrahedral centre without @, no bond geometry without a slash, and no radical or dative
    # bond without brackets.
    brackets, slashes = "[" in smiles, "/" in smiles or "\\" in smiles
    unmarked, no_radical = [_Chiral.CHI_UNSPECIFIED] * len(atoms), [0] * len(atoms)
    ends = np.array(
        [
            list(map(Chem.Bond.GetBeginAtomIdx, bonds)),
            list(map(Chem.Bond.GetEndAtomIdx, bonds)),
        ],
        dtype=np.int32,
    )
    atom_rows = zip(
        map(Chem.Atom.GetChiralTag, atoms) if "@" in smiles else unmarked,
        map(Chem.Atom.GetAtomicNum, atoms),
        map(Chem.Atom.GetTotalDegree, atoms),
        np.bincount(ends.ravel(), minlength=len(atoms)).tolist(),
        map(Chem.Atom.GetFormalCharge, atoms),
        map(Chem.Atom.GetNumRadicalElectrons, atoms) if brackets else no_radical,
        map(Chem.Atom.GetHybridization, atoms),
        map(Chem.Atom.GetIsAromatic, atoms),
        map(Chem.Atom.IsInRing, atoms),
        strict=True,
    )
    bond_rows = zip(
        map(Chem.Bond.GetBondType if brackets else Chem.Bond.GetBondTypeAsDouble, bonds),
        map(Chem.Bond.GetStereo, bonds) if slashes else [_Stereo.STEREONONE] * len(bonds),
        map(Chem.Bond.GetIsConjugated, bonds),
        strict=True,
    )
    return MolGraph(
        _features(_ATOM_ROWS, atom_rows, len(SIZES["ogb"].atoms)),
        ends.T,
        _features(_BOND_ROWS, bond_rows, len(SIZES["ogb"].bonds)),
    )


class _AtomRows(dict[tuple, bytes]):
    """RDKit's properties of an atom -> its nine features; a few hundred cover all molecules."""

    def __missing__(self, values: tuple) -> bytes:
        chirality, element, degree, bonded, charge, radicals, hybridization, *flags = values
        self[values] = bytes(
            (
                _ELEMENT.get(element, 118),
                _CHIRALITY.get(chirality, 4),
                _DEGREE.get(degree, 11),
                _CHARGE.get(charge, 11),
                _HYDROGENS.get(degree - bonded, 9),
                _RADICALS.get(radicals, 5),
                _HYBRIDIZATION.get(hybridization, 5),
                *flags,
            )
        )
        return self[values]


class _BondRows(dict[tuple, bytes]):
    """RDKit's properties of a bond -> its three features."""

    def __missing__(self, values: tuple) -> bytes:
        kind, stereo, conjugated = values
        self[values] = bytes((_BOND_TYPE.get(kind, 4), _BOND_STEREO.get(stereo, 5), conjugated))
        return self[values]


_ATOM_ROWS, _BOND_ROWS = _AtomRows(), _BondRows()


def _features(rows: dict[tuple, bytes], values: Iterable[tuple], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(map(rows.__getitem__, values)), dtype=np.uint8).reshape(-1, width)
