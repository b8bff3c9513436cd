"""CXSMILES are converted to SMILES of the same molecule."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor

from molsepnorm.errors import DataWarning, InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.cxsmiles import announce_losses, losses, worked_in
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
        ("*CO", "|$a label;;$|", "*CO"),
        ("CC[O]", "|^1:2|", "CC[O]"),
        ("CC.O", "|f:0.1,lp:2:2|", "CC.O"),
        ("CCO", "|$_AV:;;5$,atomProp:0.a.b:1.c.d|", "CCO"),
        ("OCC", "|(0,0,;1,0,;2,1,)|", "CCO"),
    ],
)
def test_extensions_that_change_the_molecule_are_applied(smiles, extension, expected):
    assert canonical_smiles(worked_in(smiles, extension)) == canonical_smiles(expected)


@pytest.mark.parametrize(
    ("smiles", "extension"),
    [
        ("CCO", "|^1:3|"),
        ("C1CC2CC12", "|^1:5|"),  # five atoms, and six bonds
        ("N.[Cu]", "|C:0.0|"),  # no bond
        ("N[Cu]", "|C:0.1|"),
        ("N[Cu]", "|C:2.0|"),
        ("C1CC=CC1", "|t:5|"),
        ("CC=CC", "|t:3|"),  # four atoms, and three bonds
        ("CCO", f"|^1:{'9' * 5000}|"),
    ],
)
def test_atoms_and_bonds_that_do_not_exist_are_refused(smiles, extension):
    """RDKit ignores them, so the molecule would be another one."""
    with pytest.raises(InvalidMolecule, match="CXSMILES extension"):
        worked_in(smiles, extension)


def test_hydrogens_count_as_they_are_written():
    assert worked_in("[H]OC[O]", "|^1:3|") == "[O]CO"


def test_the_result_equals_what_rdkit_writes():
    """With positions, which hold the handedness a second time."""
    for smiles in ("C[C@H](O)F", "F/C=C/[C@@H](C)N", "c1cc[nH]c1"):
        mol = Chem.MolFromSmiles(smiles)
        rdDepictor.Compute2DCoords(mol)
        plain, _, extension = Chem.MolToCXSmiles(mol).partition(" ")
        assert extension.startswith("|(")
        assert canonical_smiles(worked_in(plain, extension)) == canonical_smiles(smiles)


@pytest.mark.parametrize("extension", ["|&1:1|", "|(0,0,;1,0,;2,1,),a:1|", "|t:0|", "|$a;;$|"])
def test_every_featuriser_reads_cxsmiles(extension):
    """As one cell of a table, with a blank before the extension."""
    text = f" O[C@H](C)F {extension} "
    assert canonical_smiles(text) == canonical_smiles("O[C@H](C)F")
    for name in ("zinc", "ogb", "rich"):
        (one,), (other,) = (featurize.get(name).many([each]) for each in (text, "O[C@H](C)F"))
        assert sorted(one.atom_features.tolist()) == sorted(other.atom_features.tolist())
        assert one.bonds.shape == other.bonds.shape


@pytest.mark.parametrize("name", ["ogb", "rich"])
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("CC |^1:0|", "[CH2]C"),
        ("CC=CC |t:1|", "C/C=C/C"),
        ("CC=CC |c:1|", "C/C=C\\C"),
        ("C[CH](O)F |(0,0,;1,0,;2,1,;2,-1,),wU:1.0|", "C[C@@H](O)F"),
    ],
)
def test_features_are_those_of_the_same_molecule_without_an_extension(name, text, plain):
    one, other = featurize.get(name).many([text, plain])
    np.testing.assert_array_equal(one.atom_features, other.atom_features)
    np.testing.assert_array_equal(one.bond_features, other.bond_features)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "*CC* |$star_e;;;star_e$,Sg:n:1,2::ht|",
            "an R group, an attachment point or a query",
        ),
        ("*CC* |Sg:n:1,2::ht|", "a polymer or another bracketed group"),
        ("CCC |&1:1,Sg:n:1::ht|", "a polymer or another bracketed group"),
        ("*CC |$_R1;;$|", "an R group, an attachment point or a query"),
        ("*CC |$R12;;$|", "an R group, an attachment point or a query"),
        ("CC* |$;;_AP1$|", "an R group, an attachment point or a query"),
        ("*CC |RG:_R1={C}|", "an R group"),
        ("*C.c1ccccc1 |m:0:2.3.4|", "variable attachment"),
        ("OC1CCCC1 |LN:1:1.3.2.6|", "a link node"),
        ("CCO |rb:0:*|", "a query"),
        ("CCO |s:0:2|", "a query"),
        ("CC.OC |H:1.0|", "a hydrogen bond"),
    ],
)
def test_extensions_that_no_smiles_can_express_are_refused(text, reason):
    with pytest.raises(InvalidMolecule, match=f"describes {reason}( atom)?, which a model"):
        canonical_smiles(text)


@pytest.mark.parametrize("extension", ["|what|", "|zz:1|", "|&1|", "|&1:1,what|", "|&1:1,|"])
def test_unknown_extensions_are_refused(extension):
    with pytest.raises(InvalidMolecule, match="unknown CXSMILES extension"):
        canonical_smiles(f"CCO {extension}")


def test_errors_name_the_smiles_or_the_extension():
    with pytest.raises(InvalidMolecule, match="unclosed ring"):
        canonical_smiles("C1CC |C:0.0|")
    with pytest.raises(InvalidMolecule, match=r"RDKit cannot read the CXSMILES extension '\|C:7"):
        canonical_smiles("CCO |C:77.77|")
    with pytest.raises(InvalidMolecule, match="whitespace inside"):
        canonical_smiles("CCO |r| a name")


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


def test_axial_chirality_is_announced():
    said: set[str] = set()
    with pytest.warns(DataWarning, match="the axial chirality of CXSMILES, .*, is not read by"):
        announce_losses([DRAWN.replace(")|", "),wU:8.15|")], "x.csv", said)
    assert said == {"axial chirality"}


def test_a_drawing_with_many_digits_is_not_too_large():
    """The positions do not count as ring closures."""
    mol = Chem.MolFromSmiles("C" * 400)
    rdDepictor.Compute2DCoords(mol)
    assert canonical_smiles(Chem.MolToCXSmiles(mol)) == "C" * 400


def test_text_that_is_too_large_is_returned_unchanged(monkeypatch):
    """RDKit does not read it."""
    monkeypatch.setattr(Chem, "MolFromSmiles", None)
    assert worked_in("C" * 12_000, "|C:0.0|") == "C" * 12_000
    with pytest.raises(InvalidMolecule, match="12,000 atoms; at most 1,000 are supported"):
        canonical_smiles(worked_in("C" * 12_000, "|C:0.0|"))
    with pytest.raises(InvalidMolecule, match="characters; at most 40,000 are supported"):
        canonical_smiles(worked_in("CCO", f"|{'w' * 50_000}|"))
