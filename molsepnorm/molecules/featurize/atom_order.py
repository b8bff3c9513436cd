"""The order of atoms: from the order of a featuriser back to that of the SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.registry import Featurizer
from molsepnorm.molecules.featurize.smiles import canonical_smiles, implicit_hydrogens
from molsepnorm.molecules.molecule import MolGraph

_ROUNDS = 5  # after one or two, RDKit nearly always writes the same text again
_PLACE = "molsepnorm_place"


def in_smiles_order(
    featurizer: Featurizer, smiles: Sequence[str]
) -> list[MolGraph | InvalidMolecule]:
    """Return a graph or an error for each SMILES, with the atoms in the order of the SMILES.

    The featuriser receives SMILES that are their own canonical form, so its atoms have the same
    order whether it reads them as they are or in canonical form. Hydrogens that RDKit makes
    implicit are left out.
    """
    forms = [_stable_form(text) for text in smiles]
    graphs = iter(featurizer.many([form[0] for form in forms if isinstance(form, tuple)]))
    return [
        _reordered(next(graphs), form[1], featurizer) if isinstance(form, tuple) else form
        for form in forms
    ]


@dataclass(frozen=True, eq=False)
class Traced:
    """A molecule in a form whose atoms every featuriser keeps in order."""

    smiles: str
    """A SMILES that is its own canonical form, without isotopes."""
    places: np.ndarray
    """int64 [N]: index of each of its atoms in `Chem.MolFromSmiles` of the original SMILES."""
    size: int
    """Number of atoms there, more than N if RDKit keeps hydrogens as atoms, such as deuterium."""
    ranks: np.ndarray
    """int64 [N]: equal for atoms that a symmetry exchanges."""


def traced(smiles: str) -> Traced:
    """Return the stable form of a SMILES, and the way back to its atoms.

    >>> form = traced("OC[13CH3]")
    >>> form.smiles, form.places.tolist()
    ('CCO', [2, 1, 0])
    >>> traced("CC(C)O").ranks.tolist()
    [0, 3, 0, 2]

    Raises:
        InvalidMolecule: the SMILES is invalid, or its atoms cannot be traced.
    """
    form = _stable_form(smiles)
    if isinstance(form, InvalidMolecule):
        raise form
    text, order = form
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(text)
        original = Chem.MolFromSmiles(smiles.strip())
        for atom in original.GetAtoms():
            atom.SetIntProp(_PLACE, atom.GetIdx())
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
        heavy = [atom.GetIntProp(_PLACE) for atom in implicit_hydrogens(original).GetAtoms()]
    if len(heavy) != mol.GetNumAtoms():
        raise InvalidMolecule("its atoms cannot be traced through RDKit's canonical SMILES")
    rank = np.arange(len(heavy)) if order is None else np.argsort(np.argsort(order))
    return Traced(text, np.array(heavy)[rank], original.GetNumAtoms(), _symmetry_ranks(mol))


def _symmetry_ranks(mol: Chem.Mol) -> np.ndarray:  # int64 (N,)
    """Return equal numbers for atoms that a symmetry of the graph exchanges, if stereochemistry is
    no more than a mark on each atom.

    RDKit's ranks distinguish the two sides of a ring such as `C[C@H]1CC[C@@H](O)CC1`, in an order
    that depends on the spelling.
    """
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    marks = [
        int(atom.GetChiralTag()) + 10 * sum(int(bond.GetStereo()) for bond in atom.GetBonds())
        for atom in mol.GetAtoms()
    ]
    marked = Chem.Mol(mol)
    for atom, rank in zip(marked.GetAtoms(), ranks, strict=True):
        atom.SetIsotope(marks[ranks.index(rank)])
    return np.array(Chem.CanonicalRankAtoms(marked, breakTies=False, includeChirality=False))


def _stable_form(smiles: str) -> tuple[str, list[int] | None] | InvalidMolecule:
    """Return a SMILES that is its own canonical form, and the place of each of its atoms in the
    original SMILES (None if equal); or the reason why there is none."""
    text, places = smiles, None
    try:
        for _ in range(_ROUNDS):
            if canonical_smiles(text) == text:
                if "|" in smiles and text != canonical_smiles(canonical_smiles(smiles)):
                    break  # the bonds that an extension makes cis or trans have lost it
                return text, places
            text, order = _rewritten(text.strip())
            places = order if places is None else [places[atom] for atom in order]
    except InvalidMolecule as error:
        return error
    except Chem.MolSanitizeException:  # RDKit also reads a few molecules with wrong valences
        pass
    return InvalidMolecule("its atoms cannot be traced through RDKit's canonical SMILES")


def _rewritten(text: str) -> tuple[str, list[int]]:
    """Return a canonical SMILES, and the place of each of its atoms in the text."""
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(text, sanitize=False)  # keeps hydrogens
        Chem.SanitizeMol(mol, Chem.SanitizeFlags.SANITIZE_CLEANUP)  # nitro groups, for instance
        for atom in mol.GetAtoms():
            atom.SetIntProp(_PLACE, atom.GetIdx())
        mol = implicit_hydrogens(mol)  # also sanitises
        for atom in mol.GetAtoms():
            atom.SetIsotope(0)
            atom.SetAtomMapNum(0)
        written = Chem.MolToSmiles(mol)
    order = mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    return written, [mol.GetAtomWithIdx(index).GetIntProp(_PLACE) for index in order]


def _reordered(
    graph: MolGraph | InvalidMolecule, places: list[int] | None, featurizer: Featurizer
) -> MolGraph | InvalidMolecule:
    if isinstance(graph, InvalidMolecule) or places is None:
        return graph
    if graph.num_atoms != len(places):
        return InvalidMolecule(
            f"the order of its atoms cannot be traced: featuriser '{featurizer.name}' returned "
            f"{graph.num_atoms} atoms for {len(places)} atoms in the SMILES"
        )
    order = np.argsort(places)
    new = np.argsort(order)  # atom i becomes new[i]
    return replace(graph, atom_features=graph.atom_features[order], bonds=new[graph.bonds])
