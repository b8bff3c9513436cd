"""Bemis–Murcko scaffolds: what belongs to one, and that no spelling of a molecule changes it."""

from __future__ import annotations

import csv
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from molsepnorm.molecules.fragments import murcko_scaffold
from support import spelling

MOLECULES = (
    "CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1",
    "CN(C)S(=O)(=O)N1CC[C@H](Oc2ccc(C#N)cn2)[C@@H]1C",
    "C/C(=N\\NC(=O)Nc1cc(F)cc(F)c1)c1ncccc1C(=O)[O-]",  # marks that end outside the scaffold
    "F/C(COc1ccc2c(c1)[nH]c1ccccc12)=C1/CN2CCC1CC2",
    "CCCCc1ncc(/C=C(\\Cc2cccs2)C(=O)O)n1Cc1ccc(C(=O)O)cc1",
    "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O",
    "C[C@@H]1CC(Nc2cncc(-c3nncn3C)c2)C[C@@H](C)C1",
    "CC[n+]1ccccc1.[Cl-]",
    "Cn1cccc1",
    "F/C=C/C=C\\Cl",
    "C1C[N+]23CCC[N+]4(C1)CC[S-]1[Fe+2]24([SH+]CC3)[S-]2CC[N+]34CCC[N+]5(CCC3)CC[SH+][Fe+2]1254",
)


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("Cc1ccc(CCN)cc1", "c1ccccc1"),
        ("OC(=O)C1CC1CCOc1ccncc1C", "c1cc(OCCC2CC2)ccn1"),  # a chain between rings belongs to it
        ("CC1CCCC(=O)C1", "O=C1CCCCC1"),  # so does an atom on a double bond
        ("Cn1cccc1", "c1cc[nH]c1"),
        ("C[N+]1(C)CCCCC1", "C1CC[NH2+]CC1"),
        ("[Na+].[O-]C(=O)c1ccccc1", "c1ccccc1"),
        ("Cc1ccccc1.CC1CC1", "C1CC1.c1ccccc1"),
        (" C1CC1\n", "C1CC1"),
        ("CCO", ""),
    ],
)
def test_scaffolds_consist_of_rings_and_their_links(smiles, scaffold):
    assert murcko_scaffold(smiles) == scaffold
    assert murcko_scaffold(smiles, chirality=True) == scaffold


@pytest.mark.parametrize("chirality", [False, True])
@settings(max_examples=100)
@given(smiles=st.sampled_from(MOLECULES), seed=st.integers(0, 2**32 - 1))
def test_every_spelling_has_the_same_scaffold(chirality, smiles, seed):
    other = spelling(smiles, seed)
    assert murcko_scaffold(other, chirality) == murcko_scaffold(smiles, chirality)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C1C[C@H]2C[C@@H]1CN2", "C1C[C@@H]2C[C@H]1CN2"),
        ("c1ccccc1/C=C/c1ccccc1", "c1ccccc1/C=C\\c1ccccc1"),
    ],
)
def test_chirality_tells_stereoisomers_of_a_scaffold_apart(one, other):
    assert murcko_scaffold(one) == murcko_scaffold(other)
    assert murcko_scaffold(one, chirality=True) != murcko_scaffold(other, chirality=True)


@pytest.mark.parametrize("name", ["bace", "tox21"])
def test_real_molecules_have_the_scaffolds_that_rdkit_gives_them(datasets, name):
    with open(datasets / "moleculenet" / f"{name}.csv") as lines:
        texts = [row["smiles"] for row in csv.DictReader(lines)]
    tested = 0
    for smiles in random.Random(0).sample(texts, 150):
        with rdBase.BlockLogs():
            mol = Chem.MolFromSmiles(smiles)
        if mol is None:
            continue
        tested += 1
        scaffold = murcko_scaffold(smiles)
        assert scaffold == MurckoScaffoldSmiles(mol=mol, includeChirality=False)
        assert not scaffold or murcko_scaffold(scaffold) == scaffold
        for chirality in (False, True):
            other = spelling(smiles, tested)
            assert murcko_scaffold(other, chirality) == murcko_scaffold(smiles, chirality)
    assert tested > 145
