"""Worker processes that share a stream of tasks.

Each worker has its own pipe, which closes when either end dies. So running tasks can be stopped
(not with `concurrent.futures`), workers end when the main process is killed, and an error reports
how a worker died.
"""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from molsepnorm.errors import MolsepnormError

_AHEAD = 2  # tasks per worker in progress or done, from the oldest unfinished one on


class Workers:
    """Worker processes with one torch thread each, which apply `work` to a stream of tasks.

    On Linux they are forks, which start at once and share this process's memory. Elsewhere they are
    spawned, and `work` must be picklable. The end of the `with` block terminates all workers.
    """

    def __init__(
        self, processes: int, work: Callable[[Any], Any], method: str | None = None
    ) -> None:
        method = method or ("fork" if sys.platform == "linux" else "spawn")
        context: Any = multiprocessing.get_context(method)
        self._processes: dict[Connection, BaseProcess] = {}
        for _ in range(processes):
            ours, theirs = context.Pipe()
            # A fork has copies of our ends. While one is open, no worker notices that we ended.
            inherited = [*self._processes, ours] if method == "fork" else []
            process = context.Process(target=_serve, args=(theirs, inherited, work), daemon=True)
            process.start()
            theirs.close()
            self._processes[ours] = process

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
        for process in self._processes.values():
            process.join()

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in the order of the tasks; few tasks are taken in advance.

        Raises:
            MolsepnormError: a worker died.
            Exception: the exception of a task, in its turn.
        """
        tasks = enumerate(tasks)
        idle: list[Any] = list(self._processes)
        busy: dict[Any, int] = {}
        done: dict[int, tuple[bool, Any]] = {}
        window = _AHEAD * len(idle)
        sent = turn = 0
        while True:
            while idle and sent < turn + window and (task := next(tasks, None)):
                sent, connection = task[0] + 1, idle.pop()
                with self._alive(connection):
                    connection.send(task[1])
                busy[connection] = task[0]
            if turn in done:
                failed, result = done.pop(turn)
                if failed:
                    raise result
                turn += 1
                yield result
            elif busy:
                ready: list[Any] = wait(list(busy))
                for connection in ready:
                    with self._alive(connection):
                        done[busy.pop(connection)] = connection.recv()
                    idle.append(connection)
            else:
                return

    @contextmanager
    def _alive(self, connection: Connection) -> Iterator[None]:
        """Raise an error that says how the worker ended, if the other end is closed."""
        try:
            yield
        except (EOFError, OSError):
            process = self._processes[connection]
            process.join(5)
            code = process.exitcode or 0
            how = f"left with code {code}"
            if code < 0:
                how = f"was ended by {signal.Signals(-code).name}"
            raise MolsepnormError(
                f"one of {len(self._processes)} worker processes {how}. SIGKILL often means "
                "that memory ran out: use fewer processes"
            ) from None


def results_of(work: Callable[[Any], Any], tasks: Iterator[Any], processes: int) -> Iterator[Any]:
    """Yield the results in the order of the tasks, which workers share if there are several."""
    if multiprocessing.current_process().daemon:  # as in a pool: it may not start processes
        processes = 1
    first = list(islice(tasks, processes))
    if len(first) <= 1:
        yield from map(work, chain(first, tasks))
        return
    with Workers(len(first), work) as workers:
        yield from workers.map(chain(first, tasks))


def _serve(connection: Connection, inherited: list[Connection], work: Callable[[Any], Any]) -> None:
    """Do a worker's tasks until the other end of its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the main process ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    torch.set_num_threads(1)
    gc.freeze()  # existing objects are neither searched nor, in a fork, copied
    with suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            try:
                result = False, work(task)
            except Exception as error:
                result = True, _picklable(error)
            connection.send(result)


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
