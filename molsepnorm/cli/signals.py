"""Stop training on Ctrl-C or SIGTERM; under torchrun, print from the first process only."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from molsepnorm.cli.console import say

_SECONDS = 5.0  # time for the first process to meet the same error


def rank() -> int | None:
    """Return the rank of this process under torchrun, or None if it is the only one."""
    if int(os.environ.get("WORLD_SIZE", 1)) < 2 or "LOCAL_RANK" not in os.environ:
        return None
    return int(os.environ["RANK"])


def give_way(code: int) -> None:
    """Give the first process time to print an error that all processes have met.

    When it exits, torchrun ends the others, which then exit from here with `code`. The function
    returns if only this process has the error.
    """
    if rank():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
        time.sleep(_SECONDS)


class Stop:
    """The signal that stopped training."""

    signal: int | None = None

    def leave(self) -> NoReturn:
        """Exit from a stopped series of runs."""
        assert self.signal is not None
        say("Stopped and saved. Run the same command again to continue.", err=True)
        sys.exit(128 + self.signal)


@contextmanager
def stop_on_signal(training: Callable[[], bool] = lambda: False) -> Iterator[Stop]:
    """The first SIGINT or SIGTERM stops training after the current step, or the final scores.

    A second signal, or one before `training` has begun, ends the process at once. Under torchrun,
    further signals are ignored: torchrun repeats the signal as soon as one process has exited, when
    the first may still be saving.
    """
    stop, several = Stop(), rank() is not None

    def report(text: str) -> None:
        if not rank():
            say(f"\n{text}", err=True)

    def handle(number: int, frame: FrameType | None) -> None:
        if not training() or (stop.signal is not None and not several):
            report("Stopped at once.")
            sys.exit(128 + number)
        if stop.signal is None:
            stop.signal = number
            again = "" if several else " (again to stop at once)"
            report(f"Stopping after this step, or after the final scores{again} …")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
