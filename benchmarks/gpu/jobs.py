"""Checks and measurements in child processes, so that a crash or a hang loses only itself."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["Outcome", "run_jobs"]


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    name: str
    result: Any = None
    """None if it failed."""
    error: str = ""


def run_jobs(
    job: Callable[[str], Any],
    names: Sequence[str],
    deadline: float,
    limit: float = 60.0,
    first_path: str | None = None,
) -> dict[str, Outcome]:
    """Call `job(name)` for each name, in order.

    One child does them all. After a job that crashed, took too long or broke the device, another
    child does the rest.

    Args:
        job: a function at the top of a module.
        names: what to call it with.
        deadline: the time by `time.monotonic()` at which no job begins and the last one ends.
        limit: seconds for a job, not counting the start of a child.
        first_path: a folder whose packages take precedence over installed ones.
    """
    done: dict[str, Outcome] = {}
    child: _Child | None = None
    for name in names:
        if time.monotonic() >= deadline:
            done[name] = Outcome(name, error="not begun: no time was left")
            continue
        if child is None or not child.ready():
            child = _Child(job, first_path)
            if not child.ready():
                done[name] = Outcome(name, error=f"the process ended with status {child.end()}")
                child = None
                continue
        done[name] = child.ask(name, min(limit, deadline + 5 - time.monotonic()))
        child = child if child.process.is_alive() else None
    if child is not None:
        child.channel.close()
        child.process.join()
    return done


class _Child:
    """A process that does jobs one after the other."""

    def __init__(self, job: Callable[[str], Any], first_path: str | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(job, theirs, first_path))
        self.process.start()
        theirs.close()

    def ready(self) -> bool:
        """Wait until the process can take a job; return False if it has ended."""
        try:
            return bool(self.channel.recv())
        except (EOFError, OSError):
            return False

    def ask(self, name: str, seconds: float) -> Outcome:
        """Return the outcome of a job; a process that crashes or takes too long is ended."""
        try:
            self.channel.send(name)
            if self.channel.poll(max(0.0, seconds)):
                return Outcome(name, *self.channel.recv())
            self.end()
            return Outcome(name, error=f"stopped after {seconds:.0f} s")
        except (EOFError, OSError):
            return Outcome(name, error=f"its process ended with status {self.end()}")

    def end(self) -> int | None:
        """End the process; return its exit status."""
        if self.process.exitcode is None:
            self.process.join(1)
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def _serve(job: Callable[[str], Any], channel: Connection, first_path: str | None) -> None:
    """Do jobs in this process until the channel closes."""
    if first_path:
        sys.path.insert(0, first_path)
    while _device_works():
        try:
            channel.send(True)
            name = channel.recv()
        except (EOFError, OSError):  # there are no more jobs
            return
        try:
            answer = job(name), ""
        except Exception as error:
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0][:300]
            answer = None, f"{type(error).__name__}: {first}"
        channel.send(answer)
        sys.stdout.flush()
        _tidy()
    os._exit(3)


def _device_works() -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return True
    try:
        return bool((torch.ones(8, device="cuda") + 1).sum().item() == 16)
    except RuntimeError:
        return False


def _tidy() -> None:
    """Free what a job has left."""
    gc.collect()
    if (torch := sys.modules.get("torch")) is None:
        return
    torch.compiler.reset()
    torch.set_float32_matmul_precision("highest")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
