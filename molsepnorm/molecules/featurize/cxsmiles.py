"""CXSMILES: a SMILES followed by an extension between bars, such as `C[C@H](O)F |&1:1|`."""

from __future__ import annotations

import re

from rdkit import Chem, rdBase

from molsepnorm.molecules.featurize.smiles import MAX_CHARACTERS, excess

__all__ = ["worked_in"]

_STEREO_GROUP = r"r|[ao&]\d*:\d+(?:,\d+)*"
_CERTAINTY = re.compile(rf"\|(?:(?:{_STEREO_GROUP})(?:,(?!\|)|(?=\|)))*\|")


def worked_in(smiles: str, extension: str) -> str:
    """Return one SMILES that represents a SMILES and its extension, as far as SMILES can.

    Groups of stereocentres (`&1:`, `o1:`, `a:`, `r`) describe the sample (one enantiomer, a
    mixture or unknown) and are ignored. RDKit reads other extensions: radicals, coordinate bonds
    and wedges become part of the SMILES, positions and labels are dropped, and a polymer becomes
    its repeat unit. A text that is too large or that RDKit cannot read is returned unchanged, so
    that a featuriser refuses it.

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
