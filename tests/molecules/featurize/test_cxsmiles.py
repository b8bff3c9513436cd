"""CXSMILES are converted to SMILES of the same molecule."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.cxsmiles import worked_in
from molsepnorm.molecules.featurize.smiles import canonical_smiles


@pytest.mark.parametrize("extension", ["|r|", "|&1:1|", "|o1:1,2,&2:3|", "|a:1,r|", "||"])
def test_groups_of_stereocentres_do_not_change_the_molecule(extension):
    assert worked_in("O[C@H](C)F", extension) == "O[C@H](C)F"


@pytest.mark.parametrize(
    ("smiles", "extension", "expected"),
    [
        ("C[CH](O)F", "|(0,0,;1,0,;2,1,;2,-1,),wU:1.0|", "C[C@@H](O)F"),
        ("CC=CC", "|t:1|", "C/C=C/C"),
        ("N[Cu]", "|C:0.0|", "N->[Cu]"),
        ("*CO", "|$R1;;$|", "*CO"),
        ("OCC", "|(0,0,;1,0,;2,1,)|", "CCO"),
    ],
)
def test_extensions_that_change_the_molecule_are_applied(smiles, extension, expected):
    assert canonical_smiles(worked_in(smiles, extension)) == canonical_smiles(expected)


def test_the_result_equals_what_rdkit_writes():
    """With positions, which hold the handedness a second time."""
    for smiles in ("C[C@H](O)F", "F/C=C/[C@@H](C)N", "c1cc[nH]c1"):
        mol = Chem.MolFromSmiles(smiles)
        rdDepictor.Compute2DCoords(mol)
        plain, _, extension = Chem.MolToCXSmiles(mol).partition(" ")
        assert extension.startswith("|(")
        assert canonical_smiles(worked_in(plain, extension)) == canonical_smiles(smiles)


def test_unreadable_text_is_returned_unchanged():
    with pytest.raises(InvalidMolecule, match="whitespace inside"):
        canonical_smiles(worked_in("CCO", "|what|"))
    with pytest.raises(InvalidMolecule, match="unclosed ring"):
        canonical_smiles(worked_in("C1CC", "|what|"))


def test_text_that_is_too_large_is_returned_unchanged(monkeypatch):
    """RDKit does not read it."""
    monkeypatch.setattr(Chem, "MolFromSmiles", None)
    assert worked_in("C" * 12_000, "|C:0.0|") == "C" * 12_000
    with pytest.raises(InvalidMolecule, match="12,000 atoms; at most 1,000 are supported"):
        canonical_smiles(worked_in("C" * 12_000, "|C:0.0|"))
    with pytest.raises(InvalidMolecule, match="characters; at most 40,000 are supported"):
        canonical_smiles(worked_in("CCO", f"|{'w' * 50_000}|"))
