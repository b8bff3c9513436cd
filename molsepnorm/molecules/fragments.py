"""Cut molecules into fragments that chemists name, and Bemis–Murcko scaffolds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rdkit import Chem, rdBase
from rdkit.Chem import BRICS

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import canonical_mol, oriented_mol


@dataclass(frozen=True)
class Fragment:
    """A part of a molecule."""

    smiles: str
    """Canonical SMILES without stereochemistry, with * where a bond was cut."""
    atoms: tuple[int, ...]
    """Its atoms, as indices in the molecule."""


def _brics(mol: Chem.Mol) -> list[int]:
    """Return the bonds that common reactions make: Degen et al., ChemMedChem 2008, 3, 1503."""
    return [mol.GetBondBetweenAtoms(*ends).GetIdx() for ends, _ in BRICS.FindBRICSBonds(mol)]


def _murcko(mol: Chem.Mol) -> list[int]:
    """Return the single bonds between a ring and an atom outside of that ring system.

    This leaves ring systems with their double-bonded substituents, linkers and side chains, as in
    Bemis and Murcko, J. Med. Chem. 1996, 39, 2887.
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

    >>> [(part.smiles, part.atoms) for part in fragments("CCOc1ccccc1", "brics")]
    [('*CC', (0, 1)), ('*O*', (2,)), ('*c1ccccc1', (3, 4, 5, 6, 7, 8))]
    >>> [part.smiles for part in fragments("CN(C)c1ccccc1CC1CC1", "murcko")]
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


def murcko_scaffold(smiles: str, chirality: bool = False) -> str:
    """Return the rings of a molecule and the chains between them as SMILES; "" without rings.

    As in RDKit, an atom that is bound to the scaffold by a double bond is part of it. Isotopes and
    atom-map numbers are ignored. A salt or a mixture keeps all parts with rings.

    >>> murcko_scaffold("CCOc1ccc(CC2CC2)cc1"), murcko_scaffold("CC1CCCC(=O)C1")
    ('c1ccc(CC2CC2)cc1', 'O=C1CCCCC1')
    >>> murcko_scaffold("C1C[C@H]2CC[C@@H]1O2"), murcko_scaffold("C1C[C@H]2CC[C@@H]1O2", True)
    ('C1CC2CCC1O2', 'C1C[C@H]2CC[C@@H]1O2')

    Source: Bemis and Murcko, J. Med. Chem. 39 (1996).
    """
    try:
        mol = canonical_mol(smiles)
    except InvalidMolecule:
        mol = oriented_mol(smiles)  # RDKit cannot read its own SMILES of impossible rings
    if not mol.GetRingInfo().NumRings():  # RDKit takes a second for a long chain
        return ""
    return Chem.MolToSmiles(Chem.MurckoDecompose(mol), isomericSmiles=chirality)
