"""Ctrl-C and SIGTERM while a model is trained."""

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
    """Which signal asked to stop, if one did."""

    signal: int | None = None


@contextmanager
def stop_on_signal(training: Callable[[], bool]) -> Iterator[Stop]:
    """Within, SIGINT and SIGTERM ask training to stop after its step. Before training has begun,
    and when one comes again, they break off at once.

    Of torchrun's processes the first alone tells so, and one that comes again is let pass: torchrun
    repeats it as soon as one of them has left, when the first may still be saving."""
    stop = Stop()
    several = rank() is not None
    again = "" if several else " (again to stop at once)"

    def tell(what: str) -> None:
        if not rank():
            say(f"\n{what}", err=True)

    def note(number: int, frame: FrameType | None) -> None:
        if not training() or (stop.signal is not None and not several):
            tell("Stopped at once.")
            sys.exit(128 + number)
        if stop.signal is None:
            stop.signal = number
            tell(f"Stopping after this step{again} …")

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def leave_saved(stop: Stop) -> NoReturn:
    """After several runs were stopped: say how to go on, and leave with the signal's code."""
    assert stop.signal is not None
    click.echo("Stopped and saved. Give the same command again to go on.", err=True)
    sys.exit(128 + stop.signal)
