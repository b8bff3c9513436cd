"""CXSMILES are converted to SMILES of the same molecule."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor

from molsepnorm.errors import DataWarning, InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.cxsmiles import announce_losses, losses, worked_in
from molsepnorm.molecules.featurize.smiles import canonical_smiles


@pytest.mark.parametrize(
    ("smiles", "extension", "expected"),
    [
        ("C[CH](O)F", "|(0,0,;1,0,;2,1,;2,-1,),wU:1.0|", "C[C@@H](O)F"),
        ("CC=CC", "|t:1|", "C/C=C/C"),
        ("N[Cu]", "|C:0.0|", "N->[Cu]"),
        ("*CO", "|$a label;;$|", "*CO"),
        ("CC[O]", "|^1:2|", "CC[O]"),
        ("CCO", "|$_AV:;;5$,atomProp:0.a.b:1.c.d|", "CCO"),
    ],
)
def test_extensions_that_change_the_molecule_are_applied(smiles, extension, expected):
    assert canonical_smiles(worked_in(smiles, extension)) == canonical_smiles(expected)


@pytest.mark.parametrize(
    ("smiles", "extension"),
    [
        ("CCO", "|^1:3|"),
        ("N.[Cu]", "|C:0.0|"),  # no bond
        ("CC=CC", "|t:3|"),  # four atoms, and three bonds
        ("CCO", f"|^1:{'9' * 5000}|"),
    ],
)
def test_atoms_and_bonds_that_do_not_exist_are_refused(smiles, extension):
    """RDKit ignores them, so the molecule would be another one."""
    with pytest.raises(InvalidMolecule, match="CXSMILES extension"):
        worked_in(smiles, extension)


def test_the_result_equals_what_rdkit_writes():
    """With positions, which hold the handedness a second time."""
    for smiles in ("C[C@H](O)F", "F/C=C/[C@@H](C)N", "c1cc[nH]c1"):
        mol = Chem.MolFromSmiles(smiles)
        rdDepictor.Compute2DCoords(mol)
        plain, _, extension = Chem.MolToCXSmiles(mol).partition(" ")
        assert extension.startswith("|(")
        assert canonical_smiles(worked_in(plain, extension)) == canonical_smiles(smiles)


@pytest.mark.parametrize("extension", ["|&1:1|", "|(0,0,;1,0,;2,1,),a:1|", "|o1:1,r|", "|$a;;$|"])
def test_every_featuriser_reads_cxsmiles(extension):
    """As one cell of a table, with a blank before the extension."""
    text = f" O[C@H](C)F {extension} "
    assert canonical_smiles(text) == canonical_smiles("O[C@H](C)F")
    for name in ("zinc", "ogb"):
        (one,), (other,) = (featurize.get(name).many([each]) for each in (text, "O[C@H](C)F"))
        assert sorted(one.atom_features.tolist()) == sorted(other.atom_features.tolist())
        assert one.bonds.shape == other.bonds.shape


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("*CC* |Sg:n:1,2::ht|", "describes a polymer or another bracketed group, which a model"),
        ("*CC |$_R1;;$|", "describes an R group, an attachment point or a query atom, which a"),
        ("*C.c1ccccc1 |m:0:2.3.4|", "describes variable attachment, which a model"),
        ("CC.OC |H:1.0|", "describes a hydrogen bond, which a model"),
        *((f"CCO {odd}", "unknown CXSMILES") for odd in ("|what|", "|&1|", "|&1:1,what|")),
        ("C1CC |C:0.0|", "unclosed ring"),
        ("CCO |r| a name", "whitespace inside"),
    ],
)
def test_extensions_that_no_smiles_can_express_are_refused(text, reason):
    with pytest.raises(InvalidMolecule, match=reason):
        canonical_smiles(text)


def test_losses_are_announced_once():
    said: set[str] = set()
    with pytest.warns(DataWarning) as warned:
        announce_losses(["CC", "CCO |r|", "CC |(0,0,;1,0,),r|", "C |what|"], "x.csv", said)
        announce_losses(["CCO |&1:1|"], "x.csv", said)
    assert [str(each.message) for each in warned] == [
        "x.csv: the enhanced stereochemistry of CXSMILES, such as '|r|', is not read by the model",
        "x.csv: the coordinates of CXSMILES, such as '|(0,0,;1,0,),r|', are not read by the model",
    ]


BIARYL = Chem.MolFromSmiles("Cc1cccc(I)c1-c1c(C)cccc1Br")
rdDepictor.Compute2DCoords(BIARYL)
DRAWN = Chem.MolToCXSmiles(BIARYL)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("CC(O)F |wU:1.0|", ["wedges without coordinates"]),
        ("CC(O)F |wD:1.0,r|", ["wedges without coordinates", "enhanced stereochemistry"]),
        ("CC(O)F |(0,0,;1,0,;2,1,;2,-1,),wU:1.0|", []),
        ("CC(O)F |w:1.0|", []),
        (DRAWN, ["coordinates"]),
        (DRAWN.replace(")|", "),wU:8.15|"), ["axial chirality"]),
    ],
)
def test_wedges_that_are_not_read_are_losses(text, lost):
    assert losses(*text.split(" ", 1)) == lost
