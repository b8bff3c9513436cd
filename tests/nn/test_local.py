"""The local branch against PyTorch Geometric's, and its gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from support import batch_of
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.local import GINE
from molsepnorm.nn.pairs.neighbours import neighbours_of

WIDTH = 6
SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "c1ccc2ccccc2c1")


def some_batch(name: str, blocks: int = 2) -> GraphBatch:
    featurizer = featurize.get(name)
    config = GraphormerConfig(atom_sizes=featurizer.atom_sizes, bond_sizes=featurizer.bond_sizes)
    return batch_of([featurizer(text) for text in SMILES], config, blocks)


def some_layer(name: str) -> GINE:
    torch.manual_seed(0)
    layer = GINE(WIDTH, featurize.get(name).bond_sizes).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def by_geometric(layer: GINE, x: Tensor, batch: GraphBatch) -> Tensor:
    """What `GINEConv` makes of the same weights and a list of bonds; bonds of several features
    get the mean of their embeddings."""
    table = neighbours_of(batch)
    target, place = (table.bonds > 0).nonzero(as_tuple=True)
    labels = table.bonds[target, place] - 1
    embeddings, divisor = torch.zeros(len(labels), WIDTH, dtype=x.dtype), 1
    for values in layer.bonds:
        embeddings = embeddings + values[labels // divisor % len(values)]
        divisor *= len(values)
    mlp = nn.Sequential(layer.mlp_in, nn.GELU(), layer.mlp_out)
    conv = GINEConv(copy.deepcopy(mlp), train_eps=True)
    conv.nn = mlp  # not drawn anew
    conv.eps = nn.Parameter(layer.epsilon.detach().clone())
    bonds = torch.stack([table.slots[target, place], target])
    return conv(x, bonds, embeddings / len(layer.bonds)) * batch.mask[:, None]


@pytest.mark.parametrize("name", ["zinc", "ogb"])
def test_equals_geometrics(name: str) -> None:
    """Outputs, and gradients by input and bonds."""
    layer, batch = some_layer(name), some_batch(name)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64, requires_grad=True)
    wanted = [x, *layer.bonds, layer.mlp_in.weight]
    results = []
    for y in (layer(x, neighbours_of(batch), batch.mask), by_geometric(layer, x, batch)):
        results.append([y, *torch.autograd.grad(y.square().sum(), wanted)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients() -> None:
    """Of input, bonds' embeddings and ε, against finite differences."""
    layer, batch = some_layer("zinc"), some_batch("zinc")
    table = neighbours_of(batch)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64, requires_grad=True)

    def loss(x: Tensor, *_: Tensor) -> Tensor:
        return layer(x, table, batch.mask)

    assert torch.autograd.gradcheck(loss, (x, *layer.bonds, layer.epsilon))


def test_slots_without_an_atom_get_nothing() -> None:
    """Neither graph tokens nor padding take part, whatever stands there."""
    layer, batch = some_layer("zinc"), some_batch("zinc", blocks=1)
    table = neighbours_of(batch)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64)
    y = layer(x, table, batch.mask)
    assert not y[~batch.mask].any()
    assert y[batch.mask].any(dim=1).all()
    noisy = torch.where(batch.mask[:, None], x, 99.0)
    torch.testing.assert_close(layer(noisy, table, batch.mask), y, rtol=0, atol=0)


def test_a_repeated_gradient_has_the_same_bits() -> None:
    """Nothing is added up in an order that chance decides."""
    layer, batch = some_layer("ogb").float(), some_batch("ogb")
    x = torch.randn(len(batch.mask), WIDTH, requires_grad=True)
    first, second = (
        torch.autograd.grad(layer(x, neighbours_of(batch), batch.mask).sum(), [x, *layer.bonds])
        for _ in range(2)
    )
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
