"""The atom embedding against a plain loop."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.parts import FAST
from support import batch_of

WIDTH, MAX_DEGREE = 5, 2
SMILES = ("CC(C)(C)O", "C", "c1ccccc1", "CC(=O)[O-].C[NH3+]")


def config_of(name: str) -> GraphormerConfig:
    return GraphormerConfig(
        width=WIDTH,
        heads=1,
        atom_sizes=SIZES[name].atoms,
        bond_sizes=SIZES[name].bonds,
        max_degree=MAX_DEGREE,
        dropout=0.0,
    )


def some_batch(name: str, max_groups: int) -> GraphBatch:
    featurizer = featurize.get(name)
    graphs = [featurizer(SMILES[index]) for index in (2, 0, 3, 1)]
    return batch_of(graphs, config_of(name), max_groups)


def some_embedding(name: str) -> AtomEmbedding:
    torch.manual_seed(0)
    embedding = AtomEmbedding(config_of(name), FAST)
    with torch.no_grad():
        for parameter in embedding.parameters():
            parameter.normal_()
    return embedding


@pytest.mark.parametrize("name", ["zinc", "ogb"])
@pytest.mark.parametrize("max_groups", [1, 2])
def test_embedding_equals_a_loop_over_atoms(name: str, max_groups: int) -> None:
    """An atom is the sum of its features' and its degree's embeddings. Every graph token has the
    token's vector, and padding is 0."""
    featurizer = featurize.get(name)
    embedding, batch = some_embedding(name), some_batch(name, max_groups)
    tables = embedding.atoms.split(list(featurizer.atom_sizes))
    y = embedding(batch)

    expected = torch.zeros(sum(group.graphs * group.slots for group in batch.groups), WIDTH)
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


def test_only_rows_of_real_atoms_have_gradients() -> None:
    """The features of padding and graph tokens are 0, but row 0 gets no gradient from them."""
    embedding, batch = some_embedding("zinc"), some_batch("zinc", 1)
    embedding(batch).sum().backward()
    counts = torch.zeros(28)
    for smiles in SMILES:
        for feature in featurize.get("zinc")(smiles).atom_features[:, 0].tolist():
            counts[feature] += 1
    torch.testing.assert_close(embedding.atoms.grad[:, 0], counts)
    torch.testing.assert_close(embedding.graph_token.grad, torch.full((WIDTH,), 4.0))
    # only the atom of methane has degree 0
    assert embedding.degrees.grad[0, 0] == 1


def test_atoms_with_another_number_of_features_are_refused() -> None:
    """A single feature would broadcast to all nine."""
    with pytest.raises(ConfigError, match=r"network reads 9 features of each atom, .* batch has 1"):
        some_embedding("ogb")(some_batch("zinc", 1))
