"""Predictors whose every part matters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from explained import CELLS, DRUGS, INPUTS, TASK, network

from molsepnorm.forest import Forest
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.featurize.descriptors import structure_inputs
from molsepnorm.predict import Predictor


@pytest.fixture(scope="session")
def plain() -> Predictor:
    """One network without further inputs."""
    return Predictor(PropertyModel(network(readout="token+mean"), "ogb", TASK))


@pytest.fixture(scope="session")
def whole() -> Predictor:
    """Two networks and a forest. The second network reads all inputs."""
    rng = np.random.default_rng(0)
    structures = structure_inputs(DRUGS * 4, True, INPUTS.descriptors, paired=True)
    cells, _ = INPUTS.encode_columns([each * 4 for each in CELLS.values()], len(DRUGS) * 4)
    features = np.concatenate([cells, structures], axis=1)
    labels = rng.integers(0, 2, (len(features), 4)).astype(float)
    forest = Forest.fit(features[:, : -INPUTS.pairs], labels, TASK, trees=5)
    reader = network(molecule_features=INPUTS.width, readout="token")
    reader.molecule_features.fit(torch.from_numpy(features))
    with torch.no_grad():
        reader.head.weight[:, -INPUTS.width :] *= 0.05
    return Predictor(
        PropertyModel(
            *(network(), "ogb", TASK),
            inputs=INPUTS,
            partners=(reader,),
            weights=(0.25, 0.75),
            forests=(forest,),
            forest_share=0.4,
        )
    )
