"""`ZincFeaturizer`: the 28 atom and 3 bond labels of the ZINC benchmark."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule, require_several
from molsepnorm.molecules.featurize.registry import SIZES, Featurizer
from molsepnorm.molecules.featurize.smiles import (
    ISOTOPE_OR_MAP,
    canonical_mol,
    implicit_mol,
    one_token,
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
_UNMARKED = Chem.ChiralType.CHI_UNSPECIFIED
# Older RDKit releases choose the Kekulé structure by the order of the atoms.
_RANKED = "canonical" in (Chem.Kekulize.__doc__ or "")


class ZincFeaturizer(Featurizer):
    """ZINC's labels: one of 28 for an atom; single, double or triple for a bond.

    The label of an atom is determined by its token in the kekulised canonical SMILES, so hydrogens
    count only inside brackets: the carbon of `[C@H]` is 'C H1', that of a plain `C` is 'C', and
    pyrrole's `[nH]`, which becomes `N` by kekulisation, is 'N'.

    Atoms are in the order of the SMILES, or of its canonical form if it has isotopes or maps.

    The graphs equal those of PyTorch Geometric's ZINC, including Kekulé structures, except for the
    order of the atoms and for bond labels, which are 1, 2, 3 there and 0, 1, 2 here; see
    `molsepnorm.featurize.pyg.from_data`.

    >>> graph = ZincFeaturizer()("C[NH2+]Cc1cc[nH]c1")
    >>> [ATOM_LABELS[index] for index in graph.atom_features[:, 0]]
    ['C', 'N H2 +', 'C', 'C', 'C', 'C', 'N', 'C']
    >>> graph.bond_features[:, 0].tolist()
    [0, 0, 0, 0, 1, 1, 0, 0]
    """

    name = "zinc"
    atom_sizes, bond_sizes = SIZES["zinc"][:2]

    def __call__(self, smiles: str) -> MolGraph:
        graph = self.many([smiles])[0]
        if isinstance(graph, InvalidMolecule):
            raise graph
        return graph

    def many(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        require_several(smiles, "smiles")
        molecules: list[tuple[bytes, np.ndarray] | InvalidMolecule] = []
        with rdBase.BlockLogs():
            for text in smiles:
                try:
                    molecules.append(_labels_and_orders(text))
                except InvalidMolecule as error:
                    molecules.append(error)
        graphs = iter(_graphs([each for each in molecules if isinstance(each, tuple)]))
        return [next(graphs) if isinstance(each, tuple) else each for each in molecules]


def _labels_and_orders(smiles: str) -> tuple[bytes, np.ndarray]:
    """Return the labels of N atoms, and the bond orders of the Kekulé structure, uint8 [N, N].
    RDKit chooses it by canonical ranks, so it is the same for all SMILES of a molecule."""
    text = one_token(smiles)
    is_canonical = not _RANKED or ISOTOPE_OR_MAP.search(text)
    mol = canonical_mol(text) if is_canonical else implicit_mol(text)
    atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
    properties = (
        map(Chem.Atom.GetSymbol, atoms),
        map(Chem.Atom.GetFormalCharge, atoms),
        map(Chem.Atom.GetTotalNumHs, atoms),
        map(Chem.Atom.GetTotalValence, atoms),
        map(Chem.Atom.GetChiralTag, atoms) if "@" in text else repeat(_UNMARKED),
    )
    labels = bytes(map(_label, *properties))
    try:
        Chem.Kekulize(mol, clearAromaticFlags=True)
    except Chem.KekulizeException as error:
        raise InvalidMolecule(f"RDKit finds no Kekulé structure: {error}") from None
    if any(sign in text for sign in "$:<>"):  # other SMILES have no other bonds
        for bond in mol.GetBonds():
            if (kind := bond.GetBondType()) not in _BOND_TYPES:
                raise InvalidMolecule(
                    f"bond type '{kind.name.lower()}' is not among ZINC's (single, double, "
                    "triple); the 'ogb' features support every bond type"
                )
    return labels, Chem.GetAdjacencyMatrix(mol, True).astype(np.uint8)


@functools.cache
def _label(symbol: str, charge: int, hydrogens: int, valence: int, mark: Chem.ChiralType) -> int:
    label = symbol
    usual = Chem.GetPeriodicTable().GetDefaultValence(symbol)
    if hydrogens and (charge or valence != usual or mark != _UNMARKED):  # written in brackets
        label += f" H{hydrogens}"
    if charge:
        label += f" {charge:+}".removesuffix("1")
    if label not in _ATOM_INDEX:
        raise InvalidMolecule(
            f"atom '{label}' is not among ZINC's 28 atom labels; "
            "the 'ogb' features support every element"
        )
    return _ATOM_INDEX[label]


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
