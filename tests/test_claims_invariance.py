"""Predictions do not depend on the order of atoms, the batch or padding: real molecules, random
graphs and the whole network."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from molsepnorm.data.batching import GraphTensors
from molsepnorm.data.store import GraphStore
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import Target, Task
from support import batch_of, far_from_initial, renumbered

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def network(featurizer: str = "zinc") -> Graphormer:
    """Every weight and every running statistic matters."""
    sizes = featurize.SIZES[featurizer]
    return far_from_initial(
        GraphormerConfig(
            layers=3,
            width=16,
            ffn_width=16,
            heads=4,
            max_distance=12,
            max_path_length=5,
            atom_sizes=sizes.atoms,
            bond_sizes=sizes.bonds,
        )
    )


def outputs(model: Graphormer, graphs: list[MolGraph], max_groups: int = 1) -> torch.Tensor:
    with torch.no_grad():
        return model(batch_of(graphs, model.config, max_groups))


@pytest.fixture(scope="module")
def real(datasets: Path) -> list[str]:
    """200 of Tox21's molecules: salts, metals, cages and single atoms among them."""
    with open(datasets / "moleculenet" / "tox21.csv", newline="") as file:
        rows = [row["smiles"] for row in csv.DictReader(file)]
    with rdBase.BlockLogs():
        readable = (smiles for smiles in random.Random(1).sample(rows, 230))
        return [smiles for smiles in readable if Chem.MolFromSmiles(smiles)][:200]


@pytest.mark.claim(
    "Predictions do not depend on the SMILES chosen for a molecule: 1e-5, real molecules."
)
def test_the_spelling_of_real_molecules_does_not_matter(real: list[str]) -> None:
    """SMILES written at random get the same predictions to rounding: the graphs are the same, the
    order of their atoms is not."""
    task = Task((Target("y", "regression", mean=2.0, scale=3.0),), "mae")
    predictor = Predictor(PropertyModel.of(network("ogb"), "ogb", task))
    with rdBase.BlockLogs():
        others = [
            Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 1, randomSeed=0)[0]
            for smiles in real
        ]
    assert sum(a != b for a, b in zip(real, others, strict=True)) > 180
    one = [prediction.values["y"] for prediction in predictor.predict(real)]
    other = [prediction.values["y"] for prediction in predictor.predict(others)]
    assert other == pytest.approx(one, rel=1e-5, abs=1e-5)
    assert len(set(one)) > 190  # different molecules have different predictions


@pytest.mark.claim(
    "Predictions do not depend on atom order, on the other molecules of a batch, on their "
    "order or on padding: 1e-5, for real molecules, cages, salts and chains of 200 atoms."
)
def test_numbering_company_order_and_padding_of_real_molecules_do_not_matter(
    real: list[str],
) -> None:
    """Alone, renumbered, in a batch of all, in another order, in groups: the same to 1e-5."""
    ogb, model, rng = featurize.get("ogb"), network("ogb"), np.random.default_rng(0)
    graphs = [ogb(smiles) for smiles in real[:80]]
    alone = torch.cat([outputs(model, [graph]) for graph in graphs])
    torch.testing.assert_close(outputs(model, graphs), alone, **CLOSE)
    others = [renumbered(graph, rng) for graph in graphs]
    torch.testing.assert_close(outputs(model, others, max_groups=4), alone, **CLOSE)
    order = rng.permutation(len(graphs)).tolist()
    shuffled = outputs(model, [graphs[i] for i in order], max_groups=3)
    torch.testing.assert_close(shuffled, alone[order], **CLOSE)


@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_numbering_company_order_and_padding_of_random_graphs_do_not_matter(
    molgraphs, data: st.DataObject, seed: int
) -> None:
    """Graphs are single atoms, chains, rings, cages, complete and disconnected ones."""
    model, rng = network(), np.random.default_rng(seed)
    graphs = data.draw(st.lists(molgraphs(max_atoms=40), min_size=2, max_size=6))
    alone = torch.cat([outputs(model, [graph]) for graph in graphs])
    order = rng.permutation(len(graphs)).tolist()
    others = [renumbered(graphs[i], rng) for i in order]
    for max_groups in (1, 3):
        torch.testing.assert_close(outputs(model, others, max_groups), alone[order], **CLOSE)


def test_a_chain_of_200_atoms_and_float64(label) -> None:
    """Far beyond the largest distance, and float32 near float64."""
    import networkx as nx

    model, rng = network(), np.random.default_rng(2)
    chain, atom = label(nx.path_graph(200)), label(nx.empty_graph(1))
    alone = outputs(model, [chain])
    together = outputs(model, [atom, renumbered(chain, rng)])
    torch.testing.assert_close(together[1:], alone, **CLOSE)
    torch.testing.assert_close(outputs(model.double(), [chain]).float(), alone, **CLOSE)


@pytest.mark.claim("Predictions do not depend on the device: 1e-4, if there is a GPU.")
def test_the_device_does_not_matter() -> None:
    """On a GPU, where there is one, outputs are the CPU's to 1e-4."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    zinc, model = featurize.get("zinc"), network()
    graphs = [zinc(smiles) for smiles in ("C1CC2CCC1C2", "CC(=O)[O-].C[NH3+]", "c1ccc2ccccc2c1")]
    expected = outputs(model, graphs)
    config = model.config
    spec = encoding_of(config)
    batch = GraphTensors.of(encode(graphs, spec), "cuda").cut([0, 1, 2], 2)
    with torch.no_grad():
        torch.testing.assert_close(model.cuda()(batch).cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.claim("The store returns every array exactly.")
def test_the_store_returns_real_molecules_exactly(real: list[str], tmp_path: Path) -> None:
    """Written in chunks and read back: every array, and the predictions to the last bit."""
    ogb, model = featurize.get("ogb"), network("ogb")
    graphs = [ogb(smiles) for smiles in real[:60]]
    config = model.config
    spec = encoding_of(config)
    whole = encode(graphs, spec)
    chunks = (
        (encode(graphs[start : start + 17], spec), np.arange(60)[start : start + 17])
        for start in range(0, 60, 17)
    )
    store = GraphStore.of(chunks, (), spec, "ogb")
    for name in ("sizes", "atoms", "degrees", "pairs"):
        assert np.array_equal(getattr(store, name), getattr(whole, name)), name
    for name in ("parents", "bonds", "depths"):
        assert np.array_equal(getattr(store.paths, name), getattr(whole.paths, name)), name
    with torch.no_grad():
        assert torch.equal(
            model(GraphTensors.of(store).cut(list(range(60)), 3)), outputs(model, graphs, 3)
        )
