"""Structures of an SDF as SMILES."""

from __future__ import annotations

import re

from rdkit import Chem, rdBase

from molsepnorm.featurize.smiles import MAX_ATOMS, MAX_RINGS

__all__ = ["smiles_of"]

_V2000 = re.compile(r"(?:.*\n){3}([ \d]{2}\d)([ \d]{2}\d)")
_V3000 = re.compile(r"M  V30 COUNTS (\d{1,9}) (\d{1,9})")


def smiles_of(block: str) -> str:
    """The canonical SMILES of a molfile's structure, V2000 or V3000.

    Stereochemistry is perceived from wedges and positions, in two or three dimensions; explicit
    hydrogens become implicit ones. Isotopes and atom-map numbers stay, featurisers clear them.

    Where the structure is drawn, but makes no sense to RDKit (a carbon with five bonds), it is
    the SMILES of what is drawn, which a featuriser will refuse with RDKit's reason. Where nothing
    can be made of the block, or it has more than twice the `MAX_ATOMS` of a SMILES that can safely
    be written, or declares more than `MAX_RINGS` rings, "".
    """
    if _is_too_large(block):
        return ""
    with rdBase.BlockLogs():
        mol = Chem.MolFromMolBlock(block)
        if mol is not None:
            return Chem.MolToSmiles(mol) if mol.GetNumAtoms() <= 2 * MAX_ATOMS else ""
        return _as_drawn(block)


def _is_too_large(block: str) -> bool:
    """Return whether the block declares more atoms or bonds than RDKit can read quickly."""
    counts = _V3000.search(block)
    if counts is None:
        counts = _V2000.match(block.replace("\r\n", "\n"))
    if counts is None:
        return len(block) > 200 * MAX_ATOMS  # nothing that RDKit reads, or not at once
    atoms, bonds = map(int, counts.groups())
    return atoms > 2 * MAX_ATOMS or bonds - atoms > MAX_RINGS


def _as_drawn(block: str) -> str:
    """A SMILES that RDKit does not read, as it does not read the block; else ""."""
    mol = Chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
    if mol is None or mol.GetNumAtoms() > 2 * MAX_ATOMS:
        return ""
    for bond in mol.GetBonds():
        if bond.GetBondType() == Chem.BondType.AROMATIC:
            for part in (bond, bond.GetBeginAtom(), bond.GetEndAtom()):
                part.SetIsAromatic(True)
    text = Chem.MolToSmiles(mol)
    # A molecule would be predicted that is not what was drawn.
    return text if Chem.MolFromSmiles(text) is None else ""
