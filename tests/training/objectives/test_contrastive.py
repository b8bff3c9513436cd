"""Views by dropout, and the loss that draws them together."""

from __future__ import annotations

import math

import pytest
import torch
from support import SMALL, batch_of, far_from_initial
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphormerConfig
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.training.objectives.contrastive import dropout_views, info_nce

GRAPHS = [featurize.get("zinc")(text) for text in ("CCO", "c1ccccc1", "CC(=O)N", "C", "C1CC1O")]


def network_of(**settings):
    config = GraphormerConfig(**{**SMALL, **settings})
    return far_from_initial(config), batch_of(GRAPHS, config)


def views(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    return first, first + 0.5 * second


def test_the_loss_is_the_probability_of_the_partner_both_ways():
    first, second = views()
    total = 0.0
    for one, other in ((first, second), (second, first)):
        for i in range(6):
            weights = [math.exp(float(F.cosine_similarity(one[i], x, dim=0)) / 0.1) for x in other]
            total -= math.log(weights[i] / sum(weights)) / 12
    assert float(info_nce(first, second, 0.1)) == pytest.approx(total)
    assert float(info_nce(7 * second, 0.2 * first, 0.1)) == pytest.approx(total)


def test_the_loss_is_least_where_partners_agree_and_others_do_not():
    corners = torch.eye(4)
    assert float(info_nce(corners, corners)) < 1e-7
    assert float(info_nce(corners, corners.roll(1, 0))) > 19
    assert float(info_nce(torch.ones(4, 3), torch.ones(4, 3))) == pytest.approx(math.log(4))


def test_its_gradient_is_that_of_finite_differences():
    first, second = (view.requires_grad_() for view in views())
    torch.autograd.gradcheck(lambda a, b: info_nce(a, b, 0.3), (first, second))


def test_descending_it_spreads_molecules_and_joins_views():
    """From a network whose tokens nearly coincide: it learns to tell molecules apart."""
    network, batch = network_of(norm="shared")
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = info_nce(*dropout_views(network, batch), temperature=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@pytest.mark.parametrize("settings", [{}, {"drop_path": 0.3, "dropout": 0.0}])
def test_views_differ_and_are_embeddings_in_order(settings):
    network, batch = network_of(graph_norm="layer", **settings)
    network.train()
    torch.manual_seed(3)
    first, second = dropout_views(network, batch)
    assert first.shape == second.shape == (5, SMALL["width"])
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    torch.testing.assert_close(network.embed(batch), first)


def test_views_that_would_be_one_are_refused():
    network, batch = network_of()
    with pytest.raises(ConfigError, match="need a network in training mode with some dropout"):
        dropout_views(network.eval(), batch)
    network, batch = network_of(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    with pytest.raises(ConfigError, match="dropout=0.1"):
        dropout_views(network.train(), batch)


@pytest.mark.parametrize("shapes", [((3, 2), (4, 2)), ((1, 2), (1, 2)), ((3,), (3,))])
def test_what_is_no_pair_of_views_is_refused(shapes):
    with pytest.raises(ConfigError, match=r"two views \(B, d\) of two molecules or more"):
        info_nce(*(torch.ones(shape) for shape in shapes))


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan])
def test_a_temperature_is_above_zero(temperature):
    with pytest.raises(ConfigError, match="temperature is above 0; got"):
        info_nce(*views(), temperature=temperature)


@pytest.mark.parametrize("training", [False, True])
def test_dropout_alone_leaves_norms_and_modes_as_they_are(training):
    network, batch = network_of(graph_norm="batch", node_norm="batch", dropout=0.3)
    network.train(training)
    modes = [module.training for module in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    one = batch_of(GRAPHS[:1], network.config)  # a batch norm could not train on it
    with dropout_alone(network), torch.no_grad():
        first, second = network.embed(one), network.embed(one)
        averages = torch.stack([network.embed(batch) for _ in range(30)]).mean(0)
    assert not torch.equal(first, second)
    assert [module.training for module in network.modules()] == modes
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    with torch.no_grad():
        plain = network.eval().embed(batch)
    assert F.cosine_similarity(averages, plain).min() > 0.5


def test_what_draws_at_random():
    nothing = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    assert not draws_at_random(network_of(**nothing)[0])
    for name in nothing:
        assert draws_at_random(network_of(**{**nothing, name: 0.1})[0])
    assert draws_at_random(network_of(**nothing, drop_path=0.2)[0])
    rounded = network_of(**{**nothing, "dropout": 0.001})[0]  # less than 1/512
    assert not draws_at_random(rounded)
    with pytest.raises(ConfigError, match="two views by dropout need"):
        dropout_views(rounded.train(), network_of()[1])


def test_the_loss_under_autocast_is_exact():
    first, second = (view.float() for view in views())
    with torch.autocast("cpu", torch.bfloat16):
        found = info_nce(first, second)
    torch.testing.assert_close(found, info_nce(first, second), rtol=0, atol=0)
