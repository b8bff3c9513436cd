"""An adaptive number of CPU threads for training.

OpenMP threads spin while they wait for each other. Two processes with as many threads as cores
therefore slow each other several times, while one thread each runs at full speed. Alone, more
threads are faster. No fixed number is good in both cases.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import torch

__all__ = ["ThreadChooser", "restored_threads", "thread_choices", "usable_cores"]

_WARM_UP = 2
"""Steps at the start that are not timed: they allocate memory."""
_WINDOW = 5
"""Steps whose median is the current time per graph."""
_TRIAL = 3
"""Steps taken with another number of threads."""
_SLOWER = 1.5
"""A trial ends early at a step that takes this many times as long."""
_RISE = 2.0
"""An increase of the time per graph by this factor starts a trial."""
_FASTER = 0.95
"""Another number of threads must take at most this share of the time per graph."""
_COST = 0.01
"""Share of the training time that later trials may cost."""
_RESUMED = 30.0
"""Seconds after which a resumed run tries another number of threads."""


class ThreadChooser:
    """Chooses the fastest number of threads while a run trains.

    `step` is called after each training step. Training starts with the first choice. A few steps
    with the next one follow, and so on as long as they are faster. Later trials compare the chosen
    number with its neighbours when the steps become slower, and at intervals long enough that
    trials cost about 1 % of the time. A chooser with one choice fixes the number.

    Args:
        choices: numbers of threads, ascending; see `thread_choices`.
        threads: the number that a resumed run used last. It replaces the trials at the start if it
            is one of the choices.
    """

    def __init__(self, choices: Sequence[int], threads: int | None = None) -> None:
        self.choices = tuple(choices)
        self._index = 0
        self._waiting: list[int] = []  # choices to try next, as indices
        self._trial: list[float] = []  # seconds per graph in the trial under way
        self._started = False  # whether the trial has taken its first step
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._skip = _WARM_UP
        self._largest = 0  # graphs of the largest batch
        self._lowest = float("inf")  # seconds per graph since the last choice
        self._elapsed = self._next = self._cost = 0.0
        self.settled = len(self.choices) == 1
        """True after the trials at the start."""
        if threads in self.choices:
            self._index = self.choices.index(threads)
            self.settled, self._next = True, _RESUMED
        torch.set_num_threads(self.threads)

    @property
    def threads(self) -> int:
        """The chosen number of threads."""
        return self.choices[self._index]

    def step(self, seconds: float, graphs: int) -> None:
        """Record the time of a training step, and change the number of threads if that is faster.

        Args:
            seconds: duration of the step.
            graphs: molecules in its batch.
        """
        if len(self.choices) == 1:
            return
        self._largest = max(self._largest, graphs)
        if self._skip or 2 * graphs < self._largest:  # a small batch takes longer per graph
            self._skip = max(self._skip - 1, 0)
            return
        self._elapsed += seconds
        if self._waiting:
            self._record_trial(seconds, graphs)
        else:
            self._record(seconds, graphs)
        torch.set_num_threads(self.choices[self._waiting[0] if self._waiting else self._index])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Use the chosen number of threads, also during a trial; for validation and scoring."""
        with restored_threads():
            torch.set_num_threads(self.threads)
            yield

    def _record(self, seconds: float, graphs: int) -> None:
        self._recent.append(seconds / graphs)
        if len(self._recent) < _TRIAL:
            return
        usual = median(self._recent)
        slower = len(self._recent) == _WINDOW and usual > _RISE * self._lowest
        self._lowest = usual if slower else min(self._lowest, usual)
        if slower or self._elapsed >= self._next:
            self._cost = 0.0
            self._waiting = self._neighbours(self._index, -1) + self._neighbours(self._index, 1)

    def _record_trial(self, seconds: float, graphs: int) -> None:
        usual, (tried, *waiting) = median(self._recent), self._waiting
        self._cost += seconds - usual * graphs
        if not self._started:  # the first step with more threads starts them
            self._started = True
            return
        self._trial.append(seconds / graphs)
        if len(self._trial) < _TRIAL and self._trial[-1] < _SLOWER * usual:
            return
        if median(self._trial) < _FASTER * usual:
            waiting = self._neighbours(tried, 1 if tried > self._index else -1)
            self._index, self._lowest = tried, float("inf")
            self._recent = deque(self._trial, maxlen=_WINDOW)
        self._trial, self._waiting, self._started = [], waiting, False
        if not waiting:
            self.settled = True
            self._next = self._elapsed + max(self._cost, seconds / 2) / _COST

    def _neighbours(self, index: int, direction: int) -> list[int]:
        index += direction
        return [index] if 0 <= index < len(self.choices) else []


def thread_choices(threads: int | None, device: torch.device, processes: int) -> tuple[int, ...]:
    """Return the numbers of threads that a run may use: powers of two and PyTorch's own number.

    There is one choice if the number is given, if OMP_NUM_THREADS is set, and where a GPU or
    several processes train.

    Args:
        threads: the configured number; None for an adaptive one.
        device: device of the network.
        processes: number of processes that train together.
    """
    if threads is not None:
        return (threads,)
    available = torch.get_num_threads()
    if device.type != "cpu" or processes > 1 or os.environ.get("OMP_NUM_THREADS"):
        return (available,)
    powers = (2**n for n in range(available.bit_length()))
    return (*(each for each in powers if each < available), available)


@contextmanager
def restored_threads() -> Iterator[None]:
    """Restore PyTorch's number of threads at the end."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
