"""Inference over many molecules: order, batches and the network's mode."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.observe import layer_embeddings
from molsepnorm.predict.inference import Precision, infer, pick_device

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


@pytest.mark.parametrize("batch_size", [1, 2, 4, 256])
def test_equals_one_molecule_at_a_time(
    model: Graphormer, tensors: GraphTensors, batch_size: int
) -> None:
    """In the order asked for, repeated and left-out molecules included, whatever the batches."""
    for graphs in (np.arange(9), np.array([4, 0, 8, 0, 7, 2]), np.array([5])):
        outputs = infer(model, tensors, graphs, batch_size)
        expected = one_by_one(model, tensors, graphs)
        assert (expected.amax(0) - expected.amin(0)).min() > 0.05 or len(graphs) == 1
        torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)


def test_something_else_can_be_asked_of_a_batch(model: Graphormer, tensors: GraphTensors) -> None:
    """A row for each molecule, of any shape, in the order asked for."""
    graphs = np.array([4, 0, 8, 0])
    rows = infer(model, tensors, graphs, batch_size=2, call=partial(layer_embeddings, model))
    with torch.no_grad():
        expected = layer_embeddings(model.eval(), tensors.cut(graphs))
    assert rows.shape == (4, 2, 3, 16)
    torch.testing.assert_close(rows, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_restored_and_nothing_is_trained(
    model: Graphormer, tensors: GraphTensors, training: bool
) -> None:
    """Inference runs in evaluation mode, leaves the mode and all state as they were."""
    model.train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    outputs = infer(model, tensors, np.arange(9), batch_size=4)
    assert all(module.training == training for module in model.modules())
    assert not outputs.requires_grad
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    torch.testing.assert_close(outputs, infer(model, tensors, np.arange(9), batch_size=4))


def test_the_mode_is_restored_after_an_error(tensors: GraphTensors) -> None:
    """A network that fails is not left in evaluation mode."""

    class Failing(nn.Module):
        def forward(self, batch: GraphBatch) -> Tensor:
            raise RuntimeError("out of memory")

    network = Failing().train()
    with pytest.raises(RuntimeError, match="out of memory"):
        infer(network, tensors, np.arange(3))
    assert network.training


def test_batches_hold_molecules_of_like_size(tensors: GraphTensors) -> None:
    """Every molecule is read once, in batches no larger than asked for, from small to large."""
    seen: list[GraphBatch] = []

    class Watching(nn.Module):
        def forward(self, batch: GraphBatch) -> Tensor:
            seen.append(batch)
            return torch.zeros(len(batch), 1)

    infer(Watching(), tensors, np.arange(9), batch_size=4)
    assert [len(batch) for batch in seen] == [4, 4, 1]
    slots = [batch.groups[0].slots for batch in seen]
    assert slots == sorted(slots)


def test_no_molecules(model: Graphormer, tensors: GraphTensors) -> None:
    """Nothing asked for, nothing given."""
    assert len(infer(model, tensors, np.zeros(0, dtype=np.int64))) == 0


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_precision(model: Graphormer, tensors: GraphTensors, precision: Precision) -> None:
    """bf16 is near fp32 and given as float32; on a CPU tf32 is fp32. torch's setting stays."""
    before = torch.get_float32_matmul_precision()
    exact = infer(model, tensors, np.arange(9))
    outputs = infer(model, tensors, np.arange(9), precision=precision)
    assert outputs.dtype == torch.float32
    assert torch.equal(outputs, exact) == (precision == "tf32")
    torch.testing.assert_close(outputs, exact, rtol=0.05, atol=0.15)
    assert torch.get_float32_matmul_precision() == before


def test_exact_products_whatever_the_program_asks_for(tensors: GraphTensors) -> None:
    """While the network runs, and only then; also where it fails."""
    seen = []

    class Watching(nn.Module):
        def forward(self, batch: GraphBatch) -> Tensor:
            seen.append(torch.get_float32_matmul_precision())
            raise RuntimeError("out of memory")

    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(RuntimeError, match="out of memory"):
            infer(Watching(), tensors, np.arange(3))
        assert seen == ["highest"]
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_device_of_a_name() -> None:
    """auto is what there is, another name is refused with those that are there."""
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ConfigError, match=r"there is no device 'cuda:99' here. .*cpu"):
        pick_device("cuda:99")
