"""Inference over many molecules: order, batches and the network's mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from molsepnorm.data.batching import GraphTensors
from molsepnorm.model.parts import network
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import infer

SMILES = (
    "CCCCCCCCO",
    "C",
    "c1ccc2ccccc2c1",
    "CC(=O)[O-].C[NH3+]",
    "C1CC2CCC1C2",
    "CCO",
    "N#Cc1ccccc1",
    "O",
    "CC(C)(C)C",
)


@pytest.fixture(scope="module")
def tensors() -> GraphTensors:
    zinc = featurize.get("zinc")
    return GraphTensors.of(encode([zinc(smiles) for smiles in SMILES], EncodingSpec((3,))))


@pytest.fixture(scope="module")
def model() -> Graphormer:
    """Random weights of the order of one, and running statistics unlike any batch's."""
    torch.manual_seed(0)
    model = Graphormer(GraphormerConfig(layers=2, width=16, ffn_width=16, heads=4, outputs=2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
    return model


def one_by_one(model: Graphormer, tensors: GraphTensors, graphs: np.ndarray) -> Tensor:
    model.eval()
    with torch.no_grad():
        return torch.cat([model(tensors.cut([int(graph)])) for graph in graphs])


@pytest.mark.claim("Predictions keep the order of the input and have the labels' units.")
@pytest.mark.parametrize("batch_size", [4, 256])
def test_batches_give_the_outputs_of_single_molecules(
    model: Graphormer, tensors: GraphTensors, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the order of the indices, which may repeat or leave out molecules."""
    monkeypatch.setitem(network._LIMITS, "cpu", (batch_size, network._LIMITS["cpu"][1]))
    for graphs in (np.arange(9), np.array([4, 0, 8, 0, 7, 2]), np.array([5])):
        outputs = infer(model, tensors, graphs)
        expected = one_by_one(model, tensors, graphs)
        assert (expected.amax(0) - expected.amin(0)).min() > 0.05 or len(graphs) == 1
        torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored_and_nothing_is_trained(
    model: Graphormer, tensors: GraphTensors, training: bool
) -> None:
    """Inference runs in evaluation mode, leaves the mode and all state as they were."""
    model.train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    outputs = infer(model, tensors, np.arange(9))
    assert all(module.training == training for module in model.modules())
    assert not outputs.requires_grad
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    torch.testing.assert_close(outputs, infer(model, tensors, np.arange(9)))
