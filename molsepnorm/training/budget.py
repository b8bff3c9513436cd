"""How many epochs fit into a time: the speed is measured, then the schedule is that of so many."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import TYPE_CHECKING

from molsepnorm.errors import ConfigError
from molsepnorm.training.capture import run_unnoticed

if TYPE_CHECKING:
    from molsepnorm.training.loop import Trainer

__all__ = ["epochs_within", "seconds_of"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_WARM_UPS, _STEPS = 3, 100
_SHARE = 0.03  # of the budget, that measuring may take at most
_MARGIN = 0.95  # a machine slows down as it gets warm, or busy


def seconds_of(text: str) -> float:
    """A time such as 640s, 11m or 1.5h in seconds.

    Raises:
        ValueError: it is none, or not above zero.
    """
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"a time looks like 640s, 11m or 1.5h; got '{text}'")
    return seconds


def epochs_within(trainer: Trainer, seconds: float) -> int:
    """The epochs that a run can take in this time, validations and the final scores included.

    Steps are taken and a validation is done to see how long they take; the run is left as it was.

    Args:
        trainer: of a run that is about to take its first step.
        seconds: from now to the end.

    Raises:
        ConfigError: not even one epoch fits, or several processes train together.
    """
    if trainer.world.size > 1:  # each would measure something else
        raise ConfigError(
            f"run.budget is for one process, and there are {trainer.world.size}: give --epochs"
        )
    begun = time.perf_counter()
    step, validation = _measure(trainer, seconds * _SHARE)
    epoch = step * len(trainer.plan(0))
    left = seconds * _MARGIN - (time.perf_counter() - begun) - 2 * validation  # the final scores
    epochs = int(left / (epoch + validation / trainer.config.run.validate_every))
    if epochs < 1:
        raise ConfigError(
            f"run.budget is too short: an epoch with its validation takes some "
            f"{epoch + validation:,.1f} s here, and {max(left, 0):,.1f} s are left of "
            f"{trainer.config.run.budget}. Give more time, or train a smaller network"
        )
    return epochs


def _measure(trainer: Trainer, most: float) -> tuple[float, float]:
    """Seconds of a step and of a validation."""
    batches = cycle(trainer.plan(0))
    found: list[float] = []

    def time_of(work: Callable[[], object]) -> float:
        begun = time.perf_counter()
        work()
        trainer.wait()
        return time.perf_counter() - begun

    def step(number: int) -> float:
        """Seconds of each of so many."""
        trainer.network.train()
        some = trainer.step.plan(list(islice(batches, number)))

        def take() -> None:
            for planned in some:
                trainer.take_step(planned, rate=0.0)

        return time_of(take) / number

    def measure() -> None:
        step(_WARM_UPS)
        while not trainer.threads.settled:
            step(1)
        number = min(_STEPS, max(1, int(most / step(1))))
        found.extend([step(number), time_of(trainer.validate)])

    run_unnoticed(measure, trainer.step.state)
    return found[0], found[1]
