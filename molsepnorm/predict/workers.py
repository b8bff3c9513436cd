"""Worker processes that share a stream of tasks.

Not `concurrent.futures`: its pool has no public way to stop a task that is running, keeps threads
in this process (Python up to 3.11.4 can wait for one of them for ever once a worker has died while
tasks were on their way), leaves its workers behind when this process is killed, and does not say
how a worker died. Here a worker has a pipe of its own, and a closed pipe tells either end that the
other is gone.
"""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

import torch

from molsepnorm.errors import MolsepnormError

__all__ = ["Workers"]

_AHEAD = 2  # tasks per worker, under way or done, before the oldest one that is missing


class Workers:
    """Processes that do the same work, one torch thread each, on one task after the other.

    On Linux they are forks of this process, which start at once and share its memory: the model's
    weights, torch itself. Elsewhere they are spawned, and `work` must be picklable. Tasks and
    results are pickled. Leaving the `with` block ends them at once, whatever they do.

    Args:
        processes: how many.
        work: from a task to its result.
        method: how they are started. [default: by the system]
    """

    def __init__(
        self, processes: int, work: Callable[[Any], Any], method: str | None = None
    ) -> None:
        method = method or ("fork" if sys.platform == "linux" else "spawn")
        context: Any = multiprocessing.get_context(method)
        self._processes: dict[Connection, BaseProcess] = {}
        for _ in range(processes):
            ours, theirs = context.Pipe()
            # A fork holds copies of our ends too, and with them open no worker would see us go.
            inherited = [*self._processes, ours] if method == "fork" else []
            process = context.Process(target=_serve, args=(theirs, inherited, work), daemon=True)
            process.start()
            theirs.close()
            self._processes[ours] = process

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
        for process in self._processes.values():
            process.join()

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """The results in the tasks' order; few tasks are taken ahead of what is asked for.

        Raises:
            MolsepnormError: a worker died.
            Exception: what a task raised, when it is its turn.
        """
        tasks = enumerate(tasks)
        idle: list[Any] = list(self._processes)
        busy: dict[Any, int] = {}
        done: dict[int, tuple[bool, Any]] = {}
        window = _AHEAD * len(idle)
        given = turn = 0
        while True:
            while idle and given < turn + window and (task := next(tasks, None)):
                given, connection = task[0] + 1, idle.pop()
                self._send(connection, task[1])
                busy[connection] = task[0]
            if turn in done:
                failed, result = done.pop(turn)
                if failed:
                    raise result
                turn += 1
                yield result
            elif busy:
                for ready in wait(list(busy)):
                    done[busy.pop(ready)] = self._receive(ready)
                    idle.append(ready)
            else:
                return

    def _send(self, connection: Connection, task: Any) -> None:
        try:
            connection.send(task)
        except OSError:
            raise self._death(connection) from None

    def _receive(self, connection: Any) -> tuple[bool, Any]:
        try:
            return connection.recv()
        except (EOFError, OSError):
            raise self._death(connection) from None

    def _death(self, connection: Connection) -> MolsepnormError:
        process = self._processes[connection]
        process.join(5)
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with code {code}"
        return MolsepnormError(
            f"one of {len(self._processes)} worker processes {how}. Where that is SIGKILL, memory "
            "ran out: ask for fewer processes"
        )


def _serve(connection: Connection, inherited: list[Connection], work: Callable[[Any], Any]) -> None:
    """A worker's life, until the other end of its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for each in inherited:
        each.close()
    torch.set_num_threads(1)
    gc.freeze()  # what torch has made so far is neither searched again nor, in a fork, copied
    with suppress(EOFError, OSError):
        while True:
            connection.send(_attempt(work, connection.recv()))


def _attempt(work: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    """Whether it failed, and its result or what it raised, fit to be sent."""
    try:
        return False, work(task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError("".join(traceback.format_exception(error)))
        return True, error
