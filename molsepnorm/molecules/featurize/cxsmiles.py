"""CXSMILES: a SMILES followed by an extension between bars, such as `C[C@H](O)F |&1:1|`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule, warn_of_data
from molsepnorm.molecules.featurize.smiles import MAX_CHARACTERS, excess

EXTENSION = re.compile(r"(\S+)[ \t]+(\|[^|]*\|)")
"""A SMILES, and its extension after blanks."""

_INDICES = r"\d{1,9}(?:[.,]\d{1,9})*"
_ENHANCED = "enhanced stereochemistry"
_AXES = "axial chirality"
_WEDGES = "wedges"
_COORDINATES = "coordinates"
_APPLIED = "applied"
_PARTS = {
    _ENHANCED: rf"r|[ao&]\d*:{_INDICES}",
    _COORDINATES: r"\([-+\d.,;eE ]*\)",
    "atom labels": r"\$(?!_AV:)[^$]*\$",
    "atom values": r"\$_AV:[^$]*\$|atomProp(?::[^:,]*)+|SgD:[\d,]*(?::[^:,]*)*",
    "fragment groups": rf"f:{_INDICES}",
    "lone pairs": r"lp:\d+:\d+(?:,\d+:\d+)*",
    _WEDGES: rf"w[UD]:{_INDICES}",
    # RDKit works these into the SMILES: radicals, coordinate bonds, wavy bonds, cis and trans
    _APPLIED: rf"\^[1-7]:{_INDICES}|(?:C|w|ctu|c|t):{_INDICES}",
}
_PART = re.compile(
    "(?:" + "|".join(f"({pattern})" for pattern in _PARTS.values()) + r")(?:,(?!$)|$)"
)
_REFUSED = {
    **dict.fromkeys(("Sg", "SgH"), "a polymer or another bracketed group"),
    **dict.fromkeys(("RG", "LOG", "LO"), "an R group"),
    **dict.fromkeys(("rb", "s", "u"), "a query"),
    "m": "variable attachment",
    "LN": "a link node",
    "H": "a hydrogen bond",
}
_VARIABLE_ATOM = re.compile(r"_?R\d*|_.*|.*_[ep]")  # R1, _R1, _AP1, star_e, QH_p


def losses(smiles: str, extension: str) -> list[str]:
    """Return the kinds of information in an extension that SMILES cannot express and a model
    ignores. RDKit reads wedges only with coordinates, and SMILES have no axial chirality.

    >>> losses("CC", "|&1:1,r|"), losses("CC", "|(0,0,;1,0,),$a;b$|"), losses("N[Cu]", "|C:0.0|")
    (['enhanced stereochemistry'], ['coordinates', 'atom labels'], [])
    >>> losses("CC(O)F", "|wU:1.0|")
    ['wedges without coordinates']

    Raises:
        InvalidMolecule: the extension is unknown, or changes the molecule in a way that no SMILES
            can express: a polymer, an R group, variable attachment, a link node, a query.
    """
    kinds = [kind for kind in _parts(extension) if kind != _APPLIED]
    if _WEDGES not in kinds:
        return kinds
    if _COORDINATES not in kinds:
        return [kind if kind != _WEDGES else "wedges without coordinates" for kind in kinds]
    with rdBase.BlockLogs():
        mol = None if excess(smiles) else Chem.MolFromSmiles(f"{smiles} {extension}")
    axes = [_AXES] if mol is not None and has_axes(mol) else []
    return axes + [kind for kind in kinds if kind not in (_WEDGES, _COORDINATES)]


def has_axes(mol: Chem.Mol) -> bool:
    return any(bond.GetStereo().name.startswith("STEREOATROP") for bond in mol.GetBonds())


def announce_losses(smiles: Iterable[str], source: object, said: set[str]) -> None:
    """Warn once about each kind of `losses` of the SMILES in a file, and add it to `said`."""
    for text in smiles:
        if "|" in text and (extended := EXTENSION.fullmatch(text.strip())):
            try:
                new = [kind for kind in losses(*extended.groups()) if kind not in said]
            except InvalidMolecule:
                continue  # a featuriser refuses the row
            for kind in new:
                said.add(kind)
                warn_of_data(
                    f"{source}: the {kind} of CXSMILES, such as {_short(extended[2])}, "
                    f"{'is' if kind in (_ENHANCED, _AXES) else 'are'} not read by the model"
                )


def worked_in(smiles: str, extension: str) -> str:
    """Return one SMILES for a SMILES and its extension.

    Radicals, coordinate bonds, cis or trans bonds, and wedges with coordinates become part of the
    SMILES, as RDKit reads them. The rest is ignored, see `losses`. A SMILES that is too large or
    that RDKit cannot read is returned unchanged, so that a featuriser refuses it.

    >>> worked_in("C[C@H](O)F", "|&1:1|"), worked_in("N[Cu]", "|C:0.0|")
    ('C[C@H](O)F', '[NH3]->[Cu]')

    Raises:
        InvalidMolecule: as `losses`, or RDKit cannot read the extension.
    """
    parts = _parts(extension)
    applied = parts.get(_APPLIED, []) + parts.get(_WEDGES, [])
    if not applied or excess(smiles):
        return smiles
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(f"{smiles} {extension}")
        if mol is None and Chem.MolFromSmiles(smiles) is None:
            return smiles
        # RDKit ignores atoms and bonds that do not exist; hydrogens count as they are written
        original = Chem.MolFromSmiles(smiles, sanitize=False)
        sizes = original.GetNumAtoms(), original.GetNumBonds()
        if mol is not None and all(_exist(part, *sizes) for part in applied):
            return Chem.MolToSmiles(mol)
    raise InvalidMolecule(f"RDKit cannot read the CXSMILES extension {_short(extension)}")


def _exist(part: str, num_atoms: int, num_bonds: int) -> bool:
    """Return whether a molecule has all atoms and bonds of a part such as `C:0.1,2.3`."""
    kind, _, entries = part.partition(":")  # each entry: a bond; or an atom, and perhaps a bond
    limits = [num_bonds] if kind in ("c", "t", "ctu") else [num_atoms, num_bonds]
    return all(
        int(index) < limit
        for entry in entries.split(",")
        for index, limit in zip(entry.split("."), limits, strict=False)
    )


def _parts(extension: str) -> dict[str, list[str]]:
    if len(extension) > MAX_CHARACTERS:
        raise InvalidMolecule(
            f"a CXSMILES extension of {len(extension):,} characters; at most {MAX_CHARACTERS:,} "
            "are supported"
        )
    names = list(_PARTS)
    inner = extension[1:-1]
    parts: dict[str, list[str]] = {}
    position = 0
    while position < len(inner):
        part = _PART.match(inner, position)
        if part is None:
            raise _refusal(extension, _REFUSED.get(re.split(r"[:,]", inner[position:])[0]))
        assert part.lastindex is not None
        kind, text = names[part.lastindex - 1], part[part.lastindex]
        if kind == "atom labels":
            labels = text.strip("$").split(";")
            if any(_VARIABLE_ATOM.fullmatch(label.strip()) for label in labels):
                raise _refusal(extension, "an R group, an attachment point or a query atom")
        parts.setdefault(kind, []).append(text)
        position = part.end()
    return parts


def _refusal(extension: str, what: str | None) -> InvalidMolecule:
    if what is None:
        return InvalidMolecule(f"unknown CXSMILES extension {_short(extension)}")
    return InvalidMolecule(
        f"the CXSMILES extension {_short(extension)} describes {what}, which a model cannot read"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
