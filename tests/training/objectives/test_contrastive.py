"""Contrastive learning with two dropout views."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from molsepnorm.data import datasets
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.dropout import dropout_alone
from molsepnorm.tasks import Task
from molsepnorm.training import load_config, train
from molsepnorm.training.loop import Schedule
from molsepnorm.training.objectives.pretraining import Pretraining, info_nce
from molsepnorm.training.step import estimate_statistics
from support import CONTRASTIVE, SMALL, batch_of, far_from_initial

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


def objective_of(config, **settings) -> tuple[Pretraining, GraphBatch]:
    network, batch = network_of(**{"outputs": 0, **settings})
    return Pretraining(PropertyModel.of(network, "zinc", Task((), "loss")), None, config), batch


@pytest.fixture
def config():
    return load_config("zinc", overrides=CONTRASTIVE)


def test_training_spreads_molecules_and_joins_views(config):
    """The embeddings nearly coincide at first; the objective separates the molecules."""
    objective, batch = objective_of(config, norm="shared")
    objective.losses["contrastive"].temperature = 0.2
    objective.train()
    optimizer = torch.optim.Adam(objective.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss_sum, count = objective(batch, torch.arange(5))
        optimizer.zero_grad()
        (loss_sum / count).backward()
        optimizer.step()
        losses.append(loss_sum.item() / count.item())
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_a_network_without_dropout_is_refused(config):
    none = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    for settings in (none, {**none, "dropout": 0.001}):  # rounded to nothing
        with pytest.raises(ConfigError, match="needs a network with dropout, such as"):
            objective_of(config, **settings)


def test_in_evaluation_the_views_have_dropout_and_other_losses_have_none(config):
    """The views are drawn in the order of training, and the norms keep their statistics."""
    objective, batch = objective_of(config, norm="sep-bn")
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, network, read, batch, graphs):
            seen.append(read)
            return read.sum()

    objective.losses["descriptors"] = Spy()
    objective.weights = {"descriptors": 0.0, "contrastive": 1.0}
    objective.eval()
    with torch.no_grad():
        torch.manual_seed(3)
        loss_sum, count = objective(batch, torch.arange(5))
        torch.manual_seed(3)
        with dropout_alone(objective.network):
            first, second = objective.network.embed(batch), objective.network.embed(batch)
        assert torch.equal(seen[0], objective.network.embed(batch))
    torch.testing.assert_close(loss_sum / count, info_nce(first, second))


@pytest.mark.parametrize("training", [False, True])
def test_dropout_alone_leaves_norms_and_modes_as_they_are(training):
    network, batch = network_of(norm="sep-bn", dropout=0.3)
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


def test_training_without_labels_leaves_statistics_of_the_saved_weights(configure, tmp_path):
    """The batch norms of the saved model have their statistics estimated."""
    settings = {"model.norm": "sep-rms-bn", "optim.ema": None, "run.batch_size": 16}
    config = configure({**CONTRASTIVE, **settings})
    train(config, tmp_path / "run")
    model = PropertyModel.from_pretrained(tmp_path / "run")
    saved = {name: buffer.clone() for name, buffer in model.network.named_buffers()}
    assert any("running_var" in name for name in saved)
    dataset = datasets.load(config.data, model.encoding)
    tensors = GraphTensors.of(dataset.store)
    schedule = Schedule(config.run, dataset.splits["train"], tensors.sizes)
    batches = schedule.statistics_batches()
    estimate_statistics(
        model.network, (tensors.cut(each, config.run.max_groups) for each in batches)
    )
    for name, buffer in model.network.named_buffers():
        torch.testing.assert_close(buffer, saved[name])
