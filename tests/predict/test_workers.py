"""Worker processes: order, memory bound, errors, deaths, and no process left behind.

Work is done in forks here, which need not import this file.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
import torch

from molsepnorm.errors import InvalidMolecule, MolsepnormError
from molsepnorm.predict.workers import Workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


def _gone(pid: int, within: float = 10.0) -> bool:
    """Return whether a process ends within this number of seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":  # ended, but not yet joined
                return True
        time.sleep(0.02)
    return False


def _slow_first(task: int) -> int:
    if task == 0:
        time.sleep(0.3)
    return -task


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_tasks(processes):
    with Workers(processes, _slow_first) as workers:
        assert list(workers.map(range(20))) == [-task for task in range(20)]
        assert list(workers.map([])) == []
        assert list(workers.map([5])) == [-5]


def test_few_tasks_are_taken_in_advance():
    """This bounds the memory while the first task takes long."""
    taken = []

    def tasks():
        for task in range(100):
            taken.append(task)
            yield task

    with Workers(2, _slow_first) as workers:
        results = workers.map(tasks())
        assert taken == []
        assert next(results) == 0
        assert 2 <= len(taken) <= 5
        assert len(list(results)) == 99


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


def test_a_worker_that_died_while_idle_is_reported():
    """A BrokenPipeError would look like a closed output."""
    with Workers(1, _die) as workers:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        with pytest.raises(MolsepnormError, match="SIGKILL"):
            list(workers.map([0]))


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
    assert all(map(_gone, pids))


_KILLED = """
import os, signal
from molsepnorm.predict.workers import Workers
with Workers(3, lambda task: os.getpid()) as workers:
    print(*{process.pid for process in workers._processes.values()}, flush=True)
    list(workers.map(range(6)))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_the_main_process_is_killed():
    """They notice that their pipes are closed."""
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 3
    assert all(map(_gone, pids))


def _interrupt_myself(task: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return task


def test_workers_ignore_ctrl_c():
    """A terminal sends it to all processes; workers print no tracebacks."""
    with Workers(2, _interrupt_myself) as workers:
        assert list(workers.map(range(4))) == [0, 1, 2, 3]


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
