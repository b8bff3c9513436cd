"""The learning-rate schedule, the optimiser and the moving average of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.training.config import OptimConfig
from molsepnorm.training.step import WeightAverage, learning_rate, make_optimizer


def _rates(total: int, **settings) -> np.ndarray:
    config = OptimConfig(**settings)
    return np.array([learning_rate(step, total, config) for step in range(total)])


def test_it_warms_up_in_equal_steps_and_then_falls_in_a_line():
    """The reference is numpy's interpolation between the corners of the schedule."""
    rates = _rates(100, lr=2.0, warmup=0.2, decay="linear", final_lr=0.5)
    np.testing.assert_allclose(rates[:20], np.linspace(0.1, 2.0, 20))
    np.testing.assert_allclose(rates[20:], np.interp(np.arange(20, 100), [20, 100], [2.0, 0.5]))


def test_the_cosine_starts_and_ends_flat():
    """It has the mean of both rates half-way."""
    rates = _rates(100, lr=1.0, warmup=0.0, decay="cosine", final_lr=0.2)
    assert rates[0] == 1.0
    assert rates[50] == pytest.approx(0.6)
    assert (np.diff(rates) < 0).all()
    assert abs(rates[1] - rates[0]) < abs(rates[51] - rates[50]) / 10
    assert 0.2 < rates[-1] < 0.201


@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize("total", [0, 1, 10])
def test_steps_beyond_the_last_have_the_final_rate(decay, total):
    """A measurement of the speed may take more steps than the run, which may have none."""
    config = OptimConfig(lr=1.0, warmup=0.5, decay=decay, final_lr=0.25)
    assert learning_rate(max(total, 1), total, config) == 0.25
    assert learning_rate(total + 100, total, config) == 0.25


def test_a_constant_schedule_stays_at_its_peak():
    """`final_lr` has no effect."""
    rates = _rates(10, lr=0.3, warmup=0.3, decay="constant", final_lr=0.1)
    np.testing.assert_allclose(rates, [0.1, 0.2, *[0.3] * 8])


@pytest.mark.parametrize("decay", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.4, 0.6, 0.99])
@pytest.mark.parametrize("total", [1, 2, 10])
def test_every_step_has_a_positive_rate(decay, warmup, total):
    """The rate is at most the peak, and this is reached, even in a run of one step."""
    rates = _rates(total, lr=1.0, warmup=warmup, decay=decay)
    assert (rates > 0).all()
    assert (rates <= 1).all()
    assert rates.max() == 1.0


def _network() -> Graphormer:
    torch.manual_seed(0)
    return Graphormer(GraphormerConfig(layers=1, width=4, ffn_width=4, heads=2))


@pytest.mark.claim(
    "The exponential moving average of weights equals a plain loop and is what is validated "
    "and saved."
)
def test_the_average_is_a_plain_loop():
    """Its memory is shorter in the first steps."""
    network = _network()
    average = WeightAverage(network, 0.6)
    expected: dict[str, torch.Tensor] = {}
    for step in range(30):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(network, step)
        decay = min(0.6, (1 + step) / (10 + step)) if step else 0.0
        for name, value in network.named_parameters():
            old = expected.get(name, value).detach().double()
            expected[name] = decay * old + (1 - decay) * value.detach().double()
    averaged = average.module.state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(averaged[name].double(), value, rtol=1e-5, atol=1e-6)


def test_weight_decay_applies_to_every_parameter():
    """Biases and norms decay too, as in Graphormer v1."""
    network = _network()
    optimizer = make_optimizer(network, OptimConfig(lr=0.1, weight_decay=0.5))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for parameter, old in zip(network.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, old * (1 - 0.1 * 0.5))
