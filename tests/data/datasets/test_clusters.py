"""Butina clusters equal those of RDKit, which compares all pairs at once."""

from __future__ import annotations

import csv

import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from rdkit.ML.Cluster import Butina

from molsepnorm.data.datasets import splitters
from molsepnorm.data.datasets.splitters import butina_clusters
from molsepnorm.molecules.featurize.fingerprints import morgan_matrix


def by_rdkit(smiles: list[str], max_distance: float) -> list[list[int]]:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in smiles]
    distances = []
    for i, one in enumerate(prints):
        distances += DataStructs.BulkTanimotoSimilarity(one, prints[:i], returnDistance=True)
    found = Butina.ClusterData(distances, len(prints), max_distance, isDistData=True)
    return [list(cluster) for cluster in found]


@pytest.fixture(scope="module")
def molecules(datasets):
    """`molecules(name)`: 300 SMILES of a set of MoleculeNet."""

    def read(name):
        with open(datasets / "moleculenet" / f"{name}.csv") as lines:
            return [row["smiles"] for row in csv.DictReader(lines)][:300]

    return read


@pytest.mark.parametrize(
    ("name", "max_distance", "pairs"),
    [("bace", 0.6, splitters._PAIRS), ("bace", 0.35, 1000), ("freesolv", 0.6, 1000)],
)
def test_clusters_equal_rdkit_s(molecules, monkeypatch, name, max_distance, pairs):
    """In their order and with their centres, whether or not the pairs fit into one block."""
    monkeypatch.setattr(splitters, "_PAIRS", pairs)
    smiles = molecules(name)
    expected = by_rdkit(smiles, max_distance)
    found = butina_clusters(morgan_matrix(smiles), max_distance)
    assert [cluster.tolist() for cluster in found] == expected
    assert 1 < len(expected) < 300


def test_few_molecules():
    assert butina_clusters(morgan_matrix([])) == []
    one = butina_clusters(morgan_matrix(["CCO"]))
    same = butina_clusters(morgan_matrix(["CCO", "OCC", "c1ccccc1"]))
    assert [cluster.tolist() for cluster in one] == [[0]]
    assert [cluster.tolist() for cluster in same] == [[1, 0], [2]]
