"""`ZincFeaturizer`: the 28 atom and 3 bond labels of the ZINC benchmark."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule, require_several
from molsepnorm.molecules.featurize.registry import SIZES, Featurizer
from molsepnorm.molecules.featurize.smiles import (
    CANONICAL,
    MAX_ATOMS,
    canonical_smiles,
    excess,
    unreadable,
)
from molsepnorm.molecules.molecule import MolGraph

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

# SMILES whose text determines the labels: without hydrogen atoms, isotopes, atom maps, metals,
# radicals, dative bonds, phosphorus and iodine. (RDKit rewrites some forms of the last two.)
_PLAIN = re.compile(r"[][A-Za-z0-9@+\-=#()/\\.%]+")
_FIRM = re.compile(
    r"[CNOFScnos]|Cl|Br|\[nH]|\[[CNS]@@?]|\[C@@?H]|\[[CNOScnos](@@?)?(H[123]?)?[+-]]"
)
_MARKED = _ATOM_INDEX["C H1"]  # the label of `[C@H]`, if it is a stereocentre
_FLAGS = Chem.SanitizeFlags
_SANITIZE = (
    _FLAGS.SANITIZE_PROPERTIES
    | _FLAGS.SANITIZE_SYMMRINGS
    | _FLAGS.SANITIZE_KEKULIZE
    | _FLAGS.SANITIZE_SETAROMATICITY
    | _FLAGS.SANITIZE_ADJUSTHS
)
# RDKit removes some marks on elements other than carbon, depending on hybridisation.
_SANITIZE_MARKED = (
    _SANITIZE
    | _FLAGS.SANITIZE_SETCONJUGATION
    | _FLAGS.SANITIZE_SETHYBRIDIZATION
    | _FLAGS.SANITIZE_CLEANUPCHIRALITY
)
_UNSPECIFIED = Chem.ChiralType.CHI_UNSPECIFIED
# Older RDKit releases choose the Kekulé structure by the order of the atoms.
_RANKED = "canonical" in (Chem.Kekulize.__doc__ or "")


class ZincFeaturizer(Featurizer):
    """ZINC's labels: one of 28 for an atom; single, double or triple for a bond.

    The label of an atom is determined by its token in the kekulised SMILES, so hydrogens count
    only inside brackets: the carbon of `[C@H]` is 'C H1', that of a plain `C` is 'C', and pyrrole's
    `[nH]`, which becomes `N` by kekulisation, is 'N'.

    Atoms are in the order of the SMILES if its text determines the labels, otherwise in the order
    of its canonical form.

    The graphs equal those of PyTorch Geometric's ZINC, including Kekulé structures, except for the
    order of the atoms (checked on its 2,000 validation and test molecules) and for bond labels,
    which are 1, 2, 3 there and 0, 1, 2 here; see `molsepnorm.featurize.pyg.from_data`.

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
    atom_sizes, bond_sizes = SIZES["zinc"][:2]

    def __call__(self, smiles: str) -> MolGraph:
        """Return the graph of one molecule.

        Raises:
            InvalidMolecule: the SMILES cannot be read, an atom has none of the 28 labels, or a
                bond is neither single, double nor triple after kekulisation.
        """
        graph = self.many([smiles])[0]
        if isinstance(graph, InvalidMolecule):
            raise graph
        return graph

    def many(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        """Return a graph or an error for each SMILES."""
        require_several(smiles, "smiles")
        labels = list(map(_firm_labels, smiles))
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
    """Return the graph of any SMILES, more slowly."""
    text = canonical_smiles(smiles)
    labels = bytes(map(_atom_index, _ATOM_TOKEN.findall(text)))
    # RDKit wrote the text, so it needs no second sanitisation. Atoms are in the order of tokens.
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
                "the 'ogb' features support every bond type"
            )
    return _graphs([(labels, Chem.GetAdjacencyMatrix(mol, True).astype(np.uint8))])[0]


def _firm_labels(text: str) -> bytes | None:
    """Return the atoms' labels in order, or None if the text does not determine them."""
    if not (_RANKED and isinstance(text, str) and _PLAIN.fullmatch(text)) or excess(text):
        return None
    try:
        labels = bytes(map(_firm_index, _ATOM_TOKEN.findall(text)))
    except InvalidMolecule:
        return None
    return labels if len(labels) <= MAX_ATOMS else None


def _bond_orders(text: str, labels: bytes) -> np.ndarray | None:
    """Return the kekulised bond orders, uint8 [N, N], with atoms in the order of the text.

    None if RDKit refuses the text, or if a `[C@H]` is not a stereocentre. RDKit chooses the Kekulé
    structure by canonical ranks, so it is the same for all SMILES of a molecule.
    """
    mol = Chem.MolFromSmiles(text, sanitize=False)
    marked = _MARKED in labels
    others = text.count("@") - text.count("@@") > text.count("C@")
    steps = _SANITIZE_MARKED if marked and others else _SANITIZE
    if mol is None or Chem.SanitizeMol(mol, steps, True):
        return None
    if marked:
        Chem.AssignStereochemistry(mol, True)
        for atom, label in enumerate(labels):
            if label == _MARKED and mol.GetAtomWithIdx(atom).GetChiralTag() == _UNSPECIFIED:
                return None
    try:
        Chem.Kekulize(mol, True)
    except Chem.KekulizeException:
        return None
    return Chem.GetAdjacencyMatrix(mol, True).astype(np.uint8)


def _graphs(molecules: list[tuple[bytes, np.ndarray]]) -> list[MolGraph]:
    if not molecules:
        return []
    sizes = np.array([len(labels) for labels, _ in molecules])
    flat = np.concatenate([orders.ravel() for _, orders in molecules])
    entries = np.flatnonzero(flat.astype(bool))  # several times faster than on integers
    ends = np.cumsum(sizes**2)
    molecule = np.searchsorted(ends, entries, side="right")
    atom, other = np.divmod(entries - (ends - sizes**2)[molecule], sizes[molecule])
    once = atom < other
    bonds = np.stack([atom[once], other[once]], axis=1).astype(np.int32)
    kinds = flat[entries[once]][:, None] - np.uint8(1)
    bond_ends = np.cumsum(np.bincount(molecule[once], minlength=len(sizes))).tolist()
    return [
        MolGraph(np.frombuffer(labels, dtype=np.uint8)[:, None], bonds[start:end], kinds[start:end])
        for (labels, _), start, end in zip(molecules, [0, *bond_ends], bond_ends, strict=False)
    ]


@functools.cache
def _atom_index(token: str) -> int:
    """Return the label of an atom's token, such as `C`, `n` or `[C@@H]`."""
    label = token.capitalize()
    if bracket := _BRACKET.fullmatch(token):
        label = bracket["element"].capitalize()
        charge, hydrogens = bracket["charge"], bracket["hydrogens"]
        plain_when_kekulised = bracket["element"].islower() and not charge  # [nH] becomes N
        if hydrogens and not plain_when_kekulised:
            label += f" H{hydrogens[1:] or 1}"
        if charge:
            label += f" {charge}"
    if label not in _ATOM_INDEX:
        raise InvalidMolecule(
            f"atom '{label}' is not among ZINC's 28 atom labels; "
            "the 'ogb' features support every element"
        )
    return _ATOM_INDEX[label]


@functools.cache
def _firm_index(token: str) -> int:
    """Return the label of a token that is the same in the canonical SMILES."""
    if not _FIRM.fullmatch(token):
        raise InvalidMolecule(token)
    return _atom_index(token)
