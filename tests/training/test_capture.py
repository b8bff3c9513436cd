"""Warming up and recording leave the state unchanged."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.training.steps.capture import can_capture, run_unnoticed


def _parts() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    return layer, torch.optim.AdamW(layer.parameters(), lr=0.1)


def _work(layer, optimizer):
    layer(torch.randn(4, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def _state(layer, optimizer):
    yield from layer.parameters()
    for state in optimizer.state.values():
        yield from state.values()


@pytest.mark.parametrize("steps_before", [0, 3])
def test_later_steps_know_nothing_of_it(steps_before):
    """Weights, moments (also new ones) and random states are restored exactly."""
    results = []
    for unnoticed in (False, True):
        parts = _parts()
        for _ in range(steps_before):
            _work(*parts)
        if unnoticed:
            run_unnoticed(lambda p=parts: [_work(*p) for _ in range(2)], lambda p=parts: _state(*p))
        for _ in range(3):
            _work(*parts)
        results.append([tensor.clone() for tensor in _state(*parts)])
    assert len(results[0]) == 8
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_a_failure_is_raised_and_the_state_is_restored():
    layer, optimizer = _parts()
    before = [parameter.clone() for parameter in layer.parameters()]

    def fails():
        _work(layer, optimizer)
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        run_unnoticed(fails, lambda: _state(layer, optimizer))
    for parameter, old in zip(layer.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_only_gpus_support_capture():
    assert not can_capture(torch.device("cpu"))
    assert can_capture(torch.device("cuda:0"))
