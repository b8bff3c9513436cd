"""Read SMILES with RDKit: canonical forms, size limits and the reasons for refusals."""

from __future__ import annotations

import functools
import re
import textwrap
from typing import Any

from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule

MAX_ATOMS = 1000
"""RDKit writes SMILES recursively. A chain of thousands of atoms overflows the stack, which kills
the process (seen with 4,000 atoms on a 1 MiB thread stack)."""

MAX_RINGS = 512
"""RDKit's search for rings takes minutes, or kills the process, if hundreds of atoms have many
neighbours each. A fullerene of `MAX_ATOMS` has 501 ring closures."""

MAX_CHARACTERS = 40 * MAX_ATOMS
"""RDKit's time grows with the square of the length of a SMILES."""

RECENT = 256
"""Number of molecules that `oriented_mol` keeps."""

ISOTOPE_OR_MAP = re.compile(r"\[\d|:\d+\]")  # [13C] or [CH3:1]
_LOG_PREFIX = re.compile(r"^\[[\d:]+\] (?:SMILES Parse Error: )?")
_INCHI_KEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
_POSITION = re.compile(r"around position (\d+)")
_BRACKETED = re.compile(r"\[[^]]*]?")
_HYDROGEN = re.compile(r"\[\d*H[-+]?\d*(?::\d+)?]")
_ORGANIC = re.compile(r"Br|Cl|[BCNOPSFIbcnops*]")
_CLOSURE = re.compile(r"%\(\d*\)|%\d\d|\d")
_NEEDS_ALL = re.compile(r"[@/\\]|\[H")  # a stereo mark, or a hydrogen atom
_ATOMIC_NUMBER = re.compile(r"\[\d*#")  # [#6] of SMARTS, which RDKit reads as a bare carbon atom
_ATROPISOMERS = Chem.SanitizeFlags.names.get("SANITIZE_CLEANUPATROPISOMERS", 0)
_SANITIZE = Chem.SanitizeFlags.SANITIZE_ALL ^ _ATROPISOMERS


class Unwritten(str):
    """An empty SMILES of a structure that has none; featurisers refuse it with `reason`.

    >>> canonical_smiles(Unwritten("5,000 atoms"))
    Traceback (most recent call last):
    molsepnorm.errors.InvalidMolecule: 5,000 atoms
    """

    reason: str

    def __new__(cls, reason: str) -> Unwritten:
        blank = super().__new__(cls, "")
        blank.reason = reason
        return blank


def canonical_smiles(smiles: str) -> str:
    """Return RDKit's canonical isomeric SMILES, without isotopes and atom-map numbers.

    Deuterium and explicit hydrogens become implicit. A double bond whose geometry depends on one,
    as in `[H]/N=C/C`, loses this geometry. A CXSMILES extension is worked in, see
    `cxsmiles.worked_in`. Other text after the SMILES, such as a name, is refused, since a space in
    the middle of a SMILES would go unnoticed.

    >>> canonical_smiles(" OC[13CH3] "), canonical_smiles("[2H]C"), canonical_smiles("[Na+].[Cl-]")
    ('CCO', 'C', '[Cl-].[Na+]')
    >>> canonical_smiles("C1CC")
    Traceback (most recent call last):
    ...
    molsepnorm.errors.InvalidMolecule: RDKit cannot read 'C1CC': unclosed ring

    Raises:
        InvalidMolecule: `smiles` is not a string (an empty cell of a table is None or NaN), is
            empty, contains whitespace, a non-ASCII character or the `~` or `[#6]` of SMARTS, is
            too large (see `excess`), has an extension that no SMILES can express, or RDKit cannot
            read it, for the reason in the message.
    """
    text = one_token(smiles)
    with rdBase.BlockLogs():
        mol = _read_implicit(text)
        cleared = bool(ISOTOPE_OR_MAP.search(text))
        if cleared:
            for atom in mol.GetAtoms():
                atom.SetIsotope(0)
                atom.SetAtomMapNum(0)
        text = Chem.MolToSmiles(mol)
        # Reading it again removes cleared hydrogens and stereocentres that existed only by isotope,
        # and fixes the dative bonds that RDKit adds around a metal.
        if cleared or "->" in text or "<-" in text:
            text = Chem.MolToSmiles(_read_implicit(text, "its canonical form "))
        return text


def read_smiles(smiles: str) -> Chem.Mol:
    """Return the sanitised molecule as it is written, with isotopes and atom-map numbers."""
    with rdBase.BlockLogs():
        return _read(one_token(smiles))


def canonical_mol(smiles: str) -> Chem.Mol:
    """Return the sanitised molecule with atoms and bonds in the order of its canonical SMILES, so
    that Kekulé structure and chirality tags are the same for all SMILES of a molecule.

    Raises:
        InvalidMolecule: as `canonical_smiles`. RDKit also cannot read its own canonical form of
            a few impossible aromatic rings.
    """
    text = canonical_smiles(smiles)
    with rdBase.BlockLogs():
        return _read(text, "its canonical form ")


def oriented_mol(smiles: str) -> Chem.Mol:
    """Return the sanitised molecule without isotopes, with atoms in the order of the text, or of
    its canonical form if it has isotopes or marks of tetrahedral centres.

    Chirality tags depend on the order of the atoms; everything else that RDKit derives, except
    Kekulé structures, does not. The last `RECENT` molecules are kept, since a model may read the
    features, the fingerprint and the descriptors of a molecule. The result must not be changed.

    >>> [atom.GetSymbol() for atom in oriented_mol("OCC").GetAtoms()]
    ['O', 'C', 'C']
    >>> [atom.GetSymbol() for atom in oriented_mol("O[C@H](F)C").GetAtoms()]
    ['C', 'C', 'O', 'F']

    Raises:
        InvalidMolecule: as `canonical_mol`.
    """
    return _oriented(one_token(smiles))


@functools.lru_cache(maxsize=RECENT)
def _oriented(text: str) -> Chem.Mol:
    # The canonical form has no isotopes and no maps. RDKit keeps mapped hydrogens as atoms, and
    # counts stereocentres and stereo bonds between equal groups with different maps.
    if "@" in text or ISOTOPE_OR_MAP.search(text):
        return canonical_mol(text)
    return implicit_mol(text)


def implicit_mol(text: str) -> Chem.Mol:
    """Return the sanitised molecule with implicit hydrogens, and atoms in the order of the text.

    Without stereo marks, stereo perception and the removal of explicit hydrogens are skipped.
    """
    with rdBase.BlockLogs():
        if _NEEDS_ALL.search(text):
            return _read_implicit(text)
        mol = Chem.MolFromSmiles(text, sanitize=False)
        if mol is None or Chem.SanitizeMol(mol, sanitizeOps=_SANITIZE, catchErrors=True):
            return _read(text)  # raises the error with RDKit's reason
        return _checked_size(mol)


def implicit_hydrogens(mol: Chem.Mol) -> Chem.Mol:
    """Return the molecule with implicit hydrogens, also where RDKit keeps one as an atom because it
    marks the geometry of a double bond.

    >>> Chem.MolToSmiles(implicit_hydrogens(Chem.MolFromSmiles("[H]/N=C(/C)N")))
    'CC(=N)N'
    """
    parameters: Any = Chem.RemoveHsParameters()
    parameters.removeDefiningBondStereo = True
    mol = Chem.RemoveHs(mol, parameters)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def excess(text: str) -> str | None:
    """Return the reason if the text of a SMILES shows that it is too large for RDKit, or None.

    Explicit hydrogens, which RDKit removes, do not count as atoms.
    """
    if len(text) <= MAX_ATOMS:
        return None
    if len(text) > MAX_CHARACTERS:
        return f"{len(text):,} characters; at most {MAX_CHARACTERS:,} are supported"
    bracketed = _BRACKETED.findall(text)
    rest = _BRACKETED.sub(" ", text)
    hydrogens = sum(_HYDROGEN.fullmatch(atom) is not None for atom in bracketed)
    atoms = len(bracketed) - hydrogens + len(_ORGANIC.findall(rest))
    rings = len(_CLOSURE.findall(rest)) // 2
    for number, limit, name in (
        (atoms, MAX_ATOMS, "atoms"),
        (rings, MAX_RINGS, "ring closures"),
        (hydrogens, 3 * MAX_ATOMS, "hydrogens written as atoms"),
    ):
        if number > limit:
            return f"{number:,} {name}; at most {limit:,} are supported"
    return None


def one_token(smiles: object) -> str:
    """Return the SMILES without surrounding whitespace and with its CXSMILES extension worked in;
    check its characters and size."""
    if not isinstance(smiles, str):
        raise InvalidMolecule(f"not a text value: {_short(smiles)}")
    text = smiles.strip()
    if not text:
        raise InvalidMolecule(smiles.reason if isinstance(smiles, Unwritten) else "empty SMILES")
    if text[-1] == "|":
        from molsepnorm.molecules.featurize.cxsmiles import EXTENSION, worked_in

        if extended := EXTENSION.fullmatch(text):
            text = worked_in(*extended.groups())
    if reason := excess(text):
        raise InvalidMolecule(reason)
    if " + " in text:
        raise InvalidMolecule(f"{_short(text)} is a mixture, which needs a further molecule")
    if len(parts := text.split()) > 1:
        raise InvalidMolecule(
            f"whitespace inside {_short(text)}; if what follows it is a name, "
            f"give {_short(parts[0])} alone"
        )
    # RDKit would read 'CCé' as 'CC', and the any-bond '~' that closes a ring as a single bond.
    if not (text.isascii() and text.isprintable()) or "~" in text:
        odd = next(sign for sign in text if sign == "~" or not " " < sign < "\x7f")
        raise InvalidMolecule(f"{odd!a} in {_short(text)} is not a SMILES character")
    if _ATOMIC_NUMBER.search(text):
        raise InvalidMolecule(
            f"{_short(text)} is a SMARTS pattern: an atom of a SMILES has a symbol, such as [CH3], "
            "not a number"
        )
    return text


def _read(text: str, form: str = "") -> Chem.Mol:
    mol = Chem.MolFromSmiles(text)
    if mol is None:
        reason = textwrap.shorten(_reason(text), 80, placeholder=" …")
        raise InvalidMolecule(f"RDKit cannot read {form}{_short(text)}: {reason}")
    return _checked_size(mol)


def _read_implicit(text: str, form: str = "") -> Chem.Mol:
    mol = _read(text, form)
    # Without marks of double bonds, RDKit has removed these hydrogens already.
    marked = "/" in text or "\\" in text
    kept = marked and any(atom.GetAtomicNum() == 1 for atom in mol.GetAtoms())
    return implicit_hydrogens(mol) if kept else mol


def _checked_size(mol: Chem.Mol) -> Chem.Mol:
    if mol.GetNumAtoms() > MAX_ATOMS:
        raise InvalidMolecule(f"{mol.GetNumAtoms():,} atoms; at most {MAX_ATOMS:,} are supported")
    return mol


def _reason(text: str) -> str:
    if text.startswith("InChI="):
        return "it is an InChI; convert it to SMILES first"
    if _INCHI_KEY.fullmatch(text):
        return "it is an InChIKey, which holds no structure; give a SMILES"
    if text.replace("->", "").count(">") == 2:
        return "it is a reaction; give a single molecule"
    if not hasattr(rdBase, "CaptureErrorLog"):
        return "not a valid SMILES"  # older releases only print the reason
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text)
    first = _LOG_PREFIX.sub("", log.messages).partition("\n")[0]
    first = first.partition(" while parsing: ")[0].partition(" for input: ")[0]
    position = _POSITION.search(log.messages)
    return f"{first} around character {position[1]}" if position else first


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:58]}…{written[-1]}"
