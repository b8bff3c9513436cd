"""The number of epochs that fit into a time budget, from the measured speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import cycle, islice

import torch
from torch import Tensor

from molsepnorm.errors import ConfigError
from molsepnorm.training.loop import Trainer

_WARM_UPS, _STEPS = 3, 100
_MAX_SHARE = 0.03  # of the budget that measuring may take
_MARGIN = 0.95  # machines slow down when they get warm or busy


def epochs_within(trainer: Trainer, seconds: float) -> int:
    """Return the number of epochs that fit into these seconds, with validations and final scores.

    Some steps and a validation are timed before the first step; the state of the run does not
    change.

    Raises:
        ConfigError: not even one epoch fits, or several processes train together.
    """
    if trainer.world.size > 1:  # each would measure something else
        raise ConfigError(
            f"run.budget is for one process, and there are {trainer.world.size}: give --epochs"
        )
    started = time.perf_counter()
    step, validation = _measure(trainer, seconds * _MAX_SHARE)
    epoch = step * len(trainer.schedule.batches(0))
    left = seconds * _MARGIN - (time.perf_counter() - started) - 2 * validation  # the final scores
    epochs = int(left / (epoch + validation / trainer.config.run.validate_every))
    if epochs < 1:
        raise ConfigError(
            f"run.budget is too short: an epoch with its validation takes some "
            f"{epoch + validation:,.1f} s here, and {max(left, 0):,.1f} s are left of "
            f"{trainer.config.run.budget}. Give more time, or train a smaller network"
        )
    return epochs


def _measure(trainer: Trainer, max_seconds: float) -> tuple[float, float]:
    """Return the seconds of a step and of a validation."""
    batches, progress = cycle(trainer.schedule.batches(0)), replace(trainer.progress)
    found: list[float] = []

    def seconds_of(work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        return time.perf_counter() - started

    def step(number: int) -> float:
        """Return the mean seconds of a step."""
        some = list(islice(batches, number))
        return seconds_of(lambda: trainer.take_steps(some)) / number

    def measure() -> None:
        step(_WARM_UPS)
        number = min(_STEPS, max(1, int(max_seconds / step(1))))
        found.extend([step(number), seconds_of(trainer.validate)])

    _run_unnoticed(measure, trainer.step.state)
    trainer.progress = progress
    return found[0], found[1]


def _run_unnoticed(work: Callable[[], None], state: Callable[[], Iterable[Tensor]]) -> None:
    """Run a function and restore all state afterwards.

    A tensor that the function adds to the state, such as an optimiser's moments at the first step,
    is set to zero, its initial value.
    """
    before = [(tensor, tensor.clone()) for tensor in state()]
    known = {id(tensor) for tensor, _ in before}
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(gpus):
            work()
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for tensor in state():
                if id(tensor) not in known:
                    tensor.zero_()
