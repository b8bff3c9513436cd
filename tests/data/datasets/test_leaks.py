"""Molecules in more than one split are counted, however they are written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import spelling

from molsepnorm.data.datasets import DataConfig, duplicates, load
from molsepnorm.data.datasets.duplicates import molecule_numbers, shared_molecules
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.smiles import canonical_smiles

OGB = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
MOLECULES = [
    *("CCO", "CC(C)O", "CCCO", "c1ccccc1O", "Cc1ccccc1", "CC(=O)O", "C[C@H](F)O", "C[C@@H](F)O"),
    *("[Na+].[Cl-]", "CC#N", "C1CCCCC1", "c1ccncc1", "O=C=O", "F/C=C/F", r"F/C=C\F", "CNC"),
]


@pytest.fixture
def loaded(tmp_path):
    """`loaded(smiles, splits)` loads a table with these rows."""

    def make(smiles: list[str], splits: list[str]):
        table = tmp_path / "my.csv"
        rows = zip(smiles, range(len(smiles)), splits, strict=True)
        table.write_text("smiles,y,split\n" + "".join(f"{s},{y},{p}\n" for s, y, p in rows))
        return load(DataConfig(table=table, targets=["y"], splits_column="split"), OGB)

    return make


@pytest.mark.parametrize("seed", range(3))
def test_the_count_equals_a_comparison_of_all_canonical_smiles(loaded, seed, monkeypatch):
    """Enantiomers and E/Z isomers are different molecules; blank splits do not count."""
    monkeypatch.setattr(duplicates, "_PAIRS", 100)  # several chunks
    rng = np.random.default_rng(seed)
    chosen = [str(each) for each in rng.choice(MOLECULES, 30)]
    splits = ["train", "train", "val", "test", *rng.choice(["train", "val", "test", ""], 26)]
    dataset = loaded([spelling(each, seed + i) for i, each in enumerate(chosen)], splits)
    where: dict[str, set[str]] = {}
    for text, split in zip(chosen, splits, strict=True):
        if split:
            where.setdefault(canonical_smiles(text), set()).add(split)
    expected = sum(len(each) > 1 for each in where.values())
    assert expected > 0
    assert shared_molecules(dataset) == expected
    assert shared_molecules(replace(dataset, smiles=None)) is None


def test_rows_of_a_molecule_have_the_same_number(loaded):
    """Without SMILES they are rows of the same graph, as enantiomers in these features."""
    smiles = ["CCO", "OCC", "C[C@H](F)O", "C[C@@H](F)O", "CCO"]
    dataset = loaded(smiles, ["train", "train", "val", "test", ""])
    first, other, left, right, last = molecule_numbers(dataset).tolist()
    assert first == other == last and len({first, left, right}) == 3
    numbers = molecule_numbers(replace(dataset, smiles=None)).tolist()
    assert numbers[0] == numbers[1] == numbers[4] != numbers[2]


ISOMERS = [
    *("c1ccccc1-c1ccccn1", "c1ccccc1-c1cccnc1", "c1ccccc1-c1ccncc1"),
    *("Cc1ccc(F)cc1Cl", "Cc1ccc(Cl)cc1F", "CC(N)CO", "CC(O)CN", "CCO", "COC"),
]


@pytest.mark.parametrize("with_smiles", [True, False])
def test_isomers_with_the_same_atoms_and_bonds_have_different_numbers(loaded, with_smiles):
    """The path between two atoms is hashed together with them."""
    dataset = loaded(
        [*ISOMERS, *map(spelling, ISOMERS, range(len(ISOMERS)))], ["train", "val", "test"] * 6
    )
    dataset = dataset if with_smiles else replace(dataset, smiles=None)
    first, second = dataset.molecule_ids[: len(ISOMERS)], dataset.molecule_ids[len(ISOMERS) :]
    assert len(np.unique(first)) == len(ISOMERS)
    np.testing.assert_array_equal(first, second)


def test_texts_that_are_no_smiles_are_compared_as_they_are(loaded, monkeypatch):
    """Featurisers of other packages read other texts, such as sequences."""
    dataset = loaded(["CCO"] * 6, ["train", "train", "val", "test", "test", "train"])
    texts = ["VKAKLG", "VKAKLG", "GAV", "VKAKLG", "OCC", "CCO"]
    dataset = replace(dataset, smiles=texts)
    numbers = molecule_numbers(dataset).tolist()
    assert numbers == [0, 0, 2, 0, 4, 4]
    assert shared_molecules(dataset) == 2
