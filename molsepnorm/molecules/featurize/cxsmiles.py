"""CXSMILES: a SMILES and, behind it, an extension in bars, as `C[C@H](O)F |&1:1|`."""

from __future__ import annotations

import re

from rdkit import Chem, rdBase

from molsepnorm.molecules.featurize.smiles import MAX_CHARACTERS, excess

__all__ = ["worked_in"]

_STEREO_GROUP = r"r|[ao&]\d*:\d+(?:,\d+)*"
_CERTAINTY = re.compile(rf"\|(?:(?:{_STEREO_GROUP})(?:,(?!\|)|(?=\|)))*\|")


def worked_in(smiles: str, extension: str) -> str:
    """The SMILES that says alone what both say together, as far as a SMILES can.

    Groups of stereocentres (`&1:`, `o1:`, `a:`, `r`) tell whether a sample is one enantiomer, a
    mixture or unknown; the molecule is the one drawn. For any other extension RDKit reads both:
    radicals, coordinate bonds and wedges become part of the SMILES; positions and labels vanish,
    and of a polymer the unit that is drawn is the molecule.
    What RDKit cannot read, or should not for its size, stays as it is, for a featuriser to refuse.

    >>> worked_in("C[C@H](O)F", "|&1:1|"), worked_in("N[Cu]", "|C:0.0|")
    ('C[C@H](O)F', '[NH3]->[Cu]')
    >>> worked_in("CCO", "|what|")
    'CCO |what|'
    """
    if _CERTAINTY.fullmatch(extension) or excess(smiles):
        return smiles
    if len(extension) > MAX_CHARACTERS:
        return f"{smiles} {extension}"
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(f"{smiles} {extension}")
        if mol is not None:
            return Chem.MolToSmiles(mol)
        return smiles if Chem.MolFromSmiles(smiles) is None else f"{smiles} {extension}"
