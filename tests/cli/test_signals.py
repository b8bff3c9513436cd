"""Messages and exit status of the processes that torchrun starts, and signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from molsepnorm.cli.signals import stop_on_signal


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
