"""Molecule-level features: their order, standardisation and invariances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.nn.molecule_features import MoleculeFeatures, standardised
from support import SMALL, batch_of, far_from_initial

MOLECULE = MolGraph([[3], [4], [5]], [[0, 1], [1, 2]], [[0], [1]])
CONFIG = GraphormerConfig(**SMALL, molecule_features=3)


def network(config: GraphormerConfig = CONFIG) -> Graphormer:
    made = far_from_initial(config)
    made.molecule_features.fit(torch.tensor([[0.0, 10, 5], [2, 30, 5], [4, 20, 5]]))
    return made


def with_features(graphs, seed=0):
    rng = np.random.default_rng(seed)
    return [replace(graph, features=rng.normal(2, 5, 3).astype(np.float32)) for graph in graphs]


@given(data=st.data(), readout=st.sampled_from(["token", "mean", "token+sum"]))
def test_features_are_standardised_and_concatenated_in_the_order_of_the_batch(
    molgraphs, data, readout
):
    graphs = with_features(data.draw(st.lists(molgraphs(max_atoms=8), min_size=2, max_size=5)))
    config = replace(CONFIG, readout=readout)
    model = network(config)
    read = model.embed(batch_of(graphs, config, max_groups=2)).detach()
    mean, sd = np.array([2, 20, 5]), np.array([np.sqrt(8 / 3), np.sqrt(200 / 3), 1])
    expected = ((np.array([graph.features for graph in graphs]) - mean) / sd).clip(-10, 10)
    np.testing.assert_allclose(read[:, -3:], expected, rtol=1e-5, atol=1e-5)


def test_statistics_are_computed_in_double_precision():
    module = MoleculeFeatures(2)
    module.fit(torch.tensor([[1e30, 7.0], [3e30, 7.0]]))
    torch.testing.assert_close(module.mean, torch.tensor([2e30, 7.0]))
    torch.testing.assert_close(module.sd, torch.tensor([1e30, 1.0]))


def test_half_precision_does_not_round_the_statistics():
    """In bfloat16 the mean would be 298 or 300."""
    features = torch.tensor([[297.5], [298.15], [298.8], [299.3]])
    module = MoleculeFeatures(1)
    module.fit(features)
    expected = standardised(features, module.mean, module.sd)
    for half in (module.bfloat16(), module.half()):
        assert torch.equal(standardised(features, half.mean, half.sd), expected)


def test_a_missing_feature_is_the_mean():
    """In the statistics and in a batch; a feature that is always missing has no influence."""
    module, nan = MoleculeFeatures(2), torch.nan
    module.fit(torch.tensor([[1.0, nan], [nan, nan], [3.0, nan]]))
    assert module.mean.tolist() == [2, 0] and module.sd.tolist() == [1, 1]
    assert module(torch.ones(1, 4), torch.tensor([[nan, nan]])).tolist() == [[1, 1, 1, 1, 0, 0]]


def test_a_feature_has_no_influence_before_training():
    """So that a feature that is constant in training never has."""
    torch.manual_seed(0)
    model = Graphormer(CONFIG).eval()
    one, other = (model(batch_of(with_features([MOLECULE], seed), CONFIG)) for seed in (0, 1))
    assert torch.equal(one, other)
