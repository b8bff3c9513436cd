"""Worker processes: order, memory bound, errors, deaths, and no process left behind.

Work is done in forks here, which need not import this file.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest
import torch

from molsepnorm.errors import InvalidMolecule, MolsepnormError
from molsepnorm.workers import Workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


def _fail_at_3(task: int) -> int:
    if task == 3:
        raise InvalidMolecule("no such ring")
    return task


def test_the_error_of_a_task_is_raised_in_its_turn():
    results = []
    with Workers(2, _fail_at_3) as workers, pytest.raises(InvalidMolecule, match="^no such ring$"):
        for result in workers.map(range(9)):
            results.append(result)
    assert results == [0, 1, 2]


class _Odd(Exception):
    """It cannot be unpickled, because that passes the message alone."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def _raise_odd(task: int) -> int:
    raise _Odd("a", "b")


def test_an_error_that_cannot_be_pickled_is_reported_in_full():
    with (
        Workers(1, _raise_odd) as workers,
        pytest.raises(RuntimeError, match="_raise_odd(.|\n)*ab"),
    ):
        list(workers.map([1]))


def _die(task: int) -> int:
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if task == -2:
        os._exit(3)
    return task


@pytest.mark.parametrize(
    ("task", "how"), [(2, "was ended by SIGKILL"), (-2, "left with code 3")], ids=["killed", "left"]
)
def test_an_error_says_how_a_worker_died(task, how):
    with (
        Workers(2, _die) as workers,
        pytest.raises(MolsepnormError, match=f"one of 2 worker processes {how}.*fewer processes"),
    ):
        list(workers.map([0, 1, task, 3, 4]))


def _pid_then_sleep(task: int) -> int:
    if task:
        time.sleep(task)
    return os.getpid()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, BrokenPipeError])
def test_no_worker_is_left_behind_in_the_middle_of_its_work(error):
    with suppress(KeyboardInterrupt, BrokenPipeError), Workers(2, _pid_then_sleep) as workers:
        pids = [process.pid for process in multiprocessing.active_children()]
        assert next(workers.map([0, 3600, 0])) in pids
        if error:
            raise error
    assert multiprocessing.active_children() == []


def _product(task: int) -> tuple[int, float]:
    matrix = torch.ones(512, 512)
    return torch.get_num_threads(), float((matrix @ matrix).sum())


def test_each_worker_has_one_torch_thread():
    """A fork would hang if it started threads after OpenMP threads had run in this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _product(0)
        with Workers(2, _product) as workers:
            watchdog = threading.Timer(60, lambda: [p.kill() for p in workers._processes.values()])
            watchdog.start()
            assert set(workers.map(range(4))) == {(1, 512.0**3)}
            watchdog.cancel()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
