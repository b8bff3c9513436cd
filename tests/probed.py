"""Helpers for the tests of `training.probe`: small molecules, random networks, embeddings."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from molsepnorm.model import ExtraArrays, Inputs, PropertyModel
from molsepnorm.model.parts import KernelPart, infer
from molsepnorm.model.parts.kernel import compared
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe.ridge import LinearModel, principal_axes

ENDS = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1", "Cl", "F")
SMILES = [f"{'C' * length}{end}" for length in range(1, 7) for end in ENDS]
TRAIN = np.arange(40)
SMALL = {"layers": 2, "width": 8, "ffn_width": 8, "heads": 2, "max_path_length": 2}


def regression(name: str, labels: np.ndarray) -> Target:
    return Target(name, "regression").fitted(labels[TRAIN])


def start(*targets: Target, **config) -> PropertyModel:
    """A random network whose embeddings differ between molecules."""
    task = Task(targets, "loss")
    torch.manual_seed(0)
    network = Graphormer(
        GraphormerConfig(**{**SMALL, "init": "xavier", **config}, outputs=task.outputs)
    )
    return PropertyModel.of(network.eval(), "zinc", task)


def examples(
    model: PropertyModel,
    labels: np.ndarray,
    weights: np.ndarray | None = None,
    **extra: np.ndarray,
) -> Examples:
    """All molecules, with arrays of `ExtraArrays` by name."""
    encoded = encode([featurize.get("zinc")(each) for each in SMILES], model.encoding)
    columns = torch.from_numpy(labels.astype(np.float32).reshape(len(SMILES), -1))
    given = None
    if weights is not None:  # (G,) or (G, T)
        given = torch.from_numpy(weights.astype(np.float32)).reshape(len(SMILES), -1)
        given = given.expand_as(columns)
    inputs = Inputs.of(encoded, ExtraArrays.none(len(SMILES))._replace(**extra))
    alone = SimpleNamespace(together=np.arange(len(SMILES)))
    return Examples(inputs, model.graphs(inputs), columns, given, {}, alone)


def outputs(model: PropertyModel, given: Examples) -> np.ndarray:
    every, (part,) = np.arange(len(SMILES)), model.parts
    if not isinstance(part, KernelPart):
        return infer(model.network, given.graphs, every).double().numpy()
    embedded = infer(part.network, given.inputs.graphs, every, call=part.network.embed_layers)
    extra = compared(given.inputs.extra.read_by(part.reads))
    return part.regression(embedded, *extra).double().numpy()


def standardised(model: PropertyModel, given: Examples) -> np.ndarray:
    """The embeddings of all molecules, by mean and deviation of the training molecules."""
    graphs, network = model.graphs(given.inputs), model.network
    call = network.embed_layers if model.compares else network.embed
    read = infer(network, graphs, np.arange(len(SMILES)), call=call)
    read = read.double().numpy()
    scale = read[TRAIN].std(0)
    scale[scale < 1e-6] = 1
    return (read - read[TRAIN].mean(0)) / scale


def some_labels(random: np.random.Generator) -> np.ndarray:
    return np.array([text.count("C") for text in SMILES]) + random.normal(size=len(SMILES)) / 4


def ridge_of(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> LinearModel:
    return principal_axes(features, weights)(labels, groups)
