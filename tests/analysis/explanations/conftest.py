"""Predictors whose every part matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from explained import CELLS, DRUGS, INPUTS, TASK, network
from molsepnorm.model import ExtraArrays, PropertyModel
from molsepnorm.model.parts import Forest, NetworkPart
from molsepnorm.molecules.featurize.descriptors import structure_inputs
from molsepnorm.predict import Predictor


@pytest.fixture(scope="session")
def plain() -> Predictor:
    """One network without further inputs."""
    return Predictor(PropertyModel.of(network(readout="token+mean"), "ogb", TASK))


@pytest.fixture(scope="session")
def whole() -> Predictor:
    """Two networks and a forest. The second network reads all inputs."""
    rng = np.random.default_rng(0)
    cells, _ = INPUTS.encode_columns([each * 4 for each in CELLS.values()], len(DRUGS) * 4)
    extra = ExtraArrays(*structure_inputs(DRUGS * 4, True, INPUTS.descriptors, True), cells)
    labels = rng.integers(0, 2, (len(cells), 4)).astype(float)
    reads = replace(INPUTS, pairs=0)
    forest = Forest.fit(reads, extra.read_by(reads).stacked(), labels, TASK, trees=5)
    reader = network(molecule_features=INPUTS.width, readout="token", columns=3)
    reader.molecule_features.fit(torch.from_numpy(extra.stacked()))
    with torch.no_grad():
        reader.head.weight[:, -INPUTS.width :] *= 0.05
        reader.head.interactions.zero_()
    parts = NetworkPart(network()), NetworkPart(reader, INPUTS), forest
    return Predictor(PropertyModel(parts, "ogb", TASK, weights=(0.15, 0.45, 0.4)))
