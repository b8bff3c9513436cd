"""Convert the structures of an SDF to SMILES."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdCoordGen, rdDepictor

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.cxsmiles import has_axes
from molsepnorm.molecules.featurize.further import as_one_molecule
from molsepnorm.molecules.featurize.smiles import MAX_ATOMS, MAX_RINGS, Unwritten, read_smiles

_V2000 = re.compile(r"(?:.*\n){3}([ \d]{2}\d)([ \d]{2}\d)")
_V3000 = re.compile(r"M  V30 COUNTS (\d{1,9}) (\d{1,9})")

_ALIAS = re.compile(r"(?:H\d*)?([A-Z][a-z]?)(?:H\d*)?\d*[+-]?")  # such as H2N or CH3, of the atom
_QUERY_SYMBOL = re.compile(r"^(?:(?: *-?\d+\.\d+){3} |M  V30 \d+ )(?:AH|LP?) ", re.MULTILINE)
"""Any atom, hydrogen included, and a list of atoms; RDKit reads both as a plain *."""
_GROUPS = {  # of stereocentres -> sign in CXSMILES
    Chem.StereoGroupType.STEREO_ABSOLUTE: "a",
    Chem.StereoGroupType.STEREO_AND: "&{}",
    Chem.StereoGroupType.STEREO_OR: "o{}",
}
# the bracketed groups that change the molecule; others, such as DAT and SUP, are notes
_POLYMERS = {"SRU", "MON", "COP", "CRO", "GRA", "MOD", "MER", "ANY", "MIX", "FOR"}


def smiles_of(block: str) -> str:
    """Return the canonical SMILES of a molfile's structure, V2000 or V3000.

    Stereochemistry is perceived from wedges and positions; groups of stereocentres and the wedges
    of atropisomers follow as CXSMILES. Explicit hydrogens become implicit.

    If RDKit refuses a structure (a carbon with five bonds), the SMILES of the drawing is returned,
    which a featuriser refuses with RDKit's reason. If the block cannot be read, is too large, or
    has a part that no SMILES can express (see `mol_to_smiles`), the result is `Unwritten`.
    """
    if reason := _excess(block):
        return Unwritten(reason)
    if _QUERY_SYMBOL.search(block):
        return Unwritten(_cannot("a query atom"))
    with rdBase.BlockLogs():
        mol = Chem.MolFromMolBlock(block)
        if mol is None:
            return _as_drawn(block)
        text = mol_to_smiles(mol)
        return text + _extension(mol) if text else text


def drawn(smiles: str, title: str = "") -> str:
    """Return a molfile of a SMILES, drawn in two dimensions, with this title.

    An invalid SMILES becomes a molfile without atoms. If the wedges of RDKit's layout do not show
    the handedness of each stereocentre, as in some cages, CoordGen draws the molecule.

    >>> drawn("C1CC", "a ring").split("\\n")[3]
    '  0  0  0  0  0  0  0  0  0  0999 V2000'
    """
    with rdBase.BlockLogs():
        try:
            mol = read_smiles(as_one_molecule(smiles))
            rdDepictor.Compute2DCoords(mol)
        except InvalidMolecule:
            mol = Chem.Mol()
        mol.SetProp("_Name", title)
        block: str = Chem.MolToMolBlock(mol)
        unmarked = Chem.ChiralType.CHI_UNSPECIFIED
        if any(atom.GetChiralTag() != unmarked for atom in mol.GetAtoms()):
            text = Chem.MolToSmiles(mol)
            if smiles_of(block) != text:
                rdCoordGen.AddCoords(mol)
                other = Chem.MolToMolBlock(mol)
                return other if smiles_of(other) == text else block
        return block


def mol_to_smiles(mol: Chem.Mol) -> str:
    """Return the SMILES of an RDKit molecule; `Unwritten` if it is too large, or has a part that no
    SMILES can express, such as a polymer, an R group, an abbreviation or a query."""
    if mol.GetNumAtoms() > 2 * MAX_ATOMS:
        return Unwritten(_too_many(mol.GetNumAtoms()))
    if what := _variable_part(mol):
        return Unwritten(_cannot(what))
    return Chem.MolToSmiles(mol)


def _extension(mol: Chem.Mol) -> str:
    """Return the stereochemistry that the SMILES just written lacks, as its extension, or "".
    RDKit's CXSMILES of groups of stereocentres may have the other enantiomer."""
    order = {atom: place for place, atom in enumerate(_output_order(mol))}
    parts = []
    if has_axes(mol):
        fields = Chem.CXSmilesFields.CX_COORDS | Chem.CXSmilesFields.CX_BOND_CFG
        parts.append(Chem.MolToCXSmiles(mol, Chem.SmilesWriteParams(), fields).split("|")[1])
    for number, group in enumerate(mol.GetStereoGroups(), start=1):
        atoms = [atom.GetIdx() for atom in group.GetAtoms()]
        atoms += [bond.GetBeginAtomIdx() for bond in group.GetBonds()]  # axes of atropisomers
        places = ",".join(str(order[atom]) for atom in atoms)
        parts.append(f"{_GROUPS[group.GetGroupType()].format(number)}:{places}")
    return f" |{','.join(parts)}|" if parts else ""


def _output_order(mol: Chem.Mol) -> list[int]:
    """Return the atoms in the order of the SMILES that was written last."""
    return [*mol.GetPropsAsDict(True, True).get("_smilesAtomOutputOrder", [])]


def written(molecule: Any) -> Any:
    return mol_to_smiles(molecule) if isinstance(molecule, Chem.Mol) else molecule


def atoms_in_smiles(molecule: Any) -> tuple[Any, np.ndarray | None]:
    """Return the SMILES of an RDKit molecule, and the index in the molecule of each heavy atom of
    the SMILES, int64 (N,). Anything else is returned as it is, with None.

    >>> atoms_in_smiles(Chem.MolFromSmiles("OCC"))
    ('CCO', array([2, 1, 0]))
    """
    text = written(molecule)
    if not isinstance(molecule, Chem.Mol) or isinstance(text, Unwritten):
        return text, None
    order = _output_order(molecule)
    heavy = [index for index in order if molecule.GetAtomWithIdx(index).GetAtomicNum() != 1]
    return text, np.array(heavy, dtype=np.int64)


def _cannot(what: str) -> str:
    return f"the structure describes {what}, which a model cannot read"


def _too_many(atoms: int) -> str:
    return f"{atoms:,} atoms in the structure; at most {2 * MAX_ATOMS:,} are supported"


def _excess(block: str) -> str | None:
    counts = _V3000.search(block) or _V2000.match(block.replace("\r\n", "\n"))
    if counts is None:
        if len(block) > (limit := 200 * MAX_ATOMS):
            return f"a structure of {len(block):,} characters; at most {limit:,} are supported"
        return None
    atoms, bonds = map(int, counts.groups())
    if atoms > 2 * MAX_ATOMS:
        return _too_many(atoms)
    if bonds - atoms > MAX_RINGS:
        return f"{bonds - atoms:,} more bonds than atoms; at most {MAX_RINGS:,} more are supported"
    return None


def _variable_part(mol: Chem.Mol) -> str | None:
    if any(group.GetProp("TYPE") in _POLYMERS for group in Chem.GetMolSubstanceGroups(mol)):
        return "a polymer or another bracketed group"
    atoms, bonds = mol.GetAtoms(), mol.GetBonds()
    if any(bond.HasProp("_MolFileBondEndPts") for bond in bonds):
        return "variable attachment or a haptic bond"
    if mol.HasProp("_molLinkNodes"):
        return "a link node"
    if any(atom.HasProp("molAttchpt") for atom in atoms):
        return "an attachment point"
    for atom in atoms:
        label = atom.GetProp("dummyLabel") if atom.HasProp("dummyLabel") else "*"
        if atom.HasProp("_MolFileRLabel") or label not in ("*", "R"):  # RDKit writes * as R
            return "an R group"
    for atom in atoms:
        alias = atom.GetProp("molFileAlias").strip() if atom.HasProp("molFileAlias") else ""
        element = _ALIAS.fullmatch(alias)
        if alias and not (element and element[1] == atom.GetSymbol()):
            return f"the abbreviation '{alias}'"
    # AtomNull is RDKit's query of a plain *
    if any(atom.HasQuery() and atom.DescribeQuery().strip() != "AtomNull" for atom in atoms):
        return "a query atom"
    if any(bond.HasQuery() for bond in bonds):
        return "a query bond"
    return None


def _as_drawn(block: str) -> str:
    """Return a SMILES that RDKit refuses as it refuses the block, or an empty text."""
    mol = Chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
    if mol is None:
        return Unwritten("RDKit cannot read the structure") if block.strip() else ""
    for bond in mol.GetBonds():
        if bond.GetBondType() == Chem.BondType.AROMATIC:
            for part in (bond, bond.GetBeginAtom(), bond.GetEndAtom()):
                part.SetIsAromatic(True)
    text = mol_to_smiles(mol)
    # A readable SMILES would be a different molecule from the drawing.
    if isinstance(text, Unwritten) or Chem.MolFromSmiles(text) is None:
        return text
    return Unwritten("RDKit cannot read the structure")
