"""Structures of an SDF: what is drawn is what is read, or it is refused."""

from __future__ import annotations

import pickle
import random
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
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)[O-].[Na+]",
    "F/C=C/C=C\\Cl",
    "C[C@@H]1CC(Nc2cncc(-c3nncn3C)c2)C[C@@H](C)C1",
    "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O",
    "C[C@@](O)(F)/C=C/Br",
    "c1cc[nH]c1",
    "C[NH+](C)C",
    "[CH3]",
    "[2H]C",
    "C",
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


def test_a_molecule_that_no_layout_can_tell_is_drawn_all_the_same(monkeypatch):
    monkeypatch.setattr("molsepnorm.molecules.featurize.sdf.smiles_of", lambda _: "")
    assert smiles_of(drawn("C[C@H](N)O")) == "C[C@H](N)O"


def test_positions_in_space_count_whatever_the_block_calls_them():
    block = _block("C[C@H](N)/C=C/F", "3D")
    for flag in (" 2D", "   "):
        assert smiles_of(block.replace(" 3D", flag, 1)) == Chem.CanonSmiles("C[C@H](N)/C=C/F")


def test_stereochemistry_that_is_not_drawn_is_not_invented():
    """A centre without wedges, a double bond drawn crossed, atoms without positions."""
    assert smiles_of(_block("CC(N)F")) == "CC(N)F"
    assert smiles_of(_block("FC=CCl")) == "FC=CCl"
    flat = Chem.MolToMolBlock(Chem.MolFromSmiles("F/C=C/[C@H](C)N"), includeStereo=False)
    assert smiles_of(flat) == "CC(N)C=CF"


def test_hydrogens_that_are_drawn_become_implicit():
    assert smiles_of(_raw(["C", "H", "H", "O", "H"], [(1, 2, 1), (1, 3, 1), (1, 4, 1), (4, 5, 1)]))
    assert smiles_of(_raw(["C", "H", "H"], [(1, 2, 1), (1, 3, 1)])) == "C"
    assert smiles_of(_raw(["H", "H"], [(1, 2, 1)])) == "[H][H]"


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (_raw(["C"] * 6, [(1, i, 1) for i in range(2, 7)]), "valence"),
        (_raw(["N"] + ["C"] * 4, [(1, i, 1) for i in range(2, 6)]), "valence"),
        (_raw(["N"] + ["C"] * 4, RING), "kekulize"),
        (_raw(["C"] * 5, RING), "kekulize"),
    ],
    ids=["carbon with five bonds", "nitrogen with four", "pyrrole without its H", "C5H5"],
)
def test_impossible_structures_are_refused_with_rdkits_reason(block, reason):
    """By the featuriser, to which the SMILES of what is drawn goes."""
    smiles = smiles_of(block)
    assert smiles
    with pytest.raises(InvalidMolecule, match=reason):
        canonical_smiles(smiles)


NOTHING = (
    *("", "\n", "<html>", "\0" * 200, "ä" * 50, "x\n\n\nno counts\nM  END\n"),
    *(_raw([], []), _raw(["Xx"], []), _raw(["C", "C"], [(1, 3, 1)])),
    _block("CCO").replace("M  END\n", ""),
)


@pytest.mark.parametrize("block", NOTHING)
def test_other_text_than_a_structure_gives_an_empty_smiles(block):
    assert smiles_of(block) == ""


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


@pytest.mark.parametrize("symbol", ["R1", "R#", "Pol"])
def test_r_groups_without_a_list_of_them_are_refused(symbol):
    assert "an R group" in _refusal(_raw([symbol, "C"], [(1, 2, 1)]))


@pytest.mark.parametrize("alias", ["CH3", "H3C", "C"])
def test_abbreviations_of_other_groups_are_refused(alias):
    chain = _raw(["C", "N"], [(1, 2, 1)])
    assert smiles_of(chain.replace("M  END", f"A    1\n{alias}\nM  END")) == "CN"
    for other in ("Ph", "Cl", "R1"):
        reason = _refusal(chain.replace("M  END", f"A    1\n{other}\nM  END"))
        assert f"the abbreviation '{other}', which a model cannot read" in reason


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


def test_atoms_of_a_list_or_a_query_are_never_guessed():
    chain = _raw(["L", "C"], [(1, 2, 1)])
    for symbol in ("L", "AH", "LP"):
        assert "a query atom" in _refusal(_raw([symbol, "C"], [(1, 2, 1)]))
    listed = chain.replace("M  END", "M  ALS   1  2 F N   O   \nM  END")
    counted = chain.replace("L  ", "C  ").replace("M  END", "M  SUB  1   1   2\nM  END")
    for block in (_raw(["Q", "C"], [(1, 2, 1)]), _raw(["A", "C"], [(1, 2, 1)]), listed, counted):
        assert _refusal(block) == "the structure describes a query atom, which a model cannot read"


@pytest.mark.parametrize("version", [2000, 3000])
@pytest.mark.parametrize("smiles", ["CC", "C=C", "C#C", "CN->[Pt]", "c1ccccc1"])
def test_bonds_with_an_order_are_no_query(smiles, version):
    block = _block(smiles, kekulize=False, version=version)
    assert smiles_of(block) == Chem.CanonSmiles(smiles)


@pytest.mark.parametrize("kind", [5, 6, 7, 8])
def test_bonds_of_a_query_are_refused(kind):
    assert "describes a query bond" in _refusal(_raw(["C", "C"], [(1, 2, kind)]))


@pytest.mark.parametrize("topology", [1, 2])
def test_a_bond_in_rings_or_chains_only_is_a_query(topology):
    chain = _raw(["C", "C"], [(1, 2, 1)])
    assert smiles_of(chain.replace("1  2  1  0", "1  2  1  0  0  0")) == "CC"
    limited = chain.replace("1  2  1  0", f"1  2  1  0  0  {topology}")
    assert "describes a query bond, which a model cannot read" in _refusal(limited)


def test_attachment_points_and_link_nodes_are_refused():
    chain = _raw(["C", "C", "O"], [(1, 2, 1), (2, 3, 1)])
    block = _block("CCO", version=3000)
    linked = "M  V30 LINKNODE 1 4 2 2 1 2 3\nM  V30 END CTAB"
    point, node = "describes an attachment point, which", "describes a link node, which"
    assert point in _refusal(chain.replace("M  END", "M  APO  1   1   1\nM  END"))
    assert node in _refusal(chain.replace("M  END", "M  LIN  1   2   4   1   3\nM  END"))
    assert point in _refusal(re.sub(r"(M  V30 1 C .*)", r"\1 ATTCHPT=1", block))
    assert node in _refusal(block.replace("M  V30 END CTAB", linked))


@pytest.mark.parametrize("ends", ["(3 1 2 3) ATTACH=ANY", "(6 1 2 3 4 5 6) ATTACH=ALL"])
def test_a_bond_to_several_atoms_is_refused(ends):
    """Variable attachment, and the haptic bond of a sandwich complex."""
    block = _block("c1ccccc1.*Cl", version=3000)
    reason = _refusal(re.sub(r"(M  V30 \d+ 1 7 8)", rf"\1 ENDPTS={ends}", block))
    assert "describes variable attachment or a haptic bond, which a model cannot" in reason


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
        ("\n\n\n" + "M  V30 COUNTS 3000 2999 0 0 0\nM  END\n", "3,000 atoms in the structure; at"),
        (
            "\n\n\n" + "M  V30 COUNTS 10 900 0 0 0\nM  END\n",
            "890 more bonds than atoms; at most 512",
        ),
        ("x" * 300_000, "a structure of 300,000 characters; at most 200,000 are supported"),
        ("junk\n\n\n  1  9  0\nM  END\n", "RDKit cannot read the structure"),
        (_raw([], []), "empty SMILES"),
        ("", "empty SMILES"),
    ],
)
def test_a_blank_has_the_structures_reason(block, reason):
    """Also behind a pipe, in another process."""
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


def test_the_order_of_the_atoms_does_not_matter():
    order = list(range(13))
    for seed in range(5):
        random.Random(seed).shuffle(order)
        mol = Chem.RenumberAtoms(Chem.MolFromSmiles(MOLECULES[0]), order)
        AllChem.Compute2DCoords(mol)
        assert smiles_of(Chem.MolToMolBlock(mol)) == Chem.CanonSmiles(MOLECULES[0])


def test_blocks_that_are_too_large_are_not_read_by_rdkit(monkeypatch):
    """By the numbers of atoms and bonds that a block declares, or by its length without them."""
    block = _block("CCO", version=3000)
    flat = _block("CCO").replace("  3  2", "301900", 1)
    monkeypatch.setattr(Chem, "MolFromMolBlock", None)
    for large in (
        block.replace("COUNTS 3 2", "COUNTS 10000 9999"),
        block.replace("COUNTS 3 2", "COUNTS 1000 1600"),
        flat,
        flat.replace("\n", "\r\n"),
        "no counts " * 40_000,
    ):
        assert smiles_of(large) == ""
