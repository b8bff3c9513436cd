"""Standardised structures: those of RDKit called by hand, however a molecule is written."""

from __future__ import annotations

import csv

import pytest
from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import Unwritten, canonical_smiles
from molsepnorm.molecules.featurize.standardize import standard_smiles, standardized
from support import spelling

LEVELS = ("none", "salts", "parent", "tautomer")
FORMS = {  # SMILES -> its form at each level
    "CCO": ("CCO",) * 4,
    "[Na+].CC(=O)[O-]": ("CC(=O)[O-].[Na+]", "CC(=O)[O-]", "CC(=O)O", "CC(=O)O"),
    "C[NH3+].[Cl-]": ("C[NH3+].[Cl-]", "C[NH3+]", "CN", "CN"),
    "C[N+](C)(C)C.[I-]": ("C[N+](C)(C)C.[I-]", *["C[N+](C)(C)C"] * 3),
    "Oc1ccccn1": (*["Oc1ccccn1"] * 3, "O=c1cccc[nH]1"),
    "CC(O)=CC(C)=O": (*["CC(=O)C=C(C)O"] * 3, "CC(=O)CC(C)=O"),
    "CN(=O)=O": ("C[N+](=O)[O-]",) * 4,
}


@pytest.mark.parametrize("smiles", FORMS)
def test_each_level_includes_the_ones_before(smiles):
    assert tuple(standard_smiles(smiles, level) for level in LEVELS) == FORMS[smiles]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("smiles", [*FORMS, "N[C@@H](CS)C(=O)[O-].[K+]", "OC=1N=CNC(=O)C=1"])
def test_every_spelling_has_the_same_form(smiles, level):
    expected = standard_smiles(smiles, level)
    for seed in range(5):
        assert standard_smiles(spelling(smiles, seed), level) == expected


@pytest.mark.parametrize("name", ["bace", "tox21"])
def test_real_molecules_have_the_forms_that_rdkit_gives_them(datasets, name):
    """Called by hand, on the canonical SMILES, with RDKit's own limits."""
    with open(datasets / "moleculenet" / f"{name}.csv") as lines:
        smiles = [row["smiles"] for row in csv.DictReader(lines)][::150]
    expected = {level: [] for level in LEVELS[1:]}
    tautomers = rdMolStandardize.TautomerEnumerator()
    for text in map(canonical_smiles, smiles):
        mol = Chem.MolFromSmiles(text)
        parent = rdMolStandardize.ChargeParent(mol)
        for level, found in (
            ("salts", rdMolStandardize.FragmentParent(mol)),
            ("parent", parent),
            ("tautomer", tautomers.Canonicalize(parent)),
        ):
            expected[level].append(Chem.MolToSmiles(found))
    for level in LEVELS[1:]:
        assert standardized(smiles, level) == expected[level]
    assert expected["tautomer"] != expected["parent"]
    assert standardized(smiles, "none") is smiles


def test_a_molecule_that_cannot_be_standardised_is_an_invalid_one(monkeypatch):
    """With the reason, on one line; the others keep their places."""

    def fail(mol):
        raise ValueError("  Invariant Violation\n\tnoble gas")

    monkeypatch.setattr(rdMolStandardize, "ChargeParent", fail)
    with pytest.raises(InvalidMolecule, match="^RDKit cannot standardise it: Invariant Violation$"):
        standard_smiles("CCO", "parent")
    first, second = standardized(["CCO", "C1CC"], "parent")
    assert isinstance(first, Unwritten)
    assert isinstance(second, Unwritten)
    assert (first, first.reason) == ("", "RDKit cannot standardise it: Invariant Violation")
    assert second.reason == "RDKit cannot read 'C1CC': unclosed ring"
    with pytest.raises(InvalidMolecule, match="^RDKit cannot standardise it: Invariant Violation$"):
        canonical_smiles(first)
