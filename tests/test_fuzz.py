"""benchmarks/fuzz: every kind runs, and faults, crashes and hangs are found and shrunk."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import fuzz


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fuzz.Work]:
    """The folder of a campaign; the cache of the other tests is restored afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOLSEPNORM_CACHE", "set by the campaign")
        yield fuzz.Work(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("name", fuzz.KINDS)
def test_every_kind_runs(work: fuzz.Work, tmp_path: Path, name: str) -> None:
    fuzz.explore(name, work, 0, tmp_path, cases=3)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "exit code -9"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: [0 for _ in iter(int, 1)], "exit code -"),
    ],
)
def test_errors_deaths_and_hangs_are_findings(work: fuzz.Work, do, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        work.isolated(do, seconds=1)
    work.isolated(lambda: None)
