"""Embeddings from SMILES: equal to the network's, in the order of rows and atoms."""

from __future__ import annotations

import csv
import os

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

import molsepnorm.predict.predictor as module
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.featurize import get
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict import Embeddings, Predictor, TableRows, embed_rows
from molsepnorm.tasks import Target, Task
from support import SMALL, batch_of, far_from_initial, spelling

DRUGS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C",
    "FC(F)(F)c1ccc(Cl)cc1",
    "N#CC1CC1",
]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
SETTINGS = [{}, {"readout": "token+mean"}, {"readout": "mean"}]


def _predictor(featurizer: str = "ogb", processes: int = 1, **settings: object) -> Predictor:
    made = get(featurizer)
    sizes = {"atom_sizes": made.atom_sizes, "bond_sizes": made.bond_sizes}
    network = far_from_initial(GraphormerConfig(**SMALL | sizes | settings))
    task = Task((Target("y", "regression"), Target("z", "binary")), "loss")
    return Predictor(
        PropertyModel.of(network, featurizer, task, objective="contrastive"), "cpu", processes
    )


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    """A model that was trained without labels, with ogb features and chirality."""
    return _predictor()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_embeddings_equal_those_of_the_network(settings):
    """Molecule by molecule, with the atoms of each in the slots after its graph token."""
    predictor = _predictor(**settings)
    texts = [Chem.MolToSmiles(Chem.MolFromSmiles(text)) for text in DRUGS]  # order of any graph
    found = predictor.embed(texts, atoms=True)
    network = predictor.model.network
    assert found.molecules.dtype == found.atoms[0].dtype == np.float32
    assert found.molecules.shape == (len(texts), 32 if "token+mean" in str(settings) else 16)
    assert found.errors == [None] * len(texts)
    for text, molecule, atoms in zip(texts, found.molecules, found.atoms, strict=True):
        batch = batch_of([get("ogb")(text)], network.config)
        with torch.no_grad():
            expected, slots = network.embed_with_atoms(batch)
        np.testing.assert_allclose(molecule, expected[0], **CLOSE)
        np.testing.assert_allclose(atoms, slots[batch.mask], **CLOSE)
    plain = predictor.embed(texts)
    np.testing.assert_allclose(plain.molecules, found.molecules, **CLOSE)
    assert plain.atoms is None


@pytest.mark.parametrize("featurizer", ["zinc", "ogb"])
@pytest.mark.parametrize("smiles", DRUGS[:3])
def test_atoms_are_in_the_order_of_the_smiles(featurizer, smiles):
    """For other SMILES of a molecule they are permuted as RDKit numbers its atoms, also if the
    featuriser reads the canonical SMILES because of chirality."""
    predictor = _predictor(featurizer)
    texts = [smiles, *(spelling(smiles, seed) for seed in range(5))]
    found = predictor.embed(texts, atoms=True)
    first = Chem.MolFromSmiles(smiles)
    for text, molecule, atoms in zip(texts, found.molecules, found.atoms, strict=True):
        match = Chem.MolFromSmiles(text).GetSubstructMatch(first, useChirality=True)
        np.testing.assert_allclose(molecule, found.molecules[0], **CLOSE)
        np.testing.assert_allclose(atoms[list(match)], found.atoms[0], **CLOSE)
    assert np.abs(found.atoms[0] - found.atoms[0][::-1]).max() > 0.1


def test_rows_that_fail_are_nan_with_the_reason(predictor):
    texts = ["C1CC", "CCO", "", "O"]
    found = predictor.embed(texts, atoms=True)
    assert np.isnan(found.molecules[[0, 2]]).all() and np.isfinite(found.molecules[[1, 3]]).all()
    assert "unclosed ring" in found.errors[0]
    assert found.errors[1:] == [None, "empty SMILES", None]
    assert [atoms.shape for atoms in found.atoms] == [(0, 16), (3, 16), (0, 16), (1, 16)]
    assert predictor.embed(["x"]).molecules.shape == (1, 16)


def test_an_embedding_that_is_not_finite_is_an_error_of_its_row():
    predictor = _predictor("zinc")
    with torch.no_grad():
        predictor.model.network.embedding.atoms[1] = np.inf  # oxygen
    found = predictor.embed(["CC", "CO", "C1CC"], atoms=True)
    assert np.isfinite(found.molecules[0]).all() and np.isnan(found.molecules[1:]).all()
    assert found.errors[1].startswith("the embedding is not a finite number: the model's weights")
    assert "unclosed ring" in found.errors[2]
    assert [len(atoms) for atoms in found.atoms] == [2, 0, 0]


# --- tables ---------------------------------------------------------------------------------------

TABLE = {
    "id": ["7", "8", "9", "x"],
    "smiles": ["CCO", "C1CC", "OC", "C"],
    "note": ["", "a,b", "", "c"],
}


def _write(predictor: Predictor, path, **options) -> tuple[int, int]:
    chunks = options.pop("chunks", [pd.DataFrame(TABLE)])
    return embed_rows(predictor, TableRows(chunks, "smiles", "my.csv"), path, **options)


@pytest.mark.parametrize(("suffix", "atoms"), [(".parquet", False), (".PQ", True)])
def test_parquet_is_read_by_pandas(predictor, tmp_path, monkeypatch, suffix, atoms):
    """All columns and rows in order, float32 bit by bit."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(module, "_TASK", 3)
    path = tmp_path / f"new folder/out{suffix}"
    assert _write(predictor, path, atoms=atoms) == (4, 1)
    expected = Embeddings.joined(list(predictor.embed_stream(TABLE["smiles"], atoms)))
    table = pd.read_parquet(path, engine="pyarrow")
    columns = ["embedding", *(["atom_embeddings"] if atoms else []), "error"]
    assert list(table) == [*TABLE, *columns]
    for name, cells in TABLE.items():
        assert table[name].tolist() == cells
    vectors = np.stack(table["embedding"])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected.molecules)
    assert table["error"].notna().tolist() == [False, True, False, False]
    assert "unclosed ring" in table["error"][1]
    if atoms:
        for cell, wanted in zip(table["atom_embeddings"], expected.atoms, strict=True):
            assert len(cell) == len(wanted)
            assert all(map(np.array_equal, cell, wanted))
    file = parquet.ParquetFile(path)
    assert str(file.schema_arrow.field("embedding").type).startswith("fixed_size_list<")
    assert os.listdir(path.parent) == [path.name]


def test_csv_has_a_column_for_each_channel(predictor, tmp_path):
    assert _write(predictor, tmp_path / "out.csv") == (4, 1)
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [f"embedding_{index}" for index in range(16)]
    assert list(rows[0]) == [*TABLE, *names, "error"]
    assert [row["note"] for row in rows] == TABLE["note"]
    expected = predictor.embed(TABLE["smiles"])
    for row, wanted, error in zip(rows, expected.molecules, expected.errors, strict=True):
        assert row["error"] == (error or "")
        cells = [row[name] for name in names]
        if error:
            assert cells == [""] * 16
        else:
            np.testing.assert_allclose(np.array(cells, dtype=np.float32), wanted, rtol=1e-5)


def test_mistakes_are_clear_errors(predictor, tmp_path):
    """Nothing is written."""
    taken = [pd.DataFrame({"smiles": ["C"], "embedding": ["1"]})]
    for name, options, message in (
        ("out.csv", {"atoms": True}, "a CSV or TSV has no lists for the embeddings of"),
        ("out.parquet", {"chunks": taken}, "my.csv has a column 'embedding' already, which a new"),
    ):
        with pytest.raises(ConfigError, match=message):
            _write(predictor, tmp_path / name, **options)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("smiles", [*DRUGS[:3], "[2H]OC", "[13CH3]O"])
def test_atoms_are_in_the_order_of_the_rdkit_molecule(smiles, predictor):
    """Also where its SMILES is written from another atom, and where its hydrogens are explicit."""
    given = Chem.MolFromSmiles(smiles)
    mols = [Chem.RenumberAtoms(given, order) for order in _orders(given.GetNumAtoms())]
    mols.append(Chem.AddHs(mols[-1]))
    found = predictor.embed([smiles, *mols], atoms=True)
    heavy = [each.GetIdx() for each in given.GetAtoms() if each.GetAtomicNum() > 1]
    row = dict(zip(heavy, found.atoms[0], strict=True))
    for mol, molecule, atoms in zip(mols, found.molecules[1:], found.atoms[1:], strict=True):
        match = mol.GetSubstructMatch(given, useChirality=True)
        expected = {match[index]: row[index] for index in heavy}
        np.testing.assert_allclose(molecule, found.molecules[0], **CLOSE)
        np.testing.assert_allclose(atoms, [expected[index] for index in sorted(expected)], **CLOSE)


def _orders(atoms: int) -> list[list[int]]:
    random = np.random.default_rng(0)
    return [random.permutation(atoms).tolist() for _ in range(4)]
