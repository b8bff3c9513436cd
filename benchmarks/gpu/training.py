"""`molsepnorm train` in pieces: each command goes on where the last one's archive ends.

The archive NAME.tar is the run: where there is one, its folder is made from it. It is written in
the end into $OUT, from where it comes back, and into the scratch folder, where the next command on
the same machine finds it though nobody brought it; of that one and the one in .gpu/runs, the one
that is further on counts.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Thread

from gpu.scale import out, scratch
from gpu.trainers import load
from molsepnorm.cli.options import configuration
from molsepnorm.cli.train import train as train_command
from molsepnorm.training import load_config
from molsepnorm.training.folder import RunFolder

__all__ = [
    "LARGEST",
    "PATIENCE",
    "STOPPED",
    "command",
    "forget",
    "keep",
    "outcome",
    "prepare",
    "reached",
    "take_option",
    "train",
    "train_for",
]

_RUNS = Path(__file__).parents[2] / ".gpu" / "runs"
_MINUTES = 8.5
PATIENCE = 40.0  # seconds that saving may take
LARGEST = 16 << 20  # a file of $OUT
STOPPED = 128 + signal.SIGTERM


def train(name: str, options: Sequence[str]) -> int:
    """Train into .gpu/runs/NAME; the exit status is 0 for a run that was stopped and saved, too.

    The options are those of `molsepnorm train`, and --minutes. Where there is an archive the run
    goes on as it began, whatever the options.
    """
    begun, options = time.monotonic(), list(options)
    minutes = take_option(options, "--minutes", _MINUTES)
    status, said = train_for(60 * minutes, name, options)
    print(f"{said}\n{time.monotonic() - begun:.0f} s in all")
    return status


def train_for(seconds: float, name: str, options: Sequence[str]) -> tuple[int, str]:
    """The same for so long: the exit status, and a line that says what became of the run."""
    log = out() / f"{name}.log"
    arguments = prepare(name, options)
    if arguments is None:
        return outcome(0, name)
    status = _run_for(seconds, arguments, log)
    archive = keep(name, log)
    if archive is not None:
        shutil.copy(archive, out() / archive.name)
    return outcome(status, name)


def take_option(options: list[str], flag: str, default: float) -> float:
    """The number behind a flag; both are taken out of the options."""
    if flag not in options:
        return default
    at = options.index(flag)
    value = float(options[at + 1])
    del options[at : at + 2]
    return value


def prepare(name: str, options: Sequence[str]) -> list[str] | None:
    """Make the run's folder from its archive, if there is one, and its data while no clock runs.

    Returns:
        What `molsepnorm train` is to be given; None for a run that has come to its end.
    """
    run = RunFolder(_RUNS / name)
    archives = [path for path in _archives(name) if path.exists()]
    shutil.rmtree(run.path, ignore_errors=True)
    if not archives:
        _encode(None, options)
        return ["--output", str(run.path), *options]
    with tarfile.open(max(archives, key=_steps)) as packed:
        packed.extractall(_RUNS, filter="data")
    if run.metrics.exists():
        return None
    told = ", whatever the options now" if options else ""
    print(f"{name} goes on as it began{told}", flush=True)
    _encode(run, options)
    return ["--resume", str(run.path)]


def command(arguments: Sequence[str]) -> list[str]:
    """`molsepnorm train`, by this interpreter."""
    return [sys.executable, "-m", "molsepnorm", "train", *arguments]


def keep(name: str, log: Path) -> Path | None:
    """Archive the run's folder, with the log of its last piece, where the next piece looks for it.

    Returns:
        The archive; None where nothing was begun. Of a run that has come to its end it has no
        checkpoint any more.
    """
    run = RunFolder(_RUNS / name)
    if not run.checkpoint.exists():
        return None
    shutil.copy(log, run.path / f"log-{int(time.time())}.txt")
    carried, left = _archives(name)
    for archive in (carried, left):
        archive.parent.mkdir(parents=True, exist_ok=True)
    _pack(run, left)
    shutil.copy(left, carried)
    return left


def forget(name: str) -> None:
    """Leave nothing of a run."""
    shutil.rmtree(_RUNS / name, ignore_errors=True)
    for archive in _archives(name):
        archive.unlink(missing_ok=True)


def _archives(name: str) -> tuple[Path, Path]:
    """Where it may be: as it was carried here, and as the last command here left it."""
    return _RUNS / f"{name}.tar", scratch() / "runs" / f"{name}.tar"


def _steps(archive: Path) -> float:
    """How far a run had come; ∞ where to its end."""
    with tarfile.open(archive) as packed:
        if any(each.name.endswith("/metrics.json") for each in packed):
            return math.inf
        member = next(each for each in packed if each.name.endswith("/last.safetensors"))
        checkpoint = packed.extractfile(member)
        assert checkpoint is not None
        header = json.loads(checkpoint.read(int.from_bytes(checkpoint.read(8), "little")))
    return int(json.loads(header["__metadata__"]["molsepnorm"])["progress"]["step"])


def _encode(begun: RunFolder | None, options: Sequence[str]) -> None:
    """Make the store that this run reads, while no clock runs."""
    if begun is not None:
        load(load_config(config=begun.config))
    else:
        load(configuration(train_command.make_context("train", list(options)).params))


def _run_for(seconds: float, arguments: list[str], log: Path) -> int:
    """The command's exit status; after so many seconds it is asked to save and stop."""
    process = subprocess.Popen(
        command(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    told = Thread(target=_tell, args=(process.stdout, log))
    told.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
    status = process.wait()
    told.join()
    return status


def _tell(lines: Iterable[str], log: Path) -> None:
    """Print what a command says, and keep it."""
    with open(log, "w") as file:
        for line in lines:
            print(line, end="", flush=True)
            file.write(line)


def _pack(run: RunFolder, archive: Path) -> None:
    """All of the run's folder, but nothing to go on from where it has come to its end."""

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        over = run.metrics.exists() and Path(member.name).name == run.checkpoint.parent.name
        return None if over else member

    with tarfile.open(archive, "w") as packed:
        packed.add(run.path, arcname=run.path.name, filter=wanted)
    if (size := archive.stat().st_size) > LARGEST:
        print(f"{archive.name} has {size / 2**20:.0f} MiB: more than what comes back from there")


def reached(name: str) -> dict[str, str]:
    """The last line of the run's history; empty before the first validation."""
    history = RunFolder(_RUNS / name).history
    rows = history.read_text().splitlines() if history.exists() else []
    return dict(zip(rows[0].split(","), rows[-1].split(","), strict=True)) if rows else {}


def outcome(status: int, name: str) -> tuple[int, str]:
    """The exit status, 0 for a run that was stopped and saved; and what became of it, in words."""
    run = RunFolder(_RUNS / name)
    if status == 0 and run.metrics.exists():
        metrics = json.loads(run.metrics.read_text())
        return 0, (
            f"finished: {name}, test MAE {metrics['test']['mae']:.4f}, validation "
            f"{metrics['val']['mae']:.4f}, {metrics['steps']:,} steps in {metrics['seconds']:.0f} s"
        )
    if status == STOPPED and run.checkpoint.exists():
        last = reached(name)
        at = "no epoch ended"
        if last:
            at = f"epoch {last['epoch']}, validation MAE {float(last['val_mae']):.4f}"
        return 0, f"go on ({at}): put {name}.tar into .gpu/runs and give the same command again"
    return status or 1, f"FAILED with status {status}: see {name}.log"
