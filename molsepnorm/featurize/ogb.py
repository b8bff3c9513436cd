"""`OgbFeaturizer`: the 9 atom and 3 bond features of the Open Graph Benchmark."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

from molsepnorm.featurize import SIZES
from molsepnorm.featurize.smiles import Featurizer, canonical_mol
from molsepnorm.molecule import MolGraph

__all__ = ["OgbFeaturizer"]

_Chiral, _Hybrid, _Bond, _Stereo = (
    Chem.ChiralType,
    Chem.HybridizationType,
    Chem.BondType,
    Chem.BondStereo,
)
# Each table maps a value to its index; what is not in it goes to the last index, see `atom_sizes`.
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
_BOND_TYPE = {_Bond.SINGLE: 0, _Bond.DOUBLE: 1, _Bond.TRIPLE: 2, _Bond.AROMATIC: 3}
_BOND_STEREO = {
    _Stereo.STEREONONE: 0,
    _Stereo.STEREOZ: 1,
    _Stereo.STEREOE: 2,
    _Stereo.STEREOCIS: 3,
    _Stereo.STEREOTRANS: 4,
    _Stereo.STEREOANY: 5,
}


class OgbFeaturizer(Featurizer):
    """OGB's features, equal to `ogb.utils.mol.smiles2graph` on the canonical SMILES.

    Atom: element, chirality tag, degree with hydrogens, formal charge, hydrogens, radical
    electrons, hybridisation, aromatic, in a ring. Bond: type, stereo, conjugated. A value without
    an entry of its own takes the last one, as in OGB; an unknown bond stereo, where OGB fails and
    which SMILES cannot express, is read as 'any'.

    The `ogb` package itself is not imported: its import asks the network for a newer version.

    >>> graph = OgbFeaturizer()("C=CO")
    >>> graph.atom_features.tolist()
    [[5, 0, 3, 5, 2, 0, 1, 0, 0], [5, 0, 3, 5, 1, 0, 1, 0, 0], [7, 0, 2, 5, 1, 0, 1, 0, 0]]
    >>> graph.bond_features.tolist()
    [[1, 0, 1], [0, 0, 1]]
    """

    name = "ogb"
    atom_sizes, bond_sizes = SIZES["ogb"]

    def __call__(self, smiles: str) -> MolGraph:
        """The graph of one molecule; no element and no bond type is refused.

        Raises:
            InvalidMolecule: the SMILES cannot be read.
        """
        mol = canonical_mol(smiles)
        atoms = [
            (
                _ELEMENT.get(atom.GetAtomicNum(), 118),
                _CHIRALITY.get(atom.GetChiralTag(), 4),
                _DEGREE.get(atom.GetTotalDegree(), 11),
                _CHARGE.get(atom.GetFormalCharge(), 11),
                _HYDROGENS.get(atom.GetTotalNumHs(), 9),
                _RADICALS.get(atom.GetNumRadicalElectrons(), 5),
                _HYBRIDIZATION.get(atom.GetHybridization(), 5),
                int(atom.GetIsAromatic()),
                int(atom.IsInRing()),
            )
            for atom in mol.GetAtoms()
        ]
        bonds = []
        features = []
        for bond in mol.GetBonds():
            bonds.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
            features.append(
                (
                    _BOND_TYPE.get(bond.GetBondType(), 4),
                    _BOND_STEREO.get(bond.GetStereo(), 5),
                    int(bond.GetIsConjugated()),
                )
            )
        return MolGraph(
            np.array(atoms, dtype=np.uint8),
            np.array(bonds, dtype=np.int32).reshape(-1, 2),
            np.array(features, dtype=np.uint8).reshape(-1, 3),
        )
