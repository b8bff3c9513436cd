"""The local branch, readable and fast, against PyTorch Geometric's layer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.local import GINE, FastGINE
from molsepnorm.nn.pairs.neighbours import PairTensors, neighbours_of
from support import batch_of

WIDTH = 6
SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "c1ccc2ccccc2c1")


def some_batch(name: str, max_groups: int = 2) -> GraphBatch:
    featurizer = featurize.get(name)
    config = GraphormerConfig(atom_sizes=featurizer.atom_sizes, bond_sizes=featurizer.bond_sizes)
    return batch_of([featurizer(text) for text in SMILES], config, max_groups)


def some_layer(name: str, kind: type[GINE] = FastGINE) -> GINE:
    torch.manual_seed(0)
    layer = kind(WIDTH, featurize.get(name).bond_sizes).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def local(layer: GINE, x: Tensor, batch: GraphBatch) -> Tensor:
    pairs = PairTensors(bias=[], neighbours=neighbours_of(batch))
    return layer(torch.zeros_like(x), x, pairs, batch)


def by_geometric(layer: GINE, x: Tensor, batch: GraphBatch) -> Tensor:
    """The output of `GINEConv` with the same weights and a list of bonds.

    The embedding of a bond is the mean over its features."""
    table = neighbours_of(batch)
    target, place = (table.bonds > 0).nonzero(as_tuple=True)
    labels = table.bonds[target, place] - 1
    embeddings, divisor = torch.zeros(len(labels), WIDTH, dtype=x.dtype), 1
    for values in layer.bonds:
        embeddings = embeddings + values[labels // divisor % len(values)]
        divisor *= len(values)
    mlp = nn.Sequential(layer.mlp_in, nn.GELU(), layer.mlp_out)
    conv = GINEConv(copy.deepcopy(mlp), train_eps=True)
    conv.nn = mlp  # with the same weights
    conv.eps = nn.Parameter(layer.epsilon.detach().clone())
    bonds = torch.stack([table.slots[target, place], target])
    return conv(x, bonds, embeddings / len(layer.bonds)) * batch.mask[:, None]


@pytest.mark.claim(
    "GINE equals PyTorch Geometric's GINEConv, gradients included, and repeats bit for bit. "
    "The neighbour tables contain exactly the bonds."
)
@pytest.mark.parametrize("kind", [GINE, FastGINE])
@pytest.mark.parametrize("name", ["zinc", "ogb"])
def test_gine_equals_that_of_pytorch_geometric(name: str, kind: type[GINE]) -> None:
    """Outputs, and gradients of the input and the bond embeddings."""
    layer, batch = some_layer(name, kind), some_batch(name)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64, requires_grad=True)
    wanted = [x, *layer.bonds, layer.mlp_in.weight]
    results = []
    for y in (local(layer, x, batch), by_geometric(layer, x, batch)):
        results.append([y, *torch.autograd.grad(y.square().sum(), wanted)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("smiles", [SMILES, ("C", "[Na+].[Cl-]")])
def test_gine_without_gradients_equals_the_plain_layer(smiles: tuple[str, ...]) -> None:
    """Entries without a bond are left out; in the second batch there are no others."""
    featurizer = featurize.get("ogb")
    sizes = {"atom_sizes": featurizer.atom_sizes, "bond_sizes": featurizer.bond_sizes}
    batch = batch_of([featurizer(text) for text in smiles], GraphormerConfig(**sizes), max_groups=2)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64)
    plain = local(some_layer("ogb", GINE), x, batch)
    with torch.no_grad():
        fast = local(some_layer("ogb", FastGINE), x, batch)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)


def test_gine_gradients_equal_finite_differences() -> None:
    """Gradients of the input, the bond embeddings and ε."""
    layer, batch = some_layer("zinc"), some_batch("zinc")
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64, requires_grad=True)

    def loss(x: Tensor, *_: Tensor) -> Tensor:
        return local(layer, x, batch)

    assert torch.autograd.gradcheck(loss, (x, *layer.bonds, layer.epsilon))


def test_gine_is_zero_at_graph_tokens_and_padding() -> None:
    """Their inputs have no effect either."""
    layer, batch = some_layer("zinc"), some_batch("zinc", max_groups=1)
    x = torch.randn(len(batch.mask), WIDTH, dtype=torch.float64)
    y = local(layer, x, batch)
    assert not y[~batch.mask].any()
    assert y[batch.mask].any(dim=1).all()
    noisy = torch.where(batch.mask[:, None], x, 99.0)
    torch.testing.assert_close(local(layer, noisy, batch), y, rtol=0, atol=0)


def test_gine_gradients_repeat_bit_by_bit() -> None:
    layer, batch = some_layer("ogb").float(), some_batch("ogb")
    x = torch.randn(len(batch.mask), WIDTH, requires_grad=True)
    first, second = (
        torch.autograd.grad(local(layer, x, batch).sum(), [x, *layer.bonds]) for _ in range(2)
    )
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
