"""Structures of an SDF: what is drawn is what is read, or it is refused."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import AllChem, rdDepictor

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.cxsmiles import losses
from molsepnorm.molecules.featurize.sdf import drawn, mol_to_smiles, smiles_of
from molsepnorm.molecules.featurize.smiles import MAX_ATOMS, canonical_smiles

MOLECULES = (
    *("CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)[O-].[Na+]", "F/C=C/C=C\\Cl", "[CH3]", "[2H]C", "C"),
    *("C[C@@H]1CC(Nc2cncc(-c3nncn3C)c2)C[C@@H](C)C1", "C[C@@](O)(F)/C=C/Br", "C[NH+](C)C"),
    *("O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O", "c1cc[nH]c1"),
)


def _block(smiles: str, positions: str = "2D", kekulize: bool = True, version: int = 2000) -> str:
    """A molfile; in 3D with all hydrogens, in 2D with wedges."""
    mol = Chem.MolFromSmiles(smiles)
    if positions == "3D":
        mol = Chem.AddHs(mol)
        assert AllChem.EmbedMolecule(mol, randomSeed=7) == 0
        for atom in mol.GetAtoms():  # the handedness is in the positions alone
            atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    else:
        AllChem.Compute2DCoords(mol)
    return Chem.MolToMolBlock(mol, kekulize=kekulize, forceV3000=version == 3000)


def _raw(atoms: list[str], bonds: list[tuple[int, int, int]]) -> str:
    """A molfile of any atoms and bonds, possible or not."""
    lines = ["", "", "", f"{len(atoms):3d}{len(bonds):3d}  0  0  0  0  0  0  0  0999 V2000"]
    lines += [f"{i:10.4f}{0:10.4f}{0:10.4f} {atom:<3} 0  0" for i, atom in enumerate(atoms)]
    lines += [f"{a:3d}{b:3d}{kind:3d}  0" for a, b, kind in bonds]
    return "\n".join([*lines, "M  END", ""])


RING = [(i + 1, (i + 1) % 5 + 1, 4) for i in range(5)]


@pytest.mark.parametrize("version", [2000, 3000])
@pytest.mark.parametrize("smiles", MOLECULES)
def test_the_drawn_structure_is_read(smiles, version):
    """In the plane with wedges, aromatic bonds drawn as such or not, and in space, where only the
    positions tell the handedness and the hydrogens are atoms."""
    expected = Chem.CanonSmiles(smiles)
    assert smiles_of(_block(smiles, version=version)) == expected
    if "[nH]" not in smiles:  # which aromatic bonds leave open
        assert smiles_of(_block(smiles, kekulize=False, version=version)) == expected
    if smiles != "C[C@H](N)C(=O)[O-].[Na+]":
        assert smiles_of(_block(smiles, "3D", version=version)) == expected


@pytest.mark.parametrize(
    "smiles",
    [*MOLECULES, "C[C@@H]1CC[C@H]2[C@@H](C)C(=O)O[C@@H]3O[C@@]4(C)CC[C@@H]1[C@@]32OO4"],
)
def test_a_molecule_that_is_drawn_is_read_again(smiles):
    """The last one, artemisinin, is a cage: RDKit's layout leaves a stereocentre open."""
    block = drawn(smiles, "a title")
    assert block.startswith("a title\n")
    assert smiles_of(block) == Chem.CanonSmiles(smiles)
    assert not rdDepictor.GetPreferCoordGen()


def test_stereochemistry_that_is_not_drawn_is_not_invented():
    """A centre without wedges, a double bond drawn crossed, atoms without positions."""
    assert smiles_of(_block("CC(N)F")) == "CC(N)F"
    assert smiles_of(_block("FC=CCl")) == "FC=CCl"
    flat = Chem.MolToMolBlock(Chem.MolFromSmiles("F/C=C/[C@H](C)N"), includeStereo=False)
    assert smiles_of(flat) == "CC(N)C=CF"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (_raw(["N"] + ["C"] * 4, [(1, i, 1) for i in range(2, 6)]), "valence"),
        (_raw(["N"] + ["C"] * 4, RING), "kekulize"),  # pyrrole without its hydrogen
    ],
)
def test_impossible_structures_are_refused_with_rdkits_reason(block, reason):
    """By the featuriser, to which the SMILES of what is drawn goes."""
    with pytest.raises(InvalidMolecule, match=reason):
        canonical_smiles(smiles_of(block))


@given(data=st.data())
def test_damage_gives_a_molecule_a_refusal_or_a_blank(data):
    """Never an exception, and never a SMILES that would be read otherwise than the block."""
    block = _block(data.draw(st.sampled_from(MOLECULES)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(block) - 1))
        sign = data.draw(st.sampled_from("0123456789 CNOHXcno.-\n\0ä"))
        block = block[:place] + sign + block[place + 1 :]
    smiles = smiles_of(block)
    drawn = Chem.MolFromMolBlock(block)
    if "a model cannot read" in getattr(smiles, "reason", ""):
        drawn = Chem.MolFromMolBlock(block, sanitize=False)
        parts = [*drawn.GetAtoms(), *drawn.GetBonds()]
        stars = [atom for atom in drawn.GetAtoms() if not atom.GetAtomicNum()]
        assert stars or any(part.HasQuery() for part in parts)
    elif drawn is not None and drawn.GetNumAtoms():
        assert smiles == Chem.MolToSmiles(drawn)
    elif smiles:
        with pytest.raises(InvalidMolecule):
            canonical_smiles(smiles)


def _refusal(block: str) -> str:
    smiles = smiles_of(block)
    assert smiles == ""
    with pytest.raises(InvalidMolecule) as caught:
        canonical_smiles(smiles)
    return str(caught.value)


@pytest.mark.parametrize("version", [2000, 3000])
def test_polymers_and_r_groups_are_refused_and_notes_are_not(version):
    def block(smiles: str) -> str:
        return Chem.MolToMolBlock(Chem.MolFromSmiles(smiles), forceV3000=version == 3000)

    polymer = block("CCO |Sg:n:1:n:ht|")
    assert "polymer or another bracketed group, which a model cannot" in _refusal(polymer)
    for kind in ("DAT", "SUP", "GEN"):
        assert smiles_of(polymer.replace("SRU", kind)) == "CCO"
    assert smiles_of(block("*CO")) == "*CO"
    mol = Chem.MolFromSmiles("*CO")
    mol.GetAtomWithIdx(0).SetUnsignedProp("_MolFileRLabel", 1)
    group = Chem.MolToMolBlock(mol, forceV3000=version == 3000)
    assert "describes an R group, which a model cannot read" in _refusal(group)


CHAIN = _raw(["C", "C", "O"], [(1, 2, 1), (2, 3, 1)])
V3000 = _block("CCO", version=3000)
LINK = "M  V30 LINKNODE 1 4 2 2 1 2 3\nM  V30 END CTAB"
SANDWICH = _block("c1ccccc1.*Cl", version=3000)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        *((_raw([symbol, "C"], [(1, 2, 1)]), "an R group") for symbol in ("R1", "R#", "Pol")),
        *((_raw([symbol, "C"], [(1, 2, 1)]), "a query atom") for symbol in ("L", "Q", "A", "AH")),
        (
            CHAIN.replace("C  ", "L  ", 1).replace("M  END", "M  ALS   1  2 F N   O   \nM  END"),
            "a query atom",
        ),
        (CHAIN.replace("M  END", "M  SUB  1   1   2\nM  END"), "a query atom"),
        *((_raw(["C", "C"], [(1, 2, kind)]), "a query bond") for kind in (5, 6, 7, 8)),
        (CHAIN.replace("1  2  1  0", "1  2  1  0  0  1"), "a query bond"),
        *(
            (CHAIN.replace("M  END", f"A    1\n{name}\nM  END"), f"the abbreviation '{name}'")
            for name in ("Ph", "Cl", "R1")
        ),
        (CHAIN.replace("M  END", "M  APO  1   1   1\nM  END"), "an attachment point"),
        (re.sub(r"(M  V30 1 C .*)", r"\1 ATTCHPT=1", V3000), "an attachment point"),
        (CHAIN.replace("M  END", "M  LIN  1   2   4   1   3\nM  END"), "a link node"),
        (V3000.replace("M  V30 END CTAB", LINK), "a link node"),
        *(
            (re.sub(r"(M  V30 \d+ 1 7 8)", rf"\1 ENDPTS={ends}", SANDWICH), "variable attachment")
            for ends in ("(3 1 2 3) ATTACH=ANY", "(6 1 2 3 4 5 6) ATTACH=ALL")
        ),
    ],
)
def test_what_is_no_single_molecule_is_refused_and_never_guessed(block, reason):
    found = _refusal(block)
    assert reason in found and "which a model cannot read" in found


@pytest.mark.parametrize("alias", ["CH3", "H3C", "C"])
def test_an_abbreviation_of_the_atom_itself_is_read(alias):
    assert smiles_of(CHAIN.replace("M  END", f"A    1\n{alias}\nM  END")) == "CCO"


@pytest.mark.parametrize(
    ("smiles", "extension"),
    [
        ("C[C@@H](O)F", "|&1:1|"),
        ("C[C@@H](O)F", "|a:1|"),
        ("C[C@H](Cl)[C@@H](O)F", "|o1:1,3|"),
        ("C[C@H](Cl)[C@@H](O)F", "|&1:1,o2:3|"),
        ("C[C@@H](O)F", ""),
    ],
)
def test_groups_of_stereocentres_are_kept(smiles, extension):
    """Thus the loss of them is announced. The enantiomer is the one that is drawn."""
    text = f"{smiles} {extension}".strip()
    found = smiles_of(Chem.MolToV3KMolBlock(Chem.MolFromSmiles(text)))
    assert found.split()[0] == smiles
    assert Chem.MolToCXSmiles(Chem.MolFromSmiles(found)) == Chem.MolToCXSmiles(
        Chem.MolFromSmiles(text)
    )


AXIS = (
    "Cc1cccc(I)c1-c1c(C)cccc1{} |(-2.2,1.5,;-2.2,0,;-3.5,-0.75,;-3.5,-2.25,;-2.2,-3,;-0.9,-2.25,;"
    "0.4,-3,;-0.9,-0.75,;0.4,0,;0.4,1.5,;-0.9,2.25,;1.7,2.25,;3,1.5,;3,0,;1.7,-0.75,;1.7,-2.25,{}|"
)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (AXIS.format("Br", ",),wU:7.6"), []),
        (AXIS.format("Br", ",),wD:7.6"), []),
        (AXIS.format("Br", ",),wU:7.6,&1:7"), ["enhanced stereochemistry"]),
        (AXIS.format("[C@H](C)F", ",;3,-3,;0.4,-3,),wU:7.6,o1:15"), ["enhanced stereochemistry"]),
    ],
)
def test_the_axis_of_an_atropisomer_is_kept(text, lost):
    """Thus the loss of it is announced."""
    mol = Chem.MolFromSmiles(text)
    found = smiles_of(Chem.MolToV3KMolBlock(mol))
    assert losses(*found.split()) == ["axial chirality", *lost]
    assert canonical_smiles(found) == Chem.MolToSmiles(mol)
    (axis,) = (bond.GetStereo() for bond in mol.GetBonds() if "ATROP" in bond.GetStereo().name)
    assert axis in [bond.GetStereo() for bond in Chem.MolFromSmiles(found).GetBonds()]


def test_molecules_of_rdkit_are_refused_as_their_blocks():
    chain = _raw(["L", "C", "O"], [(1, 2, 1), (2, 3, 1)])
    listed = chain.replace("M  END", "M  ALS   1  2 F N   O   \nM  END")
    polymer = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO |Sg:n:1:n:ht|"))
    for block in (listed, polymer):
        smiles = mol_to_smiles(Chem.MolFromMolBlock(block))
        assert smiles == "" and smiles.reason == smiles_of(block).reason
    assert mol_to_smiles(Chem.MolFromSmiles("*CO")) == "*CO"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (V3000.replace("COUNTS 3 2", "COUNTS 3000 2999"), "3,000 atoms in the structure"),
        (V3000.replace("COUNTS 3 2", "COUNTS 10 900"), "890 more bonds than atoms"),
        (_block("CCO").replace("  3  2", "301900", 1), "599 more bonds than atoms"),
        ("x" * 300_000, "a structure of 300,000 characters"),
        (_raw([], []), "empty SMILES"),
    ],
)
def test_a_blank_has_the_structures_reason(monkeypatch, block, reason):
    """Also behind a pipe, in another process. RDKit does not read what is too large."""
    if reason != "empty SMILES":
        monkeypatch.setattr(Chem, "MolFromMolBlock", None)
    smiles = pickle.loads(pickle.dumps(smiles_of(block)))
    assert smiles == ""
    for name in featurize.SIZES:
        (refusal,) = featurize.get(name).many([smiles])
        assert str(refusal).startswith(reason)


def test_a_large_molecule_is_refused_by_its_size_and_a_huge_one_is_blank():
    """Whose SMILES could end the process; tried on a thread with little stack."""
    code = (
        "import sys, threading\n"
        "from molsepnorm.molecules.featurize.sdf import smiles_of\n"
        "sizes = [int(word) for word in sys.argv[1:]]\n"
        "def chain(n):\n"
        "    lines = ['', '', '', '  0  0  0     0  0            999 V3000']\n"
        "    lines += ['M  V30 BEGIN CTAB', f'M  V30 COUNTS {n} {n - 1} 0 0 0']\n"
        "    lines += ['M  V30 BEGIN ATOM']\n"
        "    lines += [f'M  V30 {i} C {i}.0 0 0 0' for i in range(1, n + 1)]\n"
        "    lines += ['M  V30 END ATOM', 'M  V30 BEGIN BOND']\n"
        "    lines += [f'M  V30 {i} 1 {i} {i + 1}' for i in range(1, n)]\n"
        "    return '\\n'.join([*lines, 'M  V30 END BOND', 'M  V30 END CTAB', 'M  END', ''])\n"
        "def work():\n"
        "    print([len(smiles_of(chain(n))) for n in sizes])\n"
        "threading.stack_size(1 << 20)\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start(); thread.join()\n"
    )
    sizes = [MAX_ATOMS, MAX_ATOMS + 1, 2 * MAX_ATOMS, 2 * MAX_ATOMS + 1, 20 * MAX_ATOMS]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, sizes)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([*sizes[:3], 0, 0])
