"""Cut molecules into fragments that chemists name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rdkit import Chem, rdBase
from rdkit.Chem import BRICS


@dataclass(frozen=True)
class Fragment:
    """A part of a molecule."""

    smiles: str
    """Canonical SMILES without stereochemistry, with * where a bond was cut."""
    atoms: tuple[int, ...]
    """Its atoms, as indices in the molecule."""


def _brics(mol: Chem.Mol) -> list[int]:
    """Return the bonds that BRICS cuts, which are those of common reactions.

    Source: Degen et al., ChemMedChem 2008, 3, 1503, as in RDKit.
    """
    return [mol.GetBondBetweenAtoms(*ends).GetIdx() for ends, _ in BRICS.FindBRICSBonds(mol)]


def _murcko(mol: Chem.Mol) -> list[int]:
    """Return the single bonds between a ring and an atom outside of that ring system.

    What remains are ring systems with their double-bonded substituents, linkers and side chains,
    as in the frameworks of Bemis and Murcko, J. Med. Chem. 1996, 39, 2887.
    """
    return [
        bond.GetIdx()
        for bond in mol.GetBonds()
        if bond.GetBondType() == Chem.BondType.SINGLE
        and not bond.IsInRing()
        and (bond.GetBeginAtom().IsInRing() or bond.GetEndAtom().IsInRing())
    ]


SCHEMES: dict[str, Callable[[Chem.Mol], list[int]]] = {"brics": _brics, "murcko": _murcko}
"""Name of each way to cut -> function that returns the bonds to cut."""


def fragments(smiles: str, scheme: str) -> list[Fragment]:
    """Return the fragments of a molecule; each atom is in exactly one.

    >>> [(each.smiles, each.atoms) for each in fragments("CCOc1ccccc1", "brics")]
    [('*CC', (0, 1)), ('*O*', (2,)), ('*c1ccccc1', (3, 4, 5, 6, 7, 8))]
    >>> [each.smiles for each in fragments("CN(C)c1ccccc1CC1CC1", "murcko")]
    ['*N(C)C', '*c1ccccc1*', '*C*', '*C1CC1']
    """
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
        bonds = SCHEMES[scheme](mol)
        cut = mol
        if bonds:
            cut = Chem.FragmentOnBonds(mol, bonds, dummyLabels=[(0, 0)] * len(bonds))
        parts = Chem.GetMolFrags(cut)
        texts = [Chem.MolFragmentToSmiles(cut, part, isomericSmiles=False) for part in parts]
    size = mol.GetNumAtoms()
    return [
        Fragment(text, tuple(atom for atom in part if atom < size))
        for text, part in zip(texts, parts, strict=True)
    ]
