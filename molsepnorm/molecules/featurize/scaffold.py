"""Bemis–Murcko scaffolds, used to split data sets."""

from __future__ import annotations

from rdkit import Chem

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import canonical_mol, oriented_mol


def murcko_scaffold(smiles: str, chirality: bool = False) -> str:
    """Return the rings of a molecule and the chains between them as SMILES; "" without rings.

    As in RDKit, an atom that is bound to the scaffold by a double bond is part of it. All SMILES
    of a molecule give the same scaffold; isotopes and atom-map numbers are ignored. The scaffold
    of a salt or a mixture consists of all parts with rings.

    >>> murcko_scaffold("CCOc1ccc(CC2CC2)cc1"), murcko_scaffold("CC1CCCC(=O)C1")
    ('c1ccc(CC2CC2)cc1', 'O=C1CCCCC1')
    >>> murcko_scaffold("CCO")
    ''
    >>> murcko_scaffold("C1C[C@H]2CC[C@@H]1O2"), murcko_scaffold("C1C[C@H]2CC[C@@H]1O2", True)
    ('C1CC2CCC1O2', 'C1C[C@H]2CC[C@@H]1O2')

    Raises:
        InvalidMolecule: as the featurisers.

    Source: Bemis and Murcko, J. Med. Chem. 39 (1996).
    """
    try:
        mol = canonical_mol(smiles)
    except InvalidMolecule:
        mol = oriented_mol(smiles)  # RDKit cannot read its own SMILES of impossible rings
    if not mol.GetRingInfo().NumRings():  # RDKit takes a second for a long chain
        return ""
    return Chem.MolToSmiles(Chem.MurckoDecompose(mol), isomericSmiles=chirality)
