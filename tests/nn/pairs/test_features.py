"""Random walks against dense linear algebra, and the map that reads them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from support import batch_of

from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.pairs.features import PairBias, walk_probabilities

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


@pytest.mark.parametrize("hidden", [0, 7])
def test_pair_bias_is_a_linear_map_or_two_with_a_gelu(hidden: int) -> None:
    bias = PairBias(3, hidden, heads=2)
    features = [torch.randn(2, 4, 4, 3), torch.randn(1, 6, 6, 3)]
    for found, each in zip(bias(features), features, strict=True):
        inner = each if bias.inner is None else torch.nn.functional.gelu(bias.inner(each))
        expected = torch.einsum("gijf,hf->hgij", inner, bias.outer.weight)
        expected = expected + bias.outer.bias[:, None, None, None]
        torch.testing.assert_close(found, expected)
