"""`molsepnorm train` in pieces: each command goes on where the last one's archive ends.

The archive NAME.tar is the run: where there is one, its folder is made from it. It is written in
the end into $OUT, from where it comes back, and into the scratch folder, where the next command on
the same machine finds it though nobody brought it; of that one and the one in .gpu/runs, the one
that is further on counts.
"""

from __future__ import annotations

import json
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
from molsepnorm.cli.train import train as command
from molsepnorm.training import load_config
from molsepnorm.training.folder import RunFolder

__all__ = ["forget", "train", "train_for"]

_RUNS = Path(__file__).parents[2] / ".gpu" / "runs"
_MINUTES = 8.5
_PATIENCE = 40.0  # seconds that saving may take
_LARGEST = 16 << 20  # a file of $OUT
_STOPPED = 128 + signal.SIGTERM


def train(name: str, options: Sequence[str]) -> int:
    """Train into .gpu/runs/NAME; the exit status is 0 for a run that was stopped and saved, too.

    The options are those of `molsepnorm train`, and --minutes. Where there is an archive the run
    goes on as it began, whatever the options.
    """
    begun, options = time.monotonic(), list(options)
    minutes = _MINUTES
    if "--minutes" in options:
        at = options.index("--minutes")
        minutes = float(options[at + 1])
        del options[at : at + 2]
    status, said = train_for(60 * minutes, name, options)
    print(f"{said}\n{time.monotonic() - begun:.0f} s in all")
    return status


def train_for(seconds: float, name: str, options: Sequence[str]) -> tuple[int, str]:
    """The same for so long: the exit status, and a line that says what became of the run."""
    run, log = RunFolder(_RUNS / name), out() / f"{name}.log"
    archives = [path for path in _archives(name) if path.exists()]
    goes_on = bool(archives)
    shutil.rmtree(run.path, ignore_errors=True)
    if goes_on:
        with tarfile.open(max(archives, key=_steps)) as packed:
            packed.extractall(_RUNS, filter="data")
        print(f"{name} goes on as it began{f', without {options}' if options else ''}", flush=True)
    _encode(run if goes_on else None, options)
    place = "--resume" if goes_on else "--output"
    status = _run_for(seconds, [place, str(run.path), *([] if goes_on else options)], log)
    if run.checkpoint.exists():
        shutil.copy(log, run.path / f"log-{int(time.time())}.txt")
        _pack(run.path, out() / f"{name}.tar")
        for archive in _archives(name):
            archive.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(out() / f"{name}.tar", archive)
    return _said(status, name, run)


def forget(name: str) -> None:
    """Leave nothing of a run."""
    shutil.rmtree(_RUNS / name, ignore_errors=True)
    for archive in _archives(name):
        archive.unlink(missing_ok=True)


def _archives(name: str) -> tuple[Path, Path]:
    """Where it may be: as it was carried here, and as the last command here left it."""
    return _RUNS / f"{name}.tar", scratch() / "runs" / f"{name}.tar"


def _steps(archive: Path) -> int:
    """How far a run had come."""
    with tarfile.open(archive) as packed:
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
        load(configuration(command.make_context("train", list(options)).params))


def _run_for(seconds: float, arguments: list[str], log: Path) -> int:
    """The command's exit status; after so many seconds it is asked to save and stop."""
    process = subprocess.Popen(
        [sys.executable, "-m", "molsepnorm", "train", *arguments],
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
            process.wait(_PATIENCE)
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


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as packed:
        packed.add(folder, arcname=folder.name)
    if (size := archive.stat().st_size) > _LARGEST:
        print(f"{archive.name} has {size / 2**20:.0f} MiB: more than what comes back from there")


def _said(status: int, name: str, run: RunFolder) -> tuple[int, str]:
    if status == 0 and run.metrics.exists():
        metrics = json.loads(run.metrics.read_text())
        return 0, (
            f"finished: {name}, test MAE {metrics['test']['mae']:.4f}, validation "
            f"{metrics['val']['mae']:.4f}, {metrics['steps']:,} steps in {metrics['seconds']:.0f} s"
        )
    if status == _STOPPED and run.checkpoint.exists():
        rows = run.history.read_text().splitlines() if run.history.exists() else []
        last = dict(zip(rows[0].split(","), rows[-1].split(","), strict=True)) if rows else {}
        at = (
            f"epoch {last['epoch']}, validation MAE {last['val_mae']}" if last else "no epoch ended"
        )
        return 0, (
            f"go on ({at}): put {name}.tar into .gpu/runs and call "
            f"`bash benchmarks/gpu/run.sh train {name}`"
        )
    return status or 1, f"FAILED with status {status}: see {name}.log"
