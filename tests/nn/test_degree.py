"""The degree scaler against a loop over atoms."""

from __future__ import annotations

from math import log

import pytest
import torch
from support import batch_of

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.degree import DegreeScaler

WIDTH, MAX_DEGREE = 5, 3
SMILES = ("CC(C)(C)O", "C", "c1ccccc1", "CC(=O)[O-].C[NH3+]")
CONFIG = GraphormerConfig(layers=1, width=8, heads=2, max_degree=MAX_DEGREE)


def some_batch(blocks: int = 1) -> GraphBatch:
    return batch_of([featurize.get("zinc")(smiles) for smiles in SMILES], CONFIG, blocks)


def some_scaler() -> DegreeScaler:
    torch.manual_seed(0)
    scaler = DegreeScaler(WIDTH).double()
    with torch.no_grad():
        for parameter in scaler.parameters():
            parameter.normal_()
    return scaler


@pytest.mark.parametrize("blocks", [1, 2])
@torch.no_grad()
def test_degree_scaler_equals_a_loop_over_atoms(blocks: int) -> None:
    """The graph token, padding and an atom without bonds are scaled alike. A degree of 4 counts as
    3, the largest."""
    scaler, batch = some_scaler(), some_batch(blocks)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64)
    y = scaler(x, batch)
    graphs = [featurize.get("zinc")(smiles) for smiles in SMILES]
    expected = x * (1 + scaler.plain)
    seen = set()
    for first, graph in zip(batch.graph_token.tolist(), graphs, strict=True):
        for atom in range(graph.num_atoms):
            degree = min(sum(atom in bond for bond in graph.bonds.tolist()), MAX_DEGREE)
            seen.add(degree)
            for channel in range(WIDTH):
                factor = 1 + scaler.plain[channel] + log(1 + degree) * scaler.by_degree[channel]
                slot = first + 1 + atom
                expected[slot, channel] = x[slot, channel] * factor
    assert seen == {0, 1, 2, 3}
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


def test_a_new_scaler_is_the_identity() -> None:
    batch = some_batch()
    x = torch.randn(len(batch.mask), WIDTH)
    assert torch.equal(DegreeScaler(WIDTH)(x, batch), x)


def test_gradcheck() -> None:
    """Gradients of x and both parameters equal finite differences."""
    scaler, batch = some_scaler(), some_batch()
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64, requires_grad=True)
    inputs = (x, *scaler.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: scaler(x, batch), inputs)
    assert all(grad.any() for grad in torch.autograd.grad(scaler(x, batch).sum(), inputs))


def test_bfloat16_is_scaled_in_float32() -> None:
    """The residual stream is float32 under autocast, too."""
    scaler, batch = some_scaler().float(), some_batch()
    x = torch.randn(len(batch.mask), WIDTH).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = scaler(x, batch)
    assert torch.equal(y, scaler(x.float(), batch))


def test_the_initialisation_of_a_network_resets_degree_scalers() -> None:
    """Their parameters are not drawn at random."""
    model, scaler = Graphormer(CONFIG), DegreeScaler(WIDTH)
    model.add_module("scaler", scaler)
    model.reset_parameters()
    assert not any(parameter.any() for parameter in scaler.parameters())
