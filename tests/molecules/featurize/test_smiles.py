"""Reading SMILES: one molecule, one canonical form; and a reason for every refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.smiles import (
    MAX_ATOMS,
    canonical_mol,
    canonical_smiles,
    read_smiles,
)
from support import same_graph, spelling, with_marks

MOLECULES = (
    "CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1",  # fused aromatic rings: several Kekulé structures
    "C[C@H]1CC[C@@H](C)CC1",  # stereocentres that depend on each other
    "C[C@@H]1CC(Nc2cncc(-c3nncn3C)c2)C[C@@H](C)C1",
    "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O",
    "F/C=C/C=C\\Cl",
    "C[NH+](C)CC(=O)[O-]",
    "c1cc[nH]c1",
    "c1ccc2ccc3ccccc3c2c1",
    "C[C@H](N)C(=O)[O-].[Na+]",
    "CC#N",
    "C",
    # RDKit turns bonds to the iron into dative ones; one canonical round is no fixed point here
    "C1C[N+]23CCC[N+]4(C1)CC[S-]1[Fe+2]24([SH+]CC3)[S-]2CC[N+]34CCC[N+]5(CCC3)CC[SH+][Fe+2]1254",
)
IN_ZINC = [smiles for smiles in MOLECULES if "Na" not in smiles and "Fe" not in smiles]


@pytest.mark.parametrize(("name", "molecules"), [("zinc", IN_ZINC), ("ogb", MOLECULES[:-1])])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_spelling_gives_the_same_graph(name, molecules, data):
    """Up to the order of the atoms; for OGB's, the iron complex aside: RDKit's own spelling of it
    has other charges."""
    featurizer = featurize.get(name)
    smiles = data.draw(st.sampled_from(molecules))
    graph = featurizer(smiles)
    other = featurizer(spelling(smiles, data.draw(st.integers(0, 2**32 - 1))))
    assert same_graph(other, graph)


@settings(max_examples=100, deadline=None)
@given(smiles=st.sampled_from(MOLECULES), seed=st.integers(0, 2**32 - 1), mapped=st.booleans())
def test_isotopes_and_atom_maps_do_not_matter(smiles, seed, mapped):
    marked = with_marks(smiles, seed, mapped)
    assert canonical_smiles(marked) == canonical_smiles(smiles)


@pytest.mark.parametrize(
    ("smiles", "plain"),
    [
        ("C/C=C/[2H]", "CC=C"),
        ("C/C=C/[H:1]", "CC=C"),
        ("[H]\\N=C(/N)c1ccccc1", "N=C(N)c1ccccc1"),
        ("[H]/N=C/[C@H](F)/C=N\\[H]", "N=CC(F)C=N"),
        ("[H]/N=C(/C)\\C=C\\F", "CC(=N)/C=C/F"),
    ],
)
def test_a_hydrogen_with_a_mark_is_implicit(smiles, plain):
    """Marks that other atoms need stay."""
    assert canonical_smiles(smiles) == Chem.CanonSmiles(plain)
    assert same_graph(*featurize.get("ogb").many([smiles, plain]))


@settings(max_examples=100, deadline=None)
@given(smiles=st.sampled_from(MOLECULES), seed=st.integers(0, 2**32 - 1))
def test_canonical_smiles_is_a_fixed_point_and_orders_the_atoms(smiles, seed):
    text = canonical_smiles(spelling(smiles, seed))
    assert canonical_smiles(text) == text
    symbols = [atom.GetSymbol() for atom in canonical_mol(text).GetAtoms()]
    assert symbols == [atom.GetSymbol() for atom in Chem.MolFromSmiles(text).GetAtoms()]


@pytest.mark.parametrize(
    ("smiles", "canonical"),
    [
        (" CCO\n", "CCO"),
        ("[H]C([H])([H])[H]", "C"),
        ("[2H]C", "C"),
        ("[CH3:7][13CH3]", "CC"),
        ("[2H][2H]", "[H][H]"),
        ("[2H][C@@H](C)F", "CCF"),
        ("*C", "*C"),
        ("[Na+].[Cl-]", "[Cl-].[Na+]"),
        ("C[C@H](F)Cl", "C[C@H](F)Cl"),
        ("C[Fe]", "[CH3][Fe]"),
        (np.str_("OC"), "CO"),
    ],
)
def test_isotopes_and_atom_maps_are_removed_and_the_rest_is_kept(smiles, canonical):
    assert canonical_smiles(smiles) == canonical


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        (" \t\n", "empty SMILES"),
        (b"CC", "not a text value: b'CC'"),
        ("CCO ethanol", "whitespace inside 'CCO ethanol'; if what follows it is a name"),
        ("CCé", r"'\xe9' in 'CCé' is not a SMILES character"),
        ("C[13#6]", "'C[13#6]' is a SMARTS pattern"),
        ("C1CC", "RDKit cannot read 'C1CC': unclosed ring"),
        ("[Xx]", "RDKit cannot read '[Xx]': syntax error around character 2"),
        ("CC(C)(C)(C)C", "RDKit cannot read 'CC(C)(C)(C)C': Explicit valence for atom # 1 C, 5"),
        ("C" * (MAX_ATOMS + 1), "1,001 atoms; at most 1,000 are supported"),
        ("InChI=1S/CH4/h1H4", "RDKit cannot read 'InChI=1S/CH4/h1H4': it is an InChI"),
        ("CO>[Pd]>C=O", "RDKit cannot read 'CO>[Pd]>C=O': it is a reaction"),
    ],
)
def test_invalid_smiles_are_refused_with_the_reason(smiles, reason):
    for read in (canonical_smiles, canonical_mol, featurize.get("zinc"), featurize.get("ogb")):
        with pytest.raises(InvalidMolecule) as caught:
            read(smiles)
        assert str(caught.value).startswith(reason)
    _, found, last = featurize.get("ogb").many(["CCO", smiles, "c1ccccc1"])
    assert str(found).startswith(reason) and last.num_atoms == 6


DENSE = "".join(f"[U]%({i})" for i in range(100, 900))  # 800 bonds are open
TOO_LARGE = [
    ("c" * 40_000, "40,000 atoms; at most 1,000 are supported"),
    ("C" * 40_001, "40,001 characters; at most 40,000 are supported"),
    ("[C" + "+" * 100_000 + "]", "100,003 characters; at most 40,000 are supported"),
    (DENSE + DENSE.replace("[U]", ""), "800 ring closures; at most 512 are supported"),
    ("C" + "([H])" * 3001, "3,001 hydrogens written as atoms; at most 3,000 are supported"),
]


@pytest.mark.parametrize(("smiles", "reason"), TOO_LARGE)
@pytest.mark.parametrize("name", ["ogb", "zinc"])
def test_what_is_too_large_is_refused_before_rdkit_reads_it(monkeypatch, smiles, reason, name):
    """RDKit takes time in proportion to the square of the length, and a crash of it cannot be
    caught."""
    featurizer = featurize.get(name)
    read = []
    monkeypatch.setattr(Chem, "MolFromSmiles", lambda *_, **__: read.append(1))
    (reason_of_many,) = featurizer.many([smiles])
    with pytest.raises(InvalidMolecule) as caught:
        featurizer(smiles)
    assert str(caught.value) == str(reason_of_many) == reason
    assert not read


SIGNS = "C N O c n s o p 1 2 ( ) = # [nH] [O-] [C@H] / . [2H] [H] * [Fe] -> ~ $ : é % \\ [NH3+]"


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(SIGNS.split()), max_size=10).map("".join) | st.text(max_size=8))
def test_any_text_gives_a_graph_or_a_reason_on_one_line(text):
    for name in featurize.SIZES:
        try:
            graph = featurize.get(name)(text)
        except InvalidMolecule as error:
            assert 0 < len(str(error)) < 200
            assert len(str(error).splitlines()) == 1
        else:
            assert graph.num_atoms > 0


def test_rdkit_prints_nothing_and_its_log_settings_survive(capfd):
    before = rdBase.LogStatus()
    rdBase.DisableLog("rdApp.error")
    try:
        during = rdBase.LogStatus()
        for name in featurize.SIZES:
            featurize.get(name).many(["C1CC", "c1cccc1", "[H]", "CC1=oC(=C)C(=O)O1", "C"])
        assert rdBase.LogStatus() == during
    finally:
        rdBase.EnableLog("rdApp.error")
    featurize.get("ogb").many(["C1CC", "[H]"])
    with pytest.raises(InvalidMolecule):
        read_smiles("C1CC")
    assert rdBase.LogStatus() == before
    assert capfd.readouterr() == ("", "")
