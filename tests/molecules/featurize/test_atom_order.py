"""The order of atoms where hydrogens, isotopes and maps are written. For other SMILES see
predict/test_embed.py."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from molsepnorm.molecules.featurize import Featurizer
from molsepnorm.molecules.featurize.atom_order import in_smiles_order
from molsepnorm.molecules.featurize.smiles import canonical_mol
from molsepnorm.molecules.molecule import MolGraph


class _Elements(Featurizer):
    """Atomic numbers, in the order of the canonical SMILES as the documentation recommends."""

    name = "elements"
    atom_sizes, bond_sizes = (119,), (1,)

    def __call__(self, smiles: str) -> MolGraph:
        return _graph(canonical_mol(smiles))


def _graph(mol: Chem.Mol) -> MolGraph:
    ends = [[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in mol.GetBonds()]
    bonds = np.array(ends, dtype=np.int32).reshape(-1, 2)
    atoms = [[atom.GetAtomicNum()] for atom in mol.GetAtoms()]
    return MolGraph(np.array(atoms), bonds, np.zeros((len(bonds), 1), dtype=int))


@pytest.mark.parametrize(
    ("smiles", "elements"),
    [
        ("[2H]O[C@]([2H])(F)Cl", [8, 6, 9, 17]),
        ("[H]OC", [8, 6]),
        ("[H:1][C@](F)(Cl)Br", [6, 9, 17, 35]),
        ("[CH3:2][18OH:1]", [6, 8]),
        (" OCC ", [8, 6, 6]),
        ("[H][H]", [1, 1]),
        ("C", [6]),
        ("[H]N(=O)=O", [7, 8, 8]),
        ("[H]/N=C(/C)F", [7, 6, 6, 9]),
        ("[2H]/C(F)=C/C", [6, 9, 6, 6]),
    ],
)
def test_hydrogens_isotopes_and_maps_do_not_shift_atoms(smiles, elements):
    (graph,) = in_smiles_order(_Elements(), [smiles])
    assert graph.atom_features[:, 0].tolist() == elements


def test_an_order_that_cannot_be_traced_is_an_error_of_its_row():
    """A featuriser with other atoms than the SMILES, and a valence that only RDKit accepts."""

    class _WithHydrogens(_Elements):
        def __call__(self, smiles: str) -> MolGraph:
            return _graph(Chem.AddHs(canonical_mol(smiles)))

    (error,) = in_smiles_order(_WithHydrogens(), ["OC"])
    assert "featuriser 'elements' returned 6 atoms for 2 atoms in the SMILES" in str(error)
    (error,) = in_smiles_order(_Elements(), ["O=Cl(=O)(=O)[H]"])
    assert str(error) == "its atoms cannot be traced through RDKit's canonical SMILES"
