"""Random walks and resistances against dense linear algebra, and what is made of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from support import batch_of

from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.pairs.walks import (
    PairBias,
    ResistanceKernels,
    WalkEncoding,
    resistances,
    walk_probabilities,
)

SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "C12C3C4C1C5C2C3C45", "c1ccc2ccccc2c1")
STEPS = 5


def graphs() -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in SMILES]


def some_batch(blocks: int = 1) -> GraphBatch:
    return batch_of(graphs(), GraphormerConfig(), blocks)


def molecule(graph: MolGraph) -> nx.Graph:
    atoms = nx.empty_graph(graph.num_atoms)
    atoms.add_edges_from(graph.bonds.tolist())
    return atoms


def _encoding() -> WalkEncoding:
    """An encoding after training; it begins as 0."""
    encoding = WalkEncoding(STEPS, 4)
    assert not any(parameter.any() for parameter in encoding.parameters())
    torch.manual_seed(0)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def test_walk_probabilities() -> None:
    """Powers of the transition matrix, atom by atom; nothing elsewhere."""
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


def test_walks_of_fragments_stay_there() -> None:
    """All probability is somewhere in the fragment, after every number of steps."""
    batch = batch_of([featurize.get("zinc")("CC.CCO")], GraphormerConfig())
    (walks,) = walk_probabilities(batch, steps=9)
    torch.testing.assert_close(walks[0, 1:3, 1:3].sum(1), torch.ones(2, 10))
    torch.testing.assert_close(walks[0, 3:6, 3:6].sum(1), torch.ones(3, 10))
    assert not walks[0, 1:3, 3:6].any()


def test_resistances() -> None:
    """Those of networkx within a fragment, 0 elsewhere; a single bond has 1."""
    batch = some_batch()
    (found,) = resistances(batch, torch.float64)
    for square, graph in zip(found[batch.order].numpy(), graphs(), strict=True):
        expected = np.zeros(square.shape)
        whole = molecule(graph)
        for fragment in nx.connected_components(whole):
            part = whole.subgraph(fragment)
            for i in fragment:
                for j in fragment - {i}:
                    expected[i + 1, j + 1] = nx.resistance_distance(part, i, j)
        np.testing.assert_allclose(square, expected, atol=1e-10)


def test_resistances_of_long_chains_in_single_precision() -> None:
    """A chain's are its distances, also of 60 atoms, where the matrix is badly conditioned."""
    chain = batch_of([featurize.get("zinc")("C" * 60)], GraphormerConfig(max_distance=60))
    (found,) = resistances(chain)
    places = torch.arange(60.0)
    torch.testing.assert_close(
        found[0, 1:, 1:], (places[:, None] - places).abs(), rtol=0, atol=2e-2
    )


@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_do_not_matter(blocks: int) -> None:
    """What an atom's walks and resistances are does not depend on padding."""
    one, several = some_batch(), some_batch(blocks)
    encoding = _encoding()
    results = []
    for batch in (one, several):
        walks = walk_probabilities(batch, STEPS)
        atoms = encoding(walks, batch.mask)
        sums = [each.sum((1, 2)).flatten(1) for each in walks]
        ohms = torch.cat([each.sum((1, 2)) for each in resistances(batch)])
        order = batch.order
        results.append(
            [
                torch.cat([atoms[token + 1] for token in batch.graph_token]),
                torch.cat(sums)[order],
                ohms[order],
            ]
        )
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


def test_walk_encoding_reads_the_returns() -> None:
    """The diagonals of the powers 1 to K, times 40 and 10 in turn, through a linear map."""
    batch = some_batch(2)
    encoding = _encoding()
    walks = walk_probabilities(batch, STEPS + 2)  # more than it reads
    returns = torch.cat([each.diagonal(dim1=1, dim2=2).mT.flatten(0, 1) for each in walks])
    returns = returns[batch.mask][:, 1 : STEPS + 1]
    y = encoding(walks, batch.mask)
    scaled = returns * torch.tensor([40.0, 10.0, 40.0, 10.0, 40.0])
    torch.testing.assert_close(y[batch.mask], encoding.linear(scaled))
    assert not y[~batch.mask].any()


def _with_batch_norm(seed: int, constant: list[int]) -> dict[str, torch.Tensor]:
    """The state of a `WalkEncoding` of the past; these channels did not vary in training."""
    torch.manual_seed(seed)
    variance = torch.rand(STEPS) * 1e-2 + 1e-6
    variance[constant] = 0
    mean = torch.rand(STEPS).index_fill(0, torch.tensor(constant, dtype=torch.long), 0)
    return {
        "norm.weight": torch.randn(STEPS),
        "norm.bias": torch.randn(STEPS),
        "norm.running_mean": mean,
        "norm.running_var": variance,
        "norm.num_batches_tracked": torch.tensor(3),
        "linear.weight": torch.randn(4, STEPS),
        "linear.bias": torch.randn(4),
    }


@pytest.mark.parametrize("constant", [[], [0, 2, 4]])
def test_a_network_with_a_batch_norm_here_is_converted(constant: list[int]) -> None:
    """It gives the encoding of the batch norm and linear map; constant channels have weight 0."""
    old = _with_batch_norm(0, constant)
    encoding = WalkEncoding(STEPS, 4)
    encoding.load_state_dict(dict(old))
    batch = some_batch()
    walks = walk_probabilities(batch, STEPS)
    returns = walks[0].diagonal(dim1=1, dim2=2).mT.flatten(0, 1)[:, 1:][batch.mask]
    returns[:, constant] = 0
    y = (returns - old["norm.running_mean"]) / (old["norm.running_var"] + 1e-5).sqrt()
    y = y * old["norm.weight"] + old["norm.bias"]
    expected = torch.nn.functional.linear(y, old["linear.weight"], old["linear.bias"])
    found = encoding(walks, batch.mask)[batch.mask]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert set(encoding.state_dict()) == {"linear.weight", "linear.bias"}


def test_rings_that_training_lacked_stay_bounded() -> None:
    """Odd rings have no effect if no training molecule had one."""
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
    encoding = network.walk_encoding
    assert encoding.linear.weight[:, 1::2].all()
    assert not encoding.linear.weight[:, 0::2].any()
    sizes = [
        encoding(walk, batch.mask)[batch.mask].abs().max()
        for walk, batch in zip(walks, (even, odd), strict=True)
    ]
    assert sizes[1] < 2 * sizes[0]


def test_kernels() -> None:
    """Gaussians: 1 at the centre, exp(-1/2) one width away; both are learned."""
    kernels = ResistanceKernels(5)
    centres, widths = kernels.centres.detach(), kernels.widths.detach()
    assert centres[0] == 0
    assert (centres.diff() > 0).all()
    torch.testing.assert_close(kernels(centres).diagonal(), torch.ones(5))
    torch.testing.assert_close(kernels(centres + widths).diagonal(), torch.full((5,), 0.6065307))
    kernels(torch.rand(3, 4)).sum().backward()
    assert kernels.centres.grad is not None
    assert kernels.widths.grad is not None


@pytest.mark.parametrize("hidden", [0, 7])
def test_pair_bias(hidden: int) -> None:
    """A linear map, or two with a GELU, pair by pair, heads in front."""
    bias = PairBias(3, hidden, heads=2)
    features = [torch.randn(2, 4, 4, 3), torch.randn(1, 6, 6, 3)]
    for found, each in zip(bias(features), features, strict=True):
        inner = each if bias.inner is None else torch.nn.functional.gelu(bias.inner(each))
        expected = torch.einsum("gijf,hf->hgij", inner, bias.outer.weight)
        expected = expected + bias.outer.bias[:, None, None, None]
        torch.testing.assert_close(found, expected)
