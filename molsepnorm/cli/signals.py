"""Stop training on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.ranks import rank

__all__ = ["Stop", "leave_saved", "stop_on_signal"]


class Stop:
    """The signal that stopped training, if any."""

    signal: int | None = None


@contextmanager
def stop_on_signal(training: Callable[[], bool]) -> Iterator[Stop]:
    """Within this context, the first SIGINT or SIGTERM stops training after the current step.

    Before training has begun, and at a second signal, the process exits at once. Under torchrun,
    only the first process prints, and further signals are ignored: torchrun repeats the signal as
    soon as one process has exited, when the first may still be saving.

    Args:
        training: return whether training has begun."""
    stop = Stop()
    several = rank() is not None
    again = "" if several else " (again to stop at once)"

    def report(text: str) -> None:
        if not rank():
            say(f"\n{text}", err=True)

    def handle(number: int, frame: FrameType | None) -> None:
        if not training() or (stop.signal is not None and not several):
            report("Stopped at once.")
            sys.exit(128 + number)
        if stop.signal is None:
            stop.signal = number
            report(f"Stopping after this step{again} …")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def leave_saved(stop: Stop) -> NoReturn:
    """Exit with the signal's status after several runs were stopped, and say how to continue."""
    assert stop.signal is not None
    click.echo("Stopped and saved. Run the same command again to continue.", err=True)
    sys.exit(128 + stop.signal)
