"""Random walks against dense linear algebra, and the maps that read them."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.embedding import WalkEncoding
from molsepnorm.nn.pairs.encoding import PairBias, walk_probabilities
from support import batch_of

SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "C12C3C4C1C5C2C3C45", "c1ccc2ccccc2c1")
STEPS = 5


def graphs() -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in SMILES]


def some_batch(max_groups: int = 1) -> GraphBatch:
    return batch_of(graphs(), GraphormerConfig(), max_groups)


def molecule(graph: MolGraph) -> nx.Graph:
    atoms = nx.empty_graph(graph.num_atoms)
    atoms.add_edges_from(graph.bonds.tolist())
    return atoms


@pytest.mark.claim("Random-walk probabilities are powers of D⁻¹A. Padding has no influence.")
def test_walk_probabilities_are_powers_of_the_transition_matrix() -> None:
    """They are 0 outside of the atoms."""
    batch = some_batch()
    (walks,) = walk_probabilities(batch, STEPS, torch.float64)
    assert walks.shape[-1] == STEPS + 1
    for found, graph in zip(walks[batch.order].numpy(), graphs(), strict=True):
        bonded = nx.to_numpy_array(molecule(graph))
        step = bonded / np.maximum(bonded.sum(1, keepdims=True), 1)
        atoms = slice(1, graph.num_atoms + 1)
        for power in range(STEPS + 1):
            expected = np.zeros(found.shape[:2])
            expected[atoms, atoms] = np.linalg.matrix_power(step, power)
            np.testing.assert_allclose(found[..., power], expected, atol=1e-12)


def test_pair_bias_is_a_linear_map() -> None:
    bias = PairBias(3, heads=2)
    features = [torch.randn(2, 4, 4, 3), torch.randn(1, 6, 6, 3)]
    for found, each in zip(bias(features), features, strict=True):
        expected = torch.einsum("gijf,hf->hgij", each, bias.outer.weight)
        expected = expected + bias.outer.bias[:, None, None, None]
        torch.testing.assert_close(found, expected)


def encode_atoms(encoding: WalkEncoding, walks: Sequence[Tensor], batch: GraphBatch) -> Tensor:
    return encoding(torch.zeros(1), walks, batch.mask)


def _encoding() -> WalkEncoding:
    """An encoding with random weights; new ones are 0."""
    encoding = WalkEncoding(STEPS, 4)
    assert not any(parameter.any() for parameter in encoding.parameters())
    torch.manual_seed(0)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def test_walk_encoding_is_a_linear_map_of_return_probabilities() -> None:
    """The diagonals of the powers 1 to W, multiplied by 40 and 10 in turn."""
    batch = some_batch(2)
    encoding = _encoding()
    walks = walk_probabilities(batch, STEPS + 2)  # more steps than it reads
    returns = torch.cat([each.diagonal(dim1=1, dim2=2).mT.flatten(0, 1) for each in walks])
    returns = returns[batch.mask][:, 1 : STEPS + 1]
    y = encode_atoms(encoding, walks, batch)
    scaled = returns * torch.tensor([40.0, 10.0, 40.0, 10.0, 40.0])
    torch.testing.assert_close(y[batch.mask], encoding.linear(scaled))
    assert not y[~batch.mask].any()


def test_odd_rings_have_no_effect_if_training_had_none() -> None:
    config = GraphormerConfig(layers=2, width=16, heads=2, node_walks=6, init="xavier")
    torch.manual_seed(0)
    network = Graphormer(config).train()
    zinc = featurize.get("zinc")
    even = batch_of([zinc(text) for text in ("CCO", "C1CCCCC1", "CCCC", "C1CCC1C")], config)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        (network(even) - torch.tensor([[0.0], [1.0], [2.0], [3.0]])).square().mean().backward()
        optimizer.step()
    network.eval()
    odd = batch_of([zinc(text) for text in ("C1CCCC1", "C1CC1", "C1CCCCCC1")], config)
    walks = [walk_probabilities(batch, 6) for batch in (even, odd)]
    encoding = network.embedding.walk_encoding
    assert encoding.linear.weight[:, 1::2].all()
    assert not encoding.linear.weight[:, 0::2].any()
    sizes = [
        encode_atoms(encoding, walk, batch)[batch.mask].abs().max()
        for walk, batch in zip(walks, (even, odd), strict=True)
    ]
    assert sizes[1] < 2 * sizes[0]
