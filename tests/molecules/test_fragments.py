"""Fragments of molecules, compared with RDKit's own tools."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import BRICS

from molsepnorm.molecules.fragments import SCHEMES, fragments

DRUGS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1CCC(CC1)c1ccc(cc1)C(=O)NCc1ccc2OCOc2c1",
    "C[C@H](N)C(=O)O.[Na+]",
    "O=C1CCCCC1",
    "C",
]


@pytest.mark.parametrize("smiles", DRUGS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_atom_is_in_one_fragment(smiles, scheme):
    found = fragments(smiles, scheme)
    atoms = sorted(atom for each in found for atom in each.atoms)
    assert atoms == [*range(Chem.MolFromSmiles(smiles).GetNumAtoms())]
    for each in found:
        read = Chem.MolFromSmiles(each.smiles)
        assert read.GetNumAtoms() - each.smiles.count("*") == len(each.atoms)


@pytest.mark.parametrize("smiles", DRUGS)
def test_brics_fragments_are_those_of_rdkit(smiles):
    mol = Chem.MolFromSmiles(smiles)
    broken = Chem.GetMolFrags(BRICS.BreakBRICSBonds(mol), asMols=True)
    for part in broken:
        for atom in part.GetAtoms():
            atom.SetIsotope(0)
    expected = sorted(Chem.MolToSmiles(part, isomericSmiles=False) for part in broken)
    assert sorted(each.smiles for each in fragments(smiles, "brics")) == expected


@pytest.mark.parametrize("smiles", DRUGS)
def test_ring_systems_are_those_of_the_murcko_scaffold(smiles):
    """All atoms of rings, and no bond between two of their fragments is in a ring."""
    mol = Chem.MolFromSmiles(smiles)
    place = {atom: i for i, each in enumerate(fragments(smiles, "murcko")) for atom in each.atoms}
    for bond in mol.GetBonds():
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        together = place[ends[0].GetIdx()] == place[ends[1].GetIdx()]
        rings = any(atom.IsInRing() for atom in ends)
        single = bond.GetBondType() == Chem.BondType.SINGLE
        assert together == (bond.IsInRing() or not rings or not single)
