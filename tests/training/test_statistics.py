"""Batch-norm statistics of the current weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from molsepnorm.sepnorm import MaskedBatchNorm1d
from molsepnorm.training.step import estimate_statistics


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 4), nn.BatchNorm1d(4), MaskedBatchNorm1d(4))


@pytest.mark.claim("Running statistics equal the two-pass values, without padding.")
def test_statistics_are_the_mean_over_the_batches() -> None:
    """Compared with two-pass values per batch, with unbiased variances and without dropout; those
    of the second norm belong to the output of the first."""
    network = _network()
    batches = [torch.randn(7, 3), torch.randn(9, 3) * 3]
    with torch.no_grad():
        network[2].running_mean.fill_(99.0)  # what was there before leaves no trace
        first = [network[1](batch) for batch in batches]
    estimate_statistics(network, batches)
    mean = torch.stack([x.mean(0) for x in first]).mean(0)
    variance = torch.stack([x.var(0) for x in first]).mean(0)
    torch.testing.assert_close(network[2].running_mean, mean)
    torch.testing.assert_close(network[2].running_var, variance)
    second = [(x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() for x in first]
    torch.testing.assert_close(
        network[3].running_var, torch.stack([x.var(0) for x in second]).mean(0)
    )


def test_nothing_else_changes() -> None:
    """Weights, momenta and random states stay; the network is in evaluation mode."""
    network = _network().train()
    before = copy.deepcopy(network)
    state = torch.get_rng_state()
    batch = torch.ones(2, 3)
    estimate_statistics(network, [batch])
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in network.modules())
    assert network[2].momentum == network[3].momentum == 0.1
    for name, value in network.named_parameters():
        assert torch.equal(value, before.get_parameter(name))
