"""`OgbFeaturizer`: the 9 atom and 3 bond features of the Open Graph Benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import repeat

import numpy as np
from rdkit import Chem

from molsepnorm.molecules.featurize.registry import SIZES, Featurizer
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.molecules.molecule import MolGraph

_UNMARKED, _NO_STEREO = Chem.ChiralType.CHI_UNSPECIFIED, Chem.BondStereo.STEREONONE
_KINDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_HYBRIDS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_STEREOS = ("NONE", "Z", "E", "CIS", "TRANS", "ANY")
# Each table maps a value to its index; other values get the last index of the feature.
_HYBRIDIZATION = {Chem.HybridizationType.names[name]: i for i, name in enumerate(_HYBRIDS)}
_BOND_STEREO = {Chem.BondStereo.names[f"STEREO{name}"]: i for i, name in enumerate(_STEREOS)}
_BOND_TYPE: dict[float, int] = {Chem.BondType.names[name]: i for i, name in enumerate(_KINDS)}
_BOND_TYPE[1.5] = 3  # the order of an aromatic bond; 1, 2 and 3 equal the types


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
        return _graph(oriented_mol(smiles), smiles)


def _graph(mol: Chem.Mol, smiles: str) -> MolGraph:
    atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
    bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
    # Calls into RDKit take most of the time. They are skipped if the SMILES rules a feature out:
    # there is no tetrahedral centre without @, no bond geometry without a slash, no radical without
    # brackets, and no dative bond without these or an arrow, unless CXSMILES adds one.
    extended = "|" in smiles
    brackets, centres = extended or "[" in smiles, extended or "@" in smiles
    dative = brackets or "->" in smiles or "<-" in smiles
    slashes = extended or "/" in smiles or "\\" in smiles
    begins, ends = (map(end, bonds) for end in (Chem.Bond.GetBeginAtomIdx, Chem.Bond.GetEndAtomIdx))
    both = np.array([list(begins), list(ends)], dtype=np.int32)
    atom_rows = zip(
        map(Chem.Atom.GetChiralTag, atoms) if centres else repeat(_UNMARKED, len(atoms)),
        map(Chem.Atom.GetAtomicNum, atoms),
        map(Chem.Atom.GetTotalDegree, atoms),
        np.bincount(both.ravel(), minlength=len(atoms)).tolist(),
        map(Chem.Atom.GetFormalCharge, atoms),
        map(Chem.Atom.GetNumRadicalElectrons, atoms) if brackets else repeat(0, len(atoms)),
        map(Chem.Atom.GetHybridization, atoms),
        map(Chem.Atom.GetIsAromatic, atoms),
        map(Chem.Atom.IsInRing, atoms),
        strict=True,
    )
    bond_rows = zip(
        map(Chem.Bond.GetBondType if dative else Chem.Bond.GetBondTypeAsDouble, bonds),
        map(Chem.Bond.GetStereo, bonds) if slashes else repeat(_NO_STEREO, len(bonds)),
        map(Chem.Bond.GetIsConjugated, bonds),
        strict=True,
    )
    return MolGraph(
        _features(map(_atom, atom_rows), len(SIZES["ogb"].atoms)),
        both.T,
        _features(map(_bond, bond_rows), len(SIZES["ogb"].bonds)),
    )


@cache
def _atom(values: tuple) -> bytes:
    chirality, element, degree, bonded, charge, radicals, hybridization, *flags = values
    return bytes(
        (
            element - 1 if 1 <= element <= 118 else 118,
            min(int(chirality), 4),
            min(degree, 11),
            charge + 5 if -5 <= charge <= 5 else 11,
            min(degree - bonded, 9),
            min(radicals, 5),
            _HYBRIDIZATION.get(hybridization, 5),
            *flags,
        )
    )


@cache
def _bond(values: tuple) -> bytes:
    kind, stereo, conjugated = values
    return bytes((_BOND_TYPE.get(kind, 4), _BOND_STEREO.get(stereo, 5), conjugated))


def _features(rows: Iterable[bytes], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width)
