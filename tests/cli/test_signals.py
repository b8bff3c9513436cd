"""Messages and exit status of the processes that torchrun starts, and signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from molsepnorm.cli import signals
from molsepnorm.cli.signals import stop_on_signal

UNKNOWN = ("train", "--dataset", "zync")
NO_COMMAND = ("trian",)


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`become(1)`: this is the second of two processes. Signal handlers are put back."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def make(rank: int, size: int = 2) -> None:
        values = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    yield make
    for number, handler in before.items():
        signal.signal(number, handler)


def end_by_torchrun(seconds: float) -> None:
    """In place of `time.sleep`: the first process has left meanwhile."""
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("args", [UNKNOWN, NO_COMMAND])
def test_the_first_process_alone_prints_an_error(run, become, monkeypatch, args):
    """At once; the others leave silently with the same status."""
    alone = run(*args)
    monkeypatch.setattr(time, "sleep", end_by_torchrun)
    become(0)
    printed = run(*args)
    assert printed.exit_code == alone.exit_code == 2
    assert printed.stderr == alone.stderr
    assert "Error: " in printed.stderr
    become(1)
    result = run(*args)
    assert (result.exit_code, result.output) == (2, "")


def test_another_process_prints_an_error_of_its_own(refused, become, monkeypatch):
    """The first process has no error, so torchrun does not end this one while it waits."""
    become(1)
    monkeypatch.setattr(signals, "_SECONDS", 0)
    assert refused(*UNKNOWN).startswith("process 1: ")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_that_torchrun_repeats_is_ignored(become, capsys, rank):
    """The first process may still be saving; only it prints a message."""
    become(rank)
    with stop_on_signal(lambda: True) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGINT
    printed = capsys.readouterr().err.strip()
    assert printed == ("" if rank else "Stopping after this step, or after the final scores …")


@pytest.mark.parametrize("rank", [0, 1])
def test_before_training_each_process_stops_at_once(become, capsys, rank):
    become(rank)
    with pytest.raises(SystemExit) as left, stop_on_signal(lambda: False):
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err.strip() == ("" if rank else "Stopped at once.")
