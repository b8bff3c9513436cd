"""`ZincFeaturizer`: the 28 atom and 3 bond labels of the ZINC benchmark."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule, require_several
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.featurize.smiles import (
    CANONICAL,
    MAX_ATOMS,
    Featurizer,
    canonical_smiles,
    excess,
    unreadable,
)
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["ATOM_LABELS", "ZincFeaturizer"]

ATOM_LABELS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +"),
    *("N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -"),
    *("P +", "S H1 +", "C H1 -", "P H1 +"),
)
"""The 28 labels in ZINC's order: element, hydrogens in brackets, sign of the charge."""

_ATOM_INDEX = {label: index for index, label in enumerate(ATOM_LABELS)}
_BOND_TYPES = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
_ATOM_TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops*]")
_BRACKET = re.compile(
    r"\[(?P<element>[A-Za-z][a-z]?|\*|#\d+)(?:@@?(?:[A-Z]{2}\d+)?)?"
    r"(?P<hydrogens>H\d*)?(?P<charge>[+-]\d*)?\]"
)

# A text that tells its atoms' labels: no hydrogen atom, isotope, atom map, metal, radical or dative
# bond in it, and no phosphorus or iodine, of which RDKit rewrites some forms.
_PLAIN = re.compile(r"[][A-Za-z0-9@+\-=#()/\\.%]+")
_FIRM = re.compile(
    r"[CNOFScnos]|Cl|Br|\[nH]|\[[CNS]@@?]|\[C@@?H]|\[[CNOScnos](@@?)?(H[123]?)?[+-]]"
)
_MARKED = _ATOM_INDEX["C H1"]  # which is what `[C@H]` says only where it is a stereocentre
_FLAGS = Chem.SanitizeFlags
_SANITIZE = (
    _FLAGS.SANITIZE_PROPERTIES
    | _FLAGS.SANITIZE_SYMMRINGS
    | _FLAGS.SANITIZE_KEKULIZE
    | _FLAGS.SANITIZE_SETAROMATICITY
    | _FLAGS.SANITIZE_ADJUSTHS
)
# Where other elements than carbon are marked: RDKit takes some of those away by hybridisation.
_SANITIZE_MARKED = (
    _SANITIZE
    | _FLAGS.SANITIZE_SETCONJUGATION
    | _FLAGS.SANITIZE_SETHYBRIDIZATION
    | _FLAGS.SANITIZE_CLEANUPCHIRALITY
)
_UNSPECIFIED = Chem.ChiralType.CHI_UNSPECIFIED
# Older releases of RDKit choose a Kekulé structure by the order of the atoms.
_RANKED = "canonical" in (Chem.Kekulize.__doc__ or "")


class ZincFeaturizer(Featurizer):
    """ZINC's labels: one of 28 for an atom, single, double or triple for a bond.

    An atom's label is what its token in a kekulised SMILES says, so hydrogens count only where
    they stand in brackets: the carbon of `[C@H]` is 'C H1', that of a plain `C` is 'C', and
    pyrrole's `[nH]`, written `N` after kekulisation, is 'N'.

    The atoms come in the order of the text, or of its canonical form where the text has signs that
    are not taken as they stand.

    The graphs equal those of PyTorch Geometric's ZINC but for the order of the atoms, Kekulé
    structures included (checked on its 2,000 validation and test molecules), and for the bonds,
    which it numbers 1, 2, 3 and this 0, 1, 2; see `molsepnorm.molecules.featurize.pyg.from_data`.

    >>> graph = ZincFeaturizer()("C[NH2+]Cc1cc[nH]c1")
    >>> [ATOM_LABELS[index] for index in graph.atom_features[:, 0]]
    ['C', 'N H2 +', 'C', 'C', 'C', 'C', 'N', 'C']
    >>> graph.bond_features[:, 0].tolist()
    [0, 0, 0, 0, 1, 1, 0, 0]
    >>> ZincFeaturizer()("C[Si](C)(C)C")
    Traceback (most recent call last):
    ...
    molsepnorm.errors.InvalidMolecule: atom 'Si' is not among ZINC's 28 atom labels; ...
    """

    name = "zinc"
    atom_sizes, bond_sizes = SIZES["zinc"]

    def __call__(self, smiles: str) -> MolGraph:
        """The graph of one molecule.

        Raises:
            InvalidMolecule: the SMILES cannot be read, an atom has none of the 28 labels, or a
                bond is neither single, double nor triple once kekulised.
        """
        labels = _firm_labels(smiles)
        with rdBase.BlockLogs():
            orders = None if labels is None else _bond_orders(smiles, labels)
        if labels is None or orders is None:
            return _by_canonical_form(smiles)
        return _graph(labels, orders)

    def many(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        """For each SMILES its graph, or why it has none; some hundreds at once are the fastest."""
        require_several(smiles, "smiles")
        labels = [_firm_labels(text) for text in smiles]
        with rdBase.BlockLogs():
            orders = [
                None if known is None else _bond_orders(text, known)
                for text, known in zip(smiles, labels, strict=True)
            ]
        pairs = zip(labels, orders, strict=True)
        graphs = iter(_graphs([(a, b) for a, b in pairs if a is not None and b is not None]))
        return [
            next(graphs) if matrix is not None else self._or_error(_by_canonical_form, text)
            for text, matrix in zip(smiles, orders, strict=True)
        ]


def _by_canonical_form(smiles: str) -> MolGraph:
    """The graph, whatever was written, or the reason why there is none; slower."""
    text = canonical_smiles(smiles)
    labels = bytes(map(_atom_index, _ATOM_TOKEN.findall(text)))
    # RDKit wrote the text, so reading it back needs no second sanitisation; the atoms come in the
    # order of their tokens.
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(text, sanitize=False)
        Chem.FastFindRings(mol)
        try:
            Chem.Kekulize(mol, clearAromaticFlags=True)
        except Chem.KekulizeException as error:
            raise unreadable(text, str(error), CANONICAL) from None
    for bond in mol.GetBonds():
        if (kind := bond.GetBondType()) not in _BOND_TYPES:
            raise InvalidMolecule(
                f"bond type '{kind.name.lower()}' is not among ZINC's (single, double, triple); "
                "the 'ogb' features know every bond type"
            )
    return _graph(labels, Chem.GetAdjacencyMatrix(mol, True).astype(np.uint8))


def _firm_labels(text: str) -> bytes | None:
    """The labels of the atoms in the order of the text, where the text alone tells them."""
    if not (_RANKED and isinstance(text, str) and _PLAIN.fullmatch(text)) or excess(text):
        return None
    try:
        labels = bytes(map(_FIRM_LABELS.__getitem__, _ATOM_TOKEN.findall(text)))
    except (KeyError, InvalidMolecule):
        return None
    return labels if len(labels) <= MAX_ATOMS else None


def _bond_orders(text: str, labels: bytes) -> np.ndarray | None:
    """uint8 [N, N], kekulised, atoms in the order of the text; None where RDKit refuses the text,
    or a `[C@H]` is no stereocentre.

    RDKit chooses among Kekulé structures by canonical ranks, that is alike for all spellings. So
    the canonical SMILES need not be written: `labels` has what it would say.
    """
    mol = Chem.MolFromSmiles(text, sanitize=False)
    marked = _MARKED in labels
    others = text.count("@") - text.count("@@") > text.count("C@")
    steps = _SANITIZE_MARKED if marked and others else _SANITIZE
    if mol is None or Chem.SanitizeMol(mol, steps, True):
        return None
    if marked:
        Chem.AssignStereochemistry(mol, True)
        place = labels.find(_MARKED)
        while place >= 0:
            if mol.GetAtomWithIdx(place).GetChiralTag() == _UNSPECIFIED:
                return None
            place = labels.find(_MARKED, place + 1)
    try:
        Chem.Kekulize(mol, True)
    except Chem.KekulizeException:
        return None
    return Chem.GetAdjacencyMatrix(mol, True).astype(np.uint8)


def _graph(labels: bytes, orders: np.ndarray) -> MolGraph:
    atom, other = np.nonzero(np.triu(orders))
    return MolGraph(
        np.frombuffer(labels, dtype=np.uint8)[:, None],
        np.stack([atom, other], axis=1).astype(np.int32),
        orders[atom, other][:, None] - np.uint8(1),
    )


def _graphs(read: list[tuple[bytes, np.ndarray]]) -> list[MolGraph]:
    """As `_graph`, all molecules at once."""
    if not read:
        return []
    sizes = np.array([len(labels) for labels, _ in read])
    orders = np.concatenate([matrix.ravel() for _, matrix in read])
    entries = np.flatnonzero(orders.astype(bool))  # several times as fast as of integers
    ends = np.cumsum(sizes**2)
    entry_counts = np.diff(np.searchsorted(entries, ends), prepend=0)
    atom, other = np.divmod(
        entries - np.repeat(ends - sizes**2, entry_counts), np.repeat(sizes, entry_counts)
    )
    once = atom < other
    return MolGraph.many(
        sizes,
        np.frombuffer(b"".join([labels for labels, _ in read]), dtype=np.uint8)[:, None],
        entry_counts // 2,
        np.stack([atom[once], other[once]], axis=1).astype(np.int32),
        orders[entries[once]][:, None] - np.uint8(1),
    )


@functools.cache
def _atom_index(token: str) -> int:
    """The label's index for one atom of a canonical SMILES, such as `C`, `n` or `[C@@H]`."""
    label = token.capitalize()
    if bracket := _BRACKET.fullmatch(token):
        label = bracket["element"].capitalize()
        charge = bracket["charge"]
        hydrogens = bracket["hydrogens"]
        plain_when_kekulised = bracket["element"].islower() and not charge  # [nH] becomes N
        if hydrogens and not plain_when_kekulised:
            label += f" H{hydrogens[1:] or 1}"
        if charge:
            label += f" {charge}"
    if label not in _ATOM_INDEX:
        raise InvalidMolecule(
            f"atom '{label}' is not among ZINC's 28 atom labels; "
            "the 'ogb' features know every element"
        )
    return _ATOM_INDEX[label]


class _FirmLabels(dict[str, int]):
    """Token -> label, for tokens that stand so in the canonical SMILES, too, or mean the same."""

    def __missing__(self, token: str) -> int:
        if not _FIRM.fullmatch(token):
            raise KeyError(token)
        self[token] = _atom_index(token)
        return self[token]


_FIRM_LABELS = _FirmLabels()
