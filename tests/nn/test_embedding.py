"""The atom embedding against a plain loop."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.nn import GraphBatch
from molsepnorm.nn.embedding import AtomEmbedding

WIDTH, MAX_DEGREE = 5, 2
SMILES = ("CC(C)(C)O", "C", "c1ccccc1", "CC(=O)[O-].C[NH3+]")


def some_batch(name: str, blocks: int) -> GraphBatch:
    featurizer = featurize.get(name)
    spec = EncodingSpec(featurizer.bond_sizes, max_degree=MAX_DEGREE)
    encoded = encode([featurizer(smiles) for smiles in SMILES], spec)
    return GraphTensors.of(encoded).cut([2, 0, 3, 1], blocks)


def some_embedding(name: str) -> AtomEmbedding:
    torch.manual_seed(0)
    embedding = AtomEmbedding(WIDTH, featurize.get(name).atom_sizes, MAX_DEGREE)
    with torch.no_grad():
        for parameter in embedding.parameters():
            parameter.normal_()
    return embedding


@pytest.mark.parametrize("name", ["zinc", "ogb"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_equals_a_plain_loop(name: str, blocks: int) -> None:
    """Atom by atom the sum of its features' vectors, each from its own table, and its degree's;
    the token's vector at every graph token; zero at padding."""
    featurizer = featurize.get(name)
    embedding, batch = some_embedding(name), some_batch(name, blocks)
    tables = embedding.atoms.split(list(featurizer.atom_sizes))
    y = embedding(batch)

    expected = torch.zeros(sum(block.graphs * block.slots for block in batch.blocks), WIDTH)
    graphs = [featurizer(SMILES[index]) for index in (2, 0, 3, 1)]
    for first, graph in zip(batch.graph_token.tolist(), graphs, strict=True):
        expected[first] = embedding.graph_token
        for atom, features in enumerate(graph.atom_features.tolist()):
            slot = first + 1 + atom
            for table, feature in zip(tables, features, strict=True):
                expected[slot] += table[feature]
            degree = sum(atom in bond for bond in graph.bonds.tolist())
            expected[slot] += embedding.degrees[min(degree, MAX_DEGREE)]
    torch.testing.assert_close(y, expected)

    padding = ~batch.mask
    padding[batch.graph_token] = False
    assert padding.any()
    assert not y[padding].any()


def test_every_graph_token_is_the_same_vector() -> None:
    """Before the first layer a graph token knows nothing of its graph."""
    embedding, batch = some_embedding("zinc"), some_batch("zinc", 2)
    tokens = embedding(batch)[batch.graph_token]
    torch.testing.assert_close(tokens, embedding.graph_token.expand(len(SMILES), -1))


def test_gradients_reach_what_is_used_and_nothing_else() -> None:
    """Padding and graph tokens, whose features read 0, add nothing to row 0 of the tables."""
    embedding, batch = some_embedding("zinc"), some_batch("zinc", 1)
    embedding(batch).sum().backward()
    counts = torch.zeros(28)
    for smiles in SMILES:
        for feature in featurize.get("zinc")(smiles).atom_features[:, 0].tolist():
            counts[feature] += 1
    torch.testing.assert_close(embedding.atoms.grad[:, 0], counts)
    torch.testing.assert_close(embedding.graph_token.grad, torch.full((WIDTH,), 4.0))
    # no atom but that of methane has degree 0
    assert embedding.degrees.grad[0, 0] == 1


def test_the_first_rows_are_no_weights() -> None:
    """Where a feature's table begins follows from the sizes and is not kept in a file."""
    embedding = some_embedding("ogb")
    assert set(embedding.state_dict()) == {"atoms", "degrees", "graph_token"}
    assert embedding.get_buffer("first_rows").tolist() == [
        0,
        119,
        124,
        136,
        148,
        158,
        164,
        170,
        172,
    ]


def test_atoms_with_another_number_of_features_are_refused() -> None:
    """One feature would be taken for all nine: it would broadcast."""
    with pytest.raises(ConfigError, match=r"network reads 9 features of each atom, .* batch has 1"):
        some_embedding("ogb")(some_batch("zinc", 1))
