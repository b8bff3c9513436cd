"""Ctrl-C and SIGTERM while a model is trained."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

__all__ = ["Stop", "stop_on_signal"]


class Stop:
    """Which signal asked to stop, if one did."""

    signal: int | None = None


@contextmanager
def stop_on_signal(training: Callable[[], bool]) -> Iterator[Stop]:
    """Within, SIGINT and SIGTERM ask training to stop after its step. Before training has begun,
    and when one comes again, they break off at once."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is not None or not training():
            click.echo("\nStopped at once.", err=True)
            sys.exit(128 + number)
        stop.signal = number
        click.echo("\nStopping after this step (again to stop at once) …", err=True)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
