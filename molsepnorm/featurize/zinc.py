"""`ZincFeaturizer`: the 28 atom and 3 bond labels of the ZINC benchmark."""

from __future__ import annotations

import functools
import re

import numpy as np
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule
from molsepnorm.featurize import SIZES
from molsepnorm.featurize.smiles import CANONICAL, Featurizer, canonical_smiles, unreadable
from molsepnorm.molecule import MolGraph

__all__ = ["ATOM_LABELS", "ZincFeaturizer"]

ATOM_LABELS = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +"),
    *("N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -"),
    *("P +", "S H1 +", "C H1 -", "P H1 +"),
)
"""The 28 labels in ZINC's order: element, hydrogens in brackets, sign of the charge."""

_ATOM_INDEX = {label: index for index, label in enumerate(ATOM_LABELS)}
_BOND_INDEX = {
    Chem.BondType.SINGLE: 0,
    Chem.BondType.DOUBLE: 1,
    Chem.BondType.TRIPLE: 2,
}
_ATOM_TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|[BCNOPSFIbcnops*]")
_BRACKET = re.compile(
    r"\[(?P<element>[A-Za-z][a-z]?|\*|#\d+)(?:@@?(?:[A-Z]{2}\d+)?)?"
    r"(?P<hydrogens>H\d*)?(?P<charge>[+-]\d*)?\]"
)


class ZincFeaturizer(Featurizer):
    """ZINC's labels: one of 28 for an atom, single, double or triple for a bond.

    An atom's label is what its token in a kekulised SMILES says, so hydrogens count only where
    they stand in brackets: the carbon of `[C@H]` is 'C H1', that of a plain `C` is 'C', and
    pyrrole's `[nH]`, written `N` after kekulisation, is 'N'.

    The graphs equal those of PyTorch Geometric's ZINC but for the order of the atoms, Kekulé
    structures included (checked on its 2,000 validation and test molecules), and for the bonds,
    which it numbers 1, 2, 3 and this 0, 1, 2; see `molsepnorm.featurize.pyg.from_data`.

    >>> graph = ZincFeaturizer()("C[NH2+]Cc1cc[nH]c1")
    >>> [ATOM_LABELS[index] for index in graph.atom_features[:, 0]]
    ['C', 'N H2 +', 'C', 'C', 'C', 'C', 'N', 'C']
    >>> graph.bond_features[:, 0].tolist()
    [0, 0, 0, 0, 1, 0, 0, 1]
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
        text = canonical_smiles(smiles)
        atoms = [_atom_index(token) for token in _ATOM_TOKEN.findall(text)]
        # RDKit wrote the text, so reading it back needs no second sanitisation, which would cost
        # a third of the time; the atoms come in the order of their tokens.
        with rdBase.BlockLogs():
            mol = Chem.MolFromSmiles(text, sanitize=False)
            Chem.FastFindRings(mol)
            try:
                Chem.Kekulize(mol, clearAromaticFlags=True)
            except Chem.KekulizeException as error:
                raise unreadable(text, str(error), CANONICAL) from None
        bonds = []
        labels = []
        for bond in mol.GetBonds():
            bonds.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
            labels.append(_bond_index(bond.GetBondType()))
        return MolGraph(
            np.array(atoms, dtype=np.uint8)[:, None],
            np.array(bonds, dtype=np.int32).reshape(-1, 2),
            np.array(labels, dtype=np.uint8)[:, None],
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


def _bond_index(kind: Chem.BondType) -> int:
    if kind not in _BOND_INDEX:
        raise InvalidMolecule(
            f"bond type '{kind.name.lower()}' is not among ZINC's (single, double, triple); "
            "the 'ogb' features know every bond type"
        )
    return _BOND_INDEX[kind]
