"""`molsepnorm train` many times, several at a time on one GPU, in pieces as in `training`.

A list names the runs, a line each: a name, then options of `molsepnorm train`; # begins a remark.
So many processes as asked for work at the same time, from the list's top; where a run comes to its
end the next one begins. When time is up all are asked to save and to stop, and the same command
goes on with them. What comes back, in $OUT: NAME.tar of each run that is not finished, done.tar
with the archives of those that finished meanwhile, and the table many.md.

Without MPS the kernels of different processes take turns on a GPU, so several at a time use what
one alone leaves idle between its kernels, validations and epochs; the last line of many.md says how
many steps a second they took together.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import click

from gpu.scale import out, scratch
from gpu.training import (
    LARGEST,
    PATIENCE,
    command,
    keep,
    outcome,
    prepare,
    reached,
    take_option,
)
from molsepnorm.errors import MolsepnormError

__all__ = ["ListError", "read_list", "table", "train_all", "train_many"]

_MINUTES, _AT_ONCE = 8.5, 3
_FILES = 6  # archives of unfinished runs that come back: 8 files in all
_POLL, _TOLD = 0.2, 60.0
_WIDTH = 120  # of a cell
_TOO_LATE = 20.0  # seconds before the end, in which nothing is begun any more


class ListError(MolsepnormError):
    """A list of runs that cannot be read."""


@dataclass(frozen=True)
class Begun:
    """A run under way."""

    process: subprocess.Popen[bytes]
    log: Path
    steps: int
    """Taken before."""


def train_many(arguments: Sequence[str]) -> int:
    """A list's file, --minutes M and --at-once K; exit status 1 where a run failed."""
    begun, options = time.monotonic(), list(arguments)
    minutes = take_option(options, "--minutes", _MINUTES)
    at_once = int(take_option(options, "--at-once", _AT_ONCE))
    if len(options) != 1 or not 1 <= at_once <= _FILES:
        print(f"asked for: many FILE [--minutes M] [--at-once K], K from 1 to {_FILES}")
        return 2
    try:
        runs = read_list(Path(options[0]))
    except ListError as error:
        print(error)
        return 2
    stopped = Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    became, steps = train_all(runs, 60 * minutes, at_once, stopped.is_set)
    seconds = time.monotonic() - begun
    told = table(runs, became)
    told += f"\n\n{steps:,} steps in {seconds:.0f} s, {steps / seconds:,.0f} a second together"
    (out() / "many.md").write_text(told + "\n")
    print(f"\n{told}")
    return int(any(status for status, _ in became.values()))


def read_list(path: Path) -> dict[str, list[str]]:
    """The runs of a list: their options by their names.

    Raises:
        ListError: there is no such file, a name is no file's name, or comes twice.
    """
    if not path.is_file():
        raise ListError(f"there is no list {path}; known: benchmarks/gpu/lists/*.txt")
    runs: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not (words := shlex.split(line, comments=True)):
            continue
        name, *options = words
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ListError(
                f"{path}, line {number}: '{name}' is no run's name; a line is NAME OPTIONS, the "
                "name of letters, digits, '.', '_' and '-'"
            )
        if name in runs:
            raise ListError(f"{path}, line {number}: the name {name} comes a second time")
        runs[name] = options
    return runs


def train_all(
    runs: Mapping[str, Sequence[str]],
    seconds: float,
    at_once: int,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, tuple[int, str]], int]:
    """Train for so long, or until `stop` says so.

    No process outlasts this function.

    Returns:
        Of each run that was begun, here or before, its exit status and what became of it; and the
        steps that were taken here, to the last validations.
    """
    end, told = time.monotonic() + seconds, time.monotonic()
    waiting, running = list(runs), dict[str, Begun]()
    became: dict[str, tuple[int, str]] = {}
    finished: list[Path] = []
    asked: float | None = None  # when all were asked to stop
    steps = 0
    try:
        while running or (waiting and asked is None):
            now = time.monotonic()
            over = now >= end if running else now >= end - _TOO_LATE
            if asked is None and (over or stop()):
                asked = now
                for each in running.values():
                    each.process.send_signal(signal.SIGTERM)
            if asked is not None and now >= asked + PATIENCE:
                for each in running.values():
                    each.process.kill()
            if asked is None and waiting and len(running) < at_once and now < end - _TOO_LATE:
                name = waiting.pop(0)
                _begin(name, runs[name], at_once, running, became)
                continue
            for name in [name for name, each in running.items() if each.process.poll() is not None]:
                before = running[name].steps
                became[name] = _end(name, running.pop(name), finished)
                steps += max(0, _step(name) - before)
                print(became[name][1], flush=True)
            if now - told >= _TOLD:
                told = now
                print("; ".join(f"{name}: {_place(name)}" for name in running), flush=True)
            time.sleep(_POLL)
    finally:
        for each in running.values():
            each.process.kill()
            each.process.wait()
    _bring(finished)
    return became, steps


def _begin(
    name: str,
    options: Sequence[str],
    at_once: int,
    running: dict[str, Begun],
    became: dict[str, tuple[int, str]],
) -> None:
    try:
        arguments = prepare(name, options)
    except (MolsepnormError, click.ClickException) as error:
        became[name] = 1, f"FAILED: {name}: {error}"
        print(became[name][1], flush=True)
        return
    if arguments is None:
        became[name] = outcome(0, name)
        return
    log, steps = scratch() / f"{name}.log", _step(name)
    threads = str(max(1, len(os.sched_getaffinity(0)) // at_once))
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    with open(log, "wb") as told:
        process = subprocess.Popen(
            command(arguments), stdout=told, stderr=subprocess.STDOUT, env=environment
        )
    running[name] = Begun(process, log, steps)
    print(f"{name}: process {process.pid} of {threads} threads", flush=True)


def _end(name: str, begun: Begun, finished: list[Path]) -> tuple[int, str]:
    """Keep what a run left; its status, and what became of it."""
    archive = keep(name, begun.log)
    status, said = outcome(begun.process.returncode, name)
    if said.startswith("finished") and archive is not None:
        finished.append(archive)
    elif archive is not None:
        shutil.copy(archive, out() / archive.name)
    if status:
        last = begun.log.read_text(errors="replace").splitlines()[-5:]
        said = "\n    ".join([f"FAILED: {name}, with status {status}; its log ends", *last])
    return status, said


def _bring(finished: Sequence[Path]) -> None:
    """The archives of finished runs as one file."""
    if not finished:
        return
    path = out() / "done.tar"
    with tarfile.open(path, "w") as packed:
        for archive in finished:
            packed.add(archive, arcname=archive.name)
    if path.stat().st_size > LARGEST:
        print(f"{path.name} has more than 16 MiB and does not come back")


def _place(name: str) -> str:
    last = reached(name)
    if not last:
        return "no validation yet"
    return f"epoch {last['epoch']}, validation {float(last['val_mae']):.4f}"


def table(runs: Mapping[str, Sequence[str]], became: Mapping[str, tuple[int, str]]) -> str:
    """What became of the runs of a list, as Markdown."""
    lines = ["| run | epochs | validation MAE | molecules/s | |", "|---|---|---|---|---|"]
    for name in runs:
        _, said = became.get(name, (0, "not begun"))
        told = said.splitlines()[0].removeprefix(f"finished: {name}, ").partition(" (")[0]
        cells = [name, "", "", "", told[:_WIDTH].replace("|", "/")]
        if name in became and (last := reached(name)):
            rate = float(last["graphs_per_second"])
            cells[1:4] = last["epoch"], f"{float(last['val_mae']):.4f}", f"{rate:,.0f}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _step(name: str) -> int:
    """Of the last validation."""
    return int(reached(name).get("step", 0))
