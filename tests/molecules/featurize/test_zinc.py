"""ZINC's labels: the rule, against a slow telling of it and against the released graphs."""

from __future__ import annotations

import csv
import gzip
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize import zinc
from molsepnorm.molecules.featurize.smiles import canonical_mol, canonical_smiles
from molsepnorm.molecules.featurize.zinc import ATOM_LABELS, ZincFeaturizer
from molsepnorm.molecules.molecule import MolGraph
from support import same_graph, spelling

featurizer = ZincFeaturizer()

ONE_OF_EACH = [
    *("C", "CO", "CN", "CF", "C[C@H](F)Cl", "CS", "CCl", "C[O-]", "C[NH+](C)C", "CBr", "C[NH3+]"),
    *("C[NH2+]C", "C[N+](C)(C)C", "c1cc[n-]c1", "C[S-]", "CI", "CP", "CC(C)=[OH+]", "C[NH-]"),
    *("c1cc[o+]cc1", "c1cc[s+]cc1", "C[PH](C)=O", "C[PH2]=O", "[CH2-]C", "C[P+](C)(C)C", "C[SH+]C"),
    *("c1cc[cH-]c1", "C[PH+](C)C"),
]
"""A molecule for each of `ATOM_LABELS`."""


def labels(graph: MolGraph) -> list[str]:
    return [ATOM_LABELS[index] for index in graph.atom_features[:, 0]]


def slow(smiles: str) -> tuple[list[str], list[tuple[int, int, int]]]:
    """Labels and bonds by the rule's own words: kekulise, write, read back, look at each atom."""
    kekulised = canonical_mol(smiles)
    Chem.Kekulize(kekulised, clearAromaticFlags=True)
    text = Chem.MolToSmiles(kekulised, canonical=False)
    order = kekulised.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    found = [""] * kekulised.GetNumAtoms()
    for index, atom in zip(order, Chem.MolFromSmiles(text, sanitize=False).GetAtoms(), strict=True):
        hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
        found[index] = atom.GetSymbol()
        found[index] += f" H{hydrogens}" if hydrogens else ""
        found[index] += {0: "", 1: " +", -1: " -"}[charge]
    orders = {"SINGLE": 0, "DOUBLE": 1, "TRIPLE": 2}
    return found, sorted(
        (
            *sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())),
            orders[bond.GetBondType().name],
        )
        for bond in kekulised.GetBonds()
    )


def contents(graph: MolGraph) -> tuple[list[str], list[tuple[int, int, int]]]:
    bonds = zip(graph.bonds.tolist(), graph.bond_features[:, 0].tolist(), strict=True)
    return labels(graph), [(i, j, order) for (i, j), order in bonds]


def fast(smiles: str) -> tuple[list[str], list[tuple[int, int, int]]]:
    """Return the graph of the canonical form, with atoms in the order of `slow`."""
    return contents(featurizer(canonical_smiles(smiles)))


@pytest.mark.parametrize(("label", "smiles"), [*zip(ATOM_LABELS, ONE_OF_EACH, strict=True)])
def test_each_label_has_a_molecule(label, smiles):
    assert label in labels(featurizer(smiles))
    assert fast(smiles) == slow(smiles)


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("c1cc[nH]c1", ["C", "C", "N", "C", "C"]),  # the bracket goes with kekulisation
        ("c1cc[nH+]cc1", ["C", "C", "N H1 +", "C", "C", "C"]),  # the charge keeps it
        ("F[C@@](Cl)(Br)I", ["F", "C", "Cl", "Br", "I"]),  # brackets without hydrogen
        ("FC(Cl)Br", ["F", "C", "Cl", "Br"]),  # hydrogen without brackets
        ("F[C@H](Cl)Br", ["F", "C H1", "Cl", "Br"]),
    ],
)
def test_hydrogens_count_in_brackets_only(smiles, expected):
    assert sorted(labels(featurizer(smiles))) == sorted(expected)


@pytest.mark.parametrize(
    ("smiles", "named"),
    [
        ("c1cc[se]c1", "atom 'Se'"),
        ("[Na+].[Cl-]", "atom 'Na +'"),
        ("S#S", "atom 'S H1'"),  # canonical [SH]#[SH]
        ("[H][H]", "atom 'H'"),
        ("CC[CH2]", "atom 'C H2'"),
        ("CN->C", "bond type 'dative'"),
    ],
)
def test_what_is_outside_the_vocabulary_is_named(smiles, named):
    with pytest.raises(InvalidMolecule, match=f"^{re.escape(named)} is not among ZINC's"):
        featurizer(smiles)


def read(datasets: Path, split: str) -> list[str]:
    with gzip.open(datasets / "zinc" / f"{split}.csv.gz", "rt") as lines:
        return [row["smiles"] for row in csv.DictReader(lines)]


SIGNS = "C N O c n s S F Br P I B 1 2 ( ) = # [nH] [O-] [NH+] [C@H] [C@@] [N@+] [CH2] / . [13C]"
MIXED = (
    *ONE_OF_EACH,
    *("C[C@H](C)O", "C[C@H]1CC[C@@H](C)CC1", "C[C@H]C", "C[N@H]CO", "[CH3]C[CH3]"),  # marks that go
    *("CN(=O)=O", "CP(=O)=O", "CI(=O)=O", "[2H]C", "[CH3:1]C", "C[H]", "[nH]1cccc1", "N1C=CC=C1"),
    *("CN->C", "C$C", "C:C", "C[Si]", "CB", "c1ccc1", "C1CC", "", " CC", "C C", "CC(C)(C)(C)C"),
    *("C1=CC=CC=C1", "OC1=CC=CC=C1C", "c1ccc2ccccc2c1", "[Na+].[Cl-]", "C" * 1001),
)


def check_canonical(smiles: str) -> None:
    """A SMILES and its canonical form have equal graphs, those of the rule, or both are refused."""
    try:
        text = canonical_smiles(smiles)
    except InvalidMolecule as error:
        with pytest.raises(InvalidMolecule, match=re.escape(str(error))):
            featurizer(smiles)
        return
    one, other = featurizer.many([smiles, text])
    if isinstance(other, InvalidMolecule):
        assert isinstance(one, InvalidMolecule)
    else:
        assert same_graph(one, other)
        assert contents(other) == slow(smiles)


@pytest.mark.claim(
    "ZINC features read directly from the SMILES equal those of the canonical form, errors "
    "included."
)
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(SIGNS.split()), max_size=10).map("".join))
def test_the_text_as_it_stands_says_what_its_canonical_form_says(text):
    check_canonical(text)


def test_a_release_without_canonical_kekule_structures_gives_the_same(monkeypatch):
    """In all releases the canonical form decides what the text leaves open."""
    before = featurizer.many(MIXED)
    assert sum(isinstance(one, InvalidMolecule) for one in before) > 10
    for text in MIXED:
        check_canonical(text)
    monkeypatch.setattr(zinc, "_RANKED", False)
    for one, other in zip(before, featurizer.many(MIXED), strict=True):
        assert type(one) is type(other)
        if isinstance(one, MolGraph):
            assert same_graph(one, other)


def test_real_molecules_in_any_spelling(datasets):
    """The text as it stands, against the canonical form of another spelling, Kekulé forms too."""
    smiles = read(datasets, "test")[5::10]
    graphs = featurizer.many([spelling(text, seed) for seed, text in enumerate(smiles)])
    kekulised = featurizer.many(
        [Chem.MolToSmiles(Chem.MolFromSmiles(text), kekuleSmiles=True) for text in smiles]
    )
    for text, one, other in zip(smiles, graphs, kekulised, strict=True):
        assert fast(text) == slow(text)
        plain = featurizer(canonical_smiles(text))
        assert same_graph(one, plain), text
        assert same_graph(other, plain), text


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_released_graphs(datasets, split):
    """Equal to the ones in PyG's ZINC but for the order of the atoms, Kekulé structure included."""
    smiles = read(datasets, split)
    index = (datasets / "zinc" / f"{split}.index").read_text().replace(",", " ").split()
    with open(datasets / "ZINC" / "raw" / f"{split}.pickle", "rb") as stream:
        released = pickle.load(stream)
    assert len(released) == len(index) == 1000
    for row, theirs in list(zip(index, released, strict=True))[::5]:
        orders = np.triu(theirs["bond_type"].numpy())
        bonds = np.argwhere(orders)
        there = MolGraph(
            theirs["atom_type"].numpy()[:, None], bonds, orders[tuple(bonds.T)][:, None] - 1
        )
        assert same_graph(featurizer(smiles[int(row)]), there), smiles[int(row)]
