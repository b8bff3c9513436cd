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

import torch

__all__ = ["Outcome", "run_jobs"]


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    result: Any = None
    """None if it failed."""
    error: str = ""


def run_jobs(
    job: Callable[[str], Any], names: Sequence[str], deadline: float, limit: float = 60.0
) -> dict[str, Outcome]:
    """Call `job(name)` for each name, in order.

    One child does them all. After a job that crashed, took too long or broke the device, another
    child does the rest.

    Args:
        job: a function at the top of a module.
        names: its arguments.
        deadline: the time by `time.monotonic()` at which no job begins and the last one ends.
        limit: seconds for a job, not counting the start of a child.
    """
    done: dict[str, Outcome] = {}
    child: _Child | None = None
    for name in names:
        if time.monotonic() >= deadline:
            done[name] = Outcome(error="not begun: no time was left")
            continue
        if child is None or not child.ready():
            child = _Child(job)
            if not child.ready():
                done[name] = Outcome(error=f"the process ended with status {child.end()}")
                child = None
                continue
        done[name] = child.run(name, min(limit, deadline + 5 - time.monotonic()))
        child = child if child.process.is_alive() else None
    if child is not None:
        child.channel.close()
        child.process.join()
    return done


class _Child:
    """A process that does jobs one after the other."""

    def __init__(self, job: Callable[[str], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(job, theirs))
        self.process.start()
        theirs.close()

    def ready(self) -> bool:
        """Wait until the process can take a job; return False if it has ended."""
        try:
            return bool(self.channel.recv())
        except (EOFError, OSError):
            return False

    def run(self, name: str, seconds: float) -> Outcome:
        """Return the outcome of a job; a process that crashes or takes too long is ended."""
        try:
            self.channel.send(name)
            if self.channel.poll(max(0.0, seconds)):
                return self.channel.recv()
            self.end()
            return Outcome(error=f"stopped after {seconds:.0f} s")
        except (EOFError, OSError):
            return Outcome(error=f"its process ended with status {self.end()}")

    def end(self) -> int | None:
        """End the process; return its exit status."""
        if self.process.exitcode is None:
            self.process.join(1)
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def _serve(job: Callable[[str], Any], channel: Connection) -> None:
    """Do jobs in this process until the channel closes."""
    while _device_works():
        try:
            channel.send(True)
            name = channel.recv()
        except (EOFError, OSError):  # there are no more jobs
            return
        try:
            outcome = Outcome(job(name))
        except Exception as error:
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0][:300]
            outcome = Outcome(error=f"{type(error).__name__}: {first}")
        channel.send(outcome)
        sys.stdout.flush()
        _clean_up()
    os._exit(3)


def _device_works() -> bool:
    if not torch.cuda.is_available():
        return True
    try:
        return bool((torch.ones(8, device="cuda") + 1).sum().item() == 16)
    except RuntimeError:
        return False


def _clean_up() -> None:
    """Undo the settings of a job and free its memory."""
    gc.collect()
    torch.compiler.reset()
    torch.set_float32_matmul_precision("highest")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
