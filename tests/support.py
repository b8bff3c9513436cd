"""Helpers for several test files: networks whose every weight matters, small models, batches,
renumbered atoms, other SMILES of a molecule, a record of a run's events."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from torch import nn

from molsepnorm.data.batching import GraphTensors
from molsepnorm.data.datasets import Dataset, zinc
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.model import PropertyModel, encoding_of, weights_digest
from molsepnorm.molecules.encodings import encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.pretrained.card import CARD, EndPoint, ModelCard, Score, Source
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.metrics import resampled_scores
from molsepnorm.training import Callback

SMALL = {
    "layers": 3,
    "width": 16,
    "ffn_width": 24,
    "heads": 4,
    "max_degree": 3,
    "max_distance": 6,
    "max_path_length": 4,
    "outputs": 2,
}
"""Settings of a `GraphormerConfig`, with degrees, distances and paths that molecules exceed."""


def far_from_initial(config: GraphormerConfig) -> Graphormer:
    """A network whose every weight matters: random, of the order of one, norms included."""
    torch.manual_seed(0)
    model = Graphormer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.25)
        for module in model.modules():
            if isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm1d):
                module.weight.add_(1)
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def tiny_model(*targets: Target, seed: int = 0, **parts: Any) -> PropertyModel:
    """A model of one layer with random weights, for ZINC's features; y is the default target."""
    task = Task(targets or (Target("y", "regression"),), "loss")
    shape = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2, "max_path_length": 3}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Graphormer(GraphormerConfig(**shape, outputs=task.outputs))
    return PropertyModel.of(network, "zinc", task, **parts)


def predicted(model: PropertyModel, smiles: list[str]) -> np.ndarray:  # (n, T)
    """The predicted values of each molecule."""
    return np.array([list(each.values.values()) for each in Predictor(model).predict(smiles)])


def batch_of(graphs: list[MolGraph], config: GraphormerConfig, max_groups: int = 1) -> GraphBatch:
    """The molecules as a batch for a network of this architecture."""
    encoded = encode(graphs, encoding_of(config))
    return GraphTensors.of(encoded).cut(list(range(len(graphs))), max_groups)


def renumbered(graph: MolGraph, rng: np.random.Generator) -> MolGraph:
    """Return the molecule with its atoms, its bonds and each bond's ends in another order."""
    new = rng.permutation(graph.num_atoms)  # atom i becomes new[i]
    atoms = np.empty_like(graph.atom_features)
    atoms[new] = graph.atom_features
    order = rng.permutation(graph.num_bonds)
    bonds = rng.permuted(new[graph.bonds], axis=1)[order]
    bonds, bond_features = bonds.astype(np.int32), graph.bond_features[order]
    return MolGraph(atoms, bonds, bond_features, graph.features)


def same_graph(one: MolGraph, other: MolGraph) -> bool:
    """Return whether two graphs are equal but for the order of their atoms and bonds."""
    both = nx.Graph(), nx.Graph()
    for graph, found in zip((one, other), both, strict=True):
        for atom, features in enumerate(graph.atom_features.tolist()):
            found.add_node(atom, features=features)
        for ends, features in zip(graph.bonds, graph.bond_features.tolist(), strict=True):
            found.add_edge(*ends, features=features)
    return nx.is_isomorphic(*both, node_match=dict.__eq__, edge_match=dict.__eq__)


def spelling(smiles: str, seed: int) -> str:
    """Another SMILES of the same molecule."""
    mol = Chem.MolFromSmiles(smiles)
    order = list(range(mol.GetNumAtoms()))
    random.Random(seed).shuffle(order)
    return Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)


def with_marks(smiles: str, seed: int, mapped: bool) -> str:
    """The molecule with its hydrogens written out, and an atom-map number, or an isotope, at half
    of its atoms."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    chance = random.Random(seed)
    for atom in chance.sample(list(mol.GetAtoms()), k=(mol.GetNumAtoms() + 1) // 2):
        if mapped:
            atom.SetAtomMapNum(chance.randint(1, 99))
        else:
            atom.SetIsotope(2 * atom.GetAtomicNum() + 1)
    return Chem.MolToSmiles(mol, canonical=False)


def similarities(smiles: list[str], others: list[str]) -> np.ndarray:  # (n, m)
    """The Tanimoto similarity of each molecule to each of the others, by RDKit."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    one, other = (
        [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in texts]
        for texts in (smiles, others)
    )
    return np.array([DataStructs.BulkTanimotoSimilarity(each, other) for each in one])


REASON = "its labels are computed from descriptors that the model has learnt"


def write_model_with_card(folder: Path) -> ModelCard:
    """A tiny model without targets for ZINC's features, which excludes two data sets."""
    network = Graphormer(GraphormerConfig(**{**SMALL, "layers": 1, "outputs": 0}))
    PropertyModel.of(network, "zinc", Task((), "loss"), objective="pretraining").save_pretrained(
        folder
    )
    card = ModelCard(
        name=folder.name,
        version="1",
        description="A tiny network.",
        licence="MIT",
        sources=(Source("a list of alkanes", 30, "0" * 64), Source("ethers", 1200, "1" * 64)),
        objectives={"descriptors": 1.0, "fingerprint": 0.5},
        architecture="1 layer of width 16",
        parameters=sum(each.numel() for each in network.parameters()),
        hours=0.1,
        machine="1 CPU core",
        weights_sha256=weights_digest(folder),
        excludes={"zinc": REASON, "zinc-full": REASON},
        scores=(Score("esol", "rmse", "fine-tuned", 0.78, 0.02, 5),),
        end_points={
            "logS": EndPoint(
                title="Aqueous solubility",
                category="physical chemistry",
                unit="log10 mol/L",
                caution="Solids at 25 °C.",
                source="ESOL",
                licence="MIT",
                molecules=1128,
                good=(-4.0, None),
                tolerable=(-6.0, None),
                reference=(-9.0, -3.0, 1.0),
            )
        },
        reference="all molecules of ESOL",
    )
    (folder / CARD).write_text(json.dumps(asdict(card)), encoding="utf-8")
    return card


def write_card(folder: Path, *targets: str, **others: Any) -> ModelCard:
    """Write the card of a model, which has end points for these targets. Smaller values are better,
    unless other fields of the end points are given."""
    end_points = {
        name: EndPoint(
            **{
                "title": f"Title of {name}",
                "category": ("absorption", "toxicity")[number % 2],
                "unit": "mg/L",
                "caution": f"Caution about {name}.",
                "source": "A journal",
                "licence": "CC BY 4.0",
                "molecules": 24,
                "good": (None, 5.0),
                "tolerable": (None, 8.0),
                "reference": (0.0, 1.0),
                **others,
            }
        )
        for number, name in enumerate(targets)
    }
    card = ModelCard(
        name=folder.name,
        version="1",
        description="A tiny network.",
        licence="MIT",
        sources=(Source("alkanes", 30, "0" * 64),),
        objectives={"supervised": 1.0},
        architecture="1 layer",
        parameters=1,
        hours=0.1,
        machine="1 CPU core",
        weights_sha256=weights_digest(folder),
        excludes={},
        end_points=end_points,
        reference="three alkanes",
    )
    (folder / CARD).write_text(json.dumps(asdict(card)), encoding="utf-8")
    return card


class Page(HTMLParser):
    """The tags, the attributes and the text of an HTML page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def set_zinc_sizes(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]) -> None:
    """Let zinc-full have other numbers of molecules in its splits."""
    monkeypatch.setitem(zinc.SIZES, "zinc-full", sizes)


class Recorder(Callback):
    """Keeps the data set, the warnings, the records of the epochs, and the progress."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.records: list[Any] = []
        self.progress: list[tuple[int, int]] = []

    def on_start(self, config, dataset, model, folder):
        self.dataset = dataset

    def on_warning(self, message):
        self.warnings.append(message)

    def on_epoch(self, record, epochs):
        self.records.append(record)

    def on_progress(self, done, of):
        self.progress.append((done, of))


def of_targets(data: Dataset | Labels, field: str) -> tuple[Any, ...]:
    """Return a field, such as kind, of each target of a data set or of labels."""
    return tuple(getattr(target, field) for target in data.targets)


def score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """A metric of one target, of every molecule once."""
    once = np.ones((1, len(labels)), np.uint8)
    return float(resampled_scores(metric, labels, predictions, once)[0])
