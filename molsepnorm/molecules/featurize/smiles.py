"""`Featurizer`, the base class, and how a SMILES becomes canonical before anything else."""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule, require_several
from molsepnorm.molecules.molecule import MolGraph

__all__ = [
    "CHUNK",
    "MAX_ATOMS",
    "MAX_CHARACTERS",
    "MAX_RINGS",
    "Featurizer",
    "Unwritten",
    "canonical_mol",
    "canonical_smiles",
    "excess",
    "oriented_mol",
]

MAX_ATOMS = 1000
"""Larger molecules are refused: RDKit writes SMILES recursively, and some thousands of atoms in a
row overflow the stack, which ends the process (seen from 4,000 atoms on a 1 MiB thread stack)."""

MAX_RINGS = 512
"""Texts with more ring closures are refused: RDKit's search for rings takes minutes, or ends the
process, where hundreds of atoms are joined to many others each. A fullerene of `MAX_ATOMS` has
501 rings."""

MAX_CHARACTERS = 40 * MAX_ATOMS
"""Longer texts are refused: RDKit takes time in proportion to the square of their length."""

CHUNK = 256
"""Molecules featurised together: enough for numpy, few enough for the cache."""

CANONICAL = "its canonical form "
_ISOTOPE_OR_MAP = re.compile(r"\[\d|:\d+\]")  # [13C] or [CH3:1]
_LOG_PREFIX = re.compile(r"^\[[\d:]+\] (?:SMILES Parse Error: )?")
_POSITION = re.compile(r"around position (\d+)")
_BRACKETED = re.compile(r"\[[^]]*]?")
_HYDROGEN = re.compile(r"\[\d*H[-+]?\d*(?::\d+)?]")
_ORGANIC = re.compile(r"Br|Cl|[BCNOPSFIbcnops*]")
_CLOSURE = re.compile(r"%\(\d*\)|%\d\d|\d")


_NEEDS_ALL = re.compile(r"[@/\\]|\[\d*H")  # a stereo mark, or a hydrogen that is an atom
_SANITIZE = (
    Chem.SanitizeFlags.SANITIZE_ALL ^ Chem.SanitizeFlags.SANITIZE_CLEANUPATROPISOMERS
    if hasattr(Chem.SanitizeFlags, "SANITIZE_CLEANUPATROPISOMERS")
    else Chem.SanitizeFlags.SANITIZE_ALL
)


class Featurizer(ABC):
    """Makes a `MolGraph` of a SMILES.

    All SMILES of one molecule give the same graph, but for the order of its atoms and bonds (and
    for some metal complexes, of which RDKit's own spelling is another molecule to it).

    A subclass sets the three attributes below and writes `__call__`, from `canonical_smiles`,
    `canonical_mol` or `oriented_mol`.
    """

    name: str
    """The name under which `molsepnorm.molecules.featurize.get` finds it."""

    atom_sizes: tuple[int, ...]
    """For each of the A atom features, how many values it can take."""

    bond_sizes: tuple[int, ...]
    """For each of the F bond features, how many values it can take."""

    @abstractmethod
    def __call__(self, smiles: str) -> MolGraph:
        """The graph of one molecule.

        Raises:
            InvalidMolecule: `canonical_smiles` refuses the text, or the features have no place for
                an atom or a bond; the message is the reason, on one line.
        """

    def many(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        """For each SMILES its graph, or why it has none; some hundreds at once are the fastest."""
        require_several(smiles, "smiles")
        return [self._or_error(self, text) for text in smiles]

    def stream(self, smiles: Iterable[str]) -> Iterator[MolGraph | InvalidMolecule]:
        """The same, one after the other, in memory that does not grow with their number."""
        require_several(smiles, "smiles")
        each = iter(smiles)
        chunks = iter(lambda: list(islice(each, CHUNK)), [])
        return chain.from_iterable(map(self.many, chunks))

    @staticmethod
    def _or_error(make: Callable[[str], MolGraph], smiles: str) -> MolGraph | InvalidMolecule:
        try:
            return make(smiles)
        except InvalidMolecule as error:
            return error


class Unwritten(str):
    """The blank cell of a structure that has no SMILES, which a featuriser refuses with `reason`.

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
    """RDKit's canonical isomeric SMILES, with isotopes and atom-map numbers cleared.

    Deuterium thereby becomes an ordinary implicit hydrogen. Salts and mixtures stay whole.
    Surrounding whitespace is ignored, but text after the SMILES (a name, a CXSMILES extension) is
    refused, not cut off: it may change what the molecule is, and a stray space in the middle of a
    SMILES would pass unnoticed.

    >>> canonical_smiles(" OC[13CH3] "), canonical_smiles("[2H]C"), canonical_smiles("[Na+].[Cl-]")
    ('CCO', 'C', '[Cl-].[Na+]')
    >>> canonical_smiles("C1CC")
    Traceback (most recent call last):
    ...
    molsepnorm.errors.InvalidMolecule: RDKit cannot read 'C1CC': unclosed ring

    Raises:
        InvalidMolecule: not a text (a blank cell of a table arrives as None or NaN); an empty
            text; whitespace, a non-ASCII character or SMARTS' `~` in it; RDKit cannot read it, with
            RDKit's reason; more than `MAX_ATOMS` atoms, or what `excess` finds.
    """
    text = _one_token(smiles)
    with rdBase.BlockLogs():
        mol = _read(text)
        cleared = bool(_ISOTOPE_OR_MAP.search(text))
        if cleared:
            for atom in mol.GetAtoms():
                atom.SetIsotope(0)
                atom.SetAtomMapNum(0)
        text = Chem.MolToSmiles(mol)
        # Reading once more drops the hydrogens just cleared, and the stereocentres that were none
        # but for the isotopes. It also settles the dative bonds that RDKit adds around a metal.
        if cleared or "->" in text or "<-" in text:
            text = Chem.MolToSmiles(_read(text, CANONICAL))
        return text


def canonical_mol(smiles: str) -> Chem.Mol:
    """The sanitised molecule, atoms and bonds in the order of its canonical SMILES.

    As that text is the same for all SMILES of one molecule, so are the atom order, the Kekulé
    structure and the chirality tags.

    >>> [atom.GetSymbol() for atom in canonical_mol("OCC").GetAtoms()]
    ['C', 'C', 'O']

    Raises:
        InvalidMolecule: as `canonical_smiles`; and, of a few impossible aromatic rings, RDKit
            writes a canonical form that it cannot read itself.
    """
    text = canonical_smiles(smiles)
    with rdBase.BlockLogs():
        return _read(text, CANONICAL)


def oriented_mol(smiles: str) -> Chem.Mol:
    """The sanitised molecule, its atoms in the order of the text where that order means nothing.

    Whether a tetrahedral centre is called clockwise depends on the order of its neighbours, so a
    SMILES that marks one is put into canonical form first. All else that RDKit derives of a
    sanitised molecule, Kekulé structures aside, is the same in any order, and is read in one go:
    a SMILES without stereo marks in two thirds of the time of `MolFromSmiles`, since stereo
    perception and the removal of explicit hydrogens have nothing to do.

    >>> [atom.GetSymbol() for atom in oriented_mol("OCC").GetAtoms()]
    ['O', 'C', 'C']
    >>> [atom.GetSymbol() for atom in oriented_mol("O[C@H](F)C").GetAtoms()]
    ['C', 'C', 'O', 'F']

    Raises:
        InvalidMolecule: as `canonical_mol`.
    """
    text = _one_token(smiles)
    if "@" in text:
        return canonical_mol(text)
    with rdBase.BlockLogs():
        if _NEEDS_ALL.search(text):
            mol = _read(text)
            marked = (
                atom.GetIsotope() or atom.GetAtomMapNum()
                for atom in mol.GetAtoms()
                if atom.GetAtomicNum() == 1
            )
            # such a hydrogen, kept for its mark alone, is to become implicit
            return canonical_mol(text) if any(marked) else mol
        mol = Chem.MolFromSmiles(text, sanitize=False)
        if mol is None or Chem.SanitizeMol(mol, sanitizeOps=_SANITIZE, catchErrors=True):
            return _read(text)  # which has the reason
        return _bounded(mol)


def excess(text: str) -> str | None:
    """Return why a SMILES is too large for RDKit, from the text alone; None if it is not.

    Hydrogens that are written as atoms do not count, since RDKit removes them.

    >>> excess("CCO"), excess("c" * 5000)
    (None, '5,000 atoms; at most 1,000 are supported')
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


def _one_token(smiles: object) -> str:
    """The SMILES without surrounding whitespace, or the reason why it cannot be one."""
    if not isinstance(smiles, str):
        raise InvalidMolecule(f"not a text value: {_short(smiles)}")
    text = smiles.strip()
    if not text:
        raise InvalidMolecule(smiles.reason if isinstance(smiles, Unwritten) else "empty SMILES")
    if reason := excess(text):
        raise InvalidMolecule(reason)
    if len(parts := text.split()) > 1:
        raise InvalidMolecule(
            f"whitespace inside {_short(text)}; if what follows it is a name, "
            f"give {_short(parts[0])} alone"
        )
    # RDKit would read 'CCé' as 'CC', and the any-bond '~' that closes a ring as a single bond.
    if not (text.isascii() and text.isprintable()) or "~" in text:
        odd = next(sign for sign in text if sign == "~" or not " " < sign < "\x7f")
        raise InvalidMolecule(f"{odd!a} in {_short(text)} is not a SMILES character")
    return text


def _read(text: str, form: str = "") -> Chem.Mol:
    mol = Chem.MolFromSmiles(text)
    if mol is None:
        raise unreadable(text, _reason(text), form)
    return _bounded(mol)


def _bounded(mol: Chem.Mol) -> Chem.Mol:
    if mol.GetNumAtoms() > MAX_ATOMS:
        raise InvalidMolecule(f"{mol.GetNumAtoms():,} atoms; at most {MAX_ATOMS:,} are supported")
    return mol


def unreadable(text: str, reason: str, form: str = "") -> InvalidMolecule:
    """The error for a SMILES, or `CANONICAL` form of one, that RDKit cannot read."""
    reason = textwrap.shorten(reason, 80, placeholder=" …")
    return InvalidMolecule(f"RDKit cannot read {form}{_short(text)}: {reason}")


def _reason(text: str) -> str:
    """Why RDKit cannot read this SMILES, from its log, without the time and the repetitions."""
    if not hasattr(rdBase, "CaptureErrorLog"):
        return "not a valid SMILES"  # older releases only print their reasons
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text)
    first = _LOG_PREFIX.sub("", log.messages).partition("\n")[0]
    first = first.partition(" while parsing: ")[0].partition(" for input: ")[0]
    position = _POSITION.search(log.messages)
    return f"{first} around character {position[1]}" if position else first


def _short(value: object) -> str:
    """The value as Python writes it, cut to the width of a table cell."""
    written = repr(value)
    return written if len(written) <= 60 else written[:59] + "…"
