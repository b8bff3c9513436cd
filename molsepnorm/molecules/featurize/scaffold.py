"""Bemis–Murcko scaffolds, by which molecules are split."""

from __future__ import annotations

from rdkit import Chem

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import canonical_mol, oriented_mol

__all__ = ["murcko_scaffold"]


def murcko_scaffold(smiles: str, chirality: bool = False) -> str:
    """The rings of a molecule and the chains between them, as SMILES; "" where it has no ring.

    As RDKit cuts it, so an atom that is bound to the scaffold by a double bond belongs to it. Every
    SMILES of a molecule has the same scaffold; isotopes and atom-map numbers do not matter. Of a
    salt or a mixture, all parts with rings count.

    >>> murcko_scaffold("CCOc1ccc(CC2CC2)cc1"), murcko_scaffold("CC1CCCC(=O)C1")
    ('c1ccc(CC2CC2)cc1', 'O=C1CCCCC1')
    >>> murcko_scaffold("CCO")
    ''
    >>> murcko_scaffold("C1C[C@H]2CC[C@@H]1O2"), murcko_scaffold("C1C[C@H]2CC[C@@H]1O2", True)
    ('C1CC2CCC1O2', 'C1C[C@H]2CC[C@@H]1O2')

    Args:
        smiles: of one molecule.
        chirality: tell scaffolds apart by their stereocentres and double bonds.

    Raises:
        InvalidMolecule: as the featurisers.

    Source: Bemis and Murcko, J. Med. Chem. 39 (1996).
    """
    try:
        mol = canonical_mol(smiles)
    except InvalidMolecule:
        mol = oriented_mol(smiles)  # of an impossible ring, RDKit cannot read its own SMILES
    if not mol.GetRingInfo().NumRings():  # RDKit takes a second to find that in a long chain
        return ""
    return Chem.MolToSmiles(Chem.MurckoDecompose(mol), isomericSmiles=chirality)
