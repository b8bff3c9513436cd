"""What a CXSMILES says, a SMILES says alone."""

from __future__ import annotations

import pytest
from rdkit import Chem

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.cxsmiles import worked_in
from molsepnorm.molecules.featurize.smiles import canonical_smiles


@pytest.mark.parametrize("extension", ["|r|", "|&1:1|", "|o1:1,2,&2:3|", "|a:1,r|", "||"])
def test_how_sure_a_centre_is_changes_nothing(extension):
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
def test_what_changes_the_molecule_is_worked_in(smiles, extension, expected):
    assert canonical_smiles(worked_in(smiles, extension)) == canonical_smiles(expected)


def test_it_is_what_rdkit_writes_and_reads():
    """With positions, which hold the handedness a second time."""
    for smiles in ("C[C@H](O)F", "F/C=C/[C@@H](C)N", "c1cc[nH]c1"):
        mol = Chem.MolFromSmiles(smiles)
        Chem.rdDepictor.Compute2DCoords(mol)
        plain, _, extension = Chem.MolToCXSmiles(mol).partition(" ")
        assert extension.startswith("|(")
        assert canonical_smiles(worked_in(plain, extension)) == canonical_smiles(smiles)


def test_what_cannot_be_read_is_left_for_the_featuriser():
    with pytest.raises(InvalidMolecule, match="whitespace inside"):
        canonical_smiles(worked_in("CCO", "|what|"))
    with pytest.raises(InvalidMolecule, match="unclosed ring"):
        canonical_smiles(worked_in("C1CC", "|what|"))


def test_what_is_too_large_is_left_for_the_featuriser(monkeypatch):
    """RDKit does not read it."""
    monkeypatch.setattr(Chem, "MolFromSmiles", None)
    assert worked_in("C" * 12_000, "|C:0.0|") == "C" * 12_000
    with pytest.raises(InvalidMolecule, match="12,000 atoms; at most 1,000 are supported"):
        canonical_smiles(worked_in("C" * 12_000, "|C:0.0|"))
    with pytest.raises(InvalidMolecule, match="characters; at most 40,000 are supported"):
        canonical_smiles(worked_in("CCO", f"|{'w' * 50_000}|"))
