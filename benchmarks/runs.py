"""Train the runs of a list, several at a time, and log each run that ends.

    python benchmarks/runs.py benchmarks/accuracy/plan.yaml --at-once 2

A list is a YAML file::

    defaults: {dataset: zinc, epochs: 10}       # of every entry that does not override them
    runs:
      - name: ema-0.9999
        why: the average of 0.999 forgets within an epoch
        seeds: [0, 1, 2]                        # [0] by default
        config: configs/zinc.yaml               # any option of `molsepnorm train`, without --
        set: {optim.ema: 0.9999}

The first seeds of all entries train first, then the second seeds, and so on. A run that is in the
log is skipped. A run whose folder has a checkpoint resumes. After --minutes, or on Ctrl-C or
SIGTERM, all runs save and stop; the same command continues. A run whose configuration is refused
is not logged.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE), str(HERE.parent)]  # benchmarks/, and this checkout's package

import click  # noqa: E402
import yaml  # noqa: E402
from accuracy.log import LOG, append, from_folder, read  # noqa: E402

from molsepnorm.files.writing import cache_folder  # noqa: E402
from molsepnorm.training.run_folder.folder import RunFolder  # noqa: E402

__all__ = ["Run", "read_list", "train", "train_all"]

TRAIN = [sys.executable, "-m", "molsepnorm", "train"]

_PATIENCE = 40.0  # seconds that saving may take
_STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL)


@dataclass(frozen=True)
class Run:
    """One run to train."""

    name: str
    seed: int
    why: str
    arguments: tuple[str, ...]
    """Options of `molsepnorm train`."""

    def __str__(self) -> str:
        return f"{self.name}-{self.seed}"


def read_list(path: Path) -> list[Run]:
    """Read the runs of a list in the order in which they train.

    Raises:
        ValueError: the file is not a list of runs.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as a list of runs: {error}") from None
    if not isinstance(content, dict) or not set(content) <= {"runs", "defaults"}:
        raise ValueError(f"{path} must have 'runs', and may have 'defaults'")
    runs: list[tuple[int, Run]] = []
    for number, own in enumerate(content.get("runs") or [], start=1):
        where = f"{path}, run {number}"
        name = own.get("name") if isinstance(own, dict) else None
        if not re.fullmatch(r"\w[\w.=+-]*", str(name or "")):
            raise ValueError(f"{where} must have a name such as slower-ema; got {name!r}")
        defaults = content.get("defaults") or {}
        given = {"seeds": [0], "why": "", **defaults, **own}
        both = defaults.get("set") or {}, own.get("set") or {}
        if not all(isinstance(each, dict) for each in both):
            raise ValueError(f"{where} ({name}): set must look like {{optim.lr: 0.001}}")
        settings = {**both[0], **both[1]}
        seeds, why, _ = given.pop("seeds"), given.pop("why"), given.pop("name")
        given.pop("set", None)
        if not isinstance(seeds, list) or not all(isinstance(seed, int) for seed in seeds):
            raise ValueError(f"{where} ({name}): seeds must look like [0, 1]; got {seeds!r}")
        arguments = [f"--{key}={value}" for key, value in given.items()]
        arguments += [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
        for order, seed in enumerate(seeds):
            runs.append((order, Run(str(name), seed, why, (*arguments, f"--seed={seed}"))))
    names = [str(run) for _, run in runs]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{path} has {min(repeated)} twice")
    return [run for _, run in sorted(runs, key=lambda pair: pair[0])]


def train_all(
    runs: Sequence[Run], folder: Path, log: Path, at_once: int, threads: int, stop: Event
) -> int:
    """Train the runs that are not logged, `at_once` at a time, and return how many failed.

    Each run has the folder NAME-SEED and the output NAME-SEED.txt in `folder`. Once `stop` is set,
    runs save and stop, and no other run begins.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(f"another command trains in {folder}") from None
        logged = {(run.name, run.seed) for run in read(log)}
        waiting = [run for run in runs if (run.name, run.seed) not in logged]
        with ThreadPoolExecutor(at_once) as pool:
            outcomes = pool.map(
                lambda run: train(run, folder / str(run), log, threads, stop), waiting
            )
            return sum(not outcome for outcome in outcomes)


def train(run: Run, folder: Path, log: Path, threads: int, stop: Event) -> bool:
    """Train one run and log it; return False if it failed."""
    if stop.is_set():
        return True
    there, printed = RunFolder(folder), folder.with_name(f"{folder.name}.txt")
    arguments = [*run.arguments, "--output", str(folder)]
    if there.checkpoint.exists() or there.metrics.exists():
        arguments = ["--resume", str(folder)]
    elif folder.exists():
        shutil.rmtree(folder)  # a failed run that was taken out of the log
    number = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with open(printed, "a") as output:
        # in a session of its own, as Ctrl-C must not reach it beside the signal of `_wait`
        process = subprocess.Popen(
            [*TRAIN, *arguments],
            stdout=output,
            stderr=output,
            env={**os.environ, **number},
            start_new_session=True,
        )
        _tell(f"{run}: process {process.pid} prints to {printed}")
        status = _wait(process, stop)
    last = [*printed.read_text(errors="replace").splitlines(), ""][:-1][-1:]
    error = f"status {status}: {''.join(last)}"
    if stop.is_set() and status in _STOPPED:
        _tell(f"{run}: stopped; the same command continues")
        return True
    if status == 0 or there.config.exists():
        entry = from_folder(folder, run.name, run.seed, run.why, error if status else None)
        append(entry, log)
        error = entry.error or f"validation {entry.val}, test {entry.test}, {entry.seconds:.0f} s"
    _tell(f"{run}: {error}")
    return status == 0


def _wait(process: subprocess.Popen[bytes], stop: Event) -> int:
    """Return the exit status; once `stop` is set the process has to save and stop."""
    while process.poll() is None and not stop.wait(0.2):
        pass
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _tell(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {line}")


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    ").replace("::", ":"))
@click.argument("file", metavar="LIST", type=click.Path(path_type=Path))
@click.option("--at-once", type=click.IntRange(1), default=1, help="[default: 1]")
@click.option("--threads", type=click.IntRange(1), default=1, help="Per run. [default: 1]")
@click.option("--minutes", type=float, help="Save and stop after this time.")
@click.option(
    "--runs", type=click.Path(path_type=Path), help="Folder of the runs. [default: a cache]"
)
@click.option(
    "--log", type=click.Path(path_type=Path), default=LOG, help="[default: accuracy/log.jsonl]"
)
def main(
    file: Path, at_once: int, threads: int, minutes: float | None, runs: Path | None, log: Path
) -> None:
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, lambda *_: stop.set())
    if minutes is not None:
        signal.setitimer(signal.ITIMER_REAL, max(60 * minutes, 1e-3))
    try:
        listed = read_list(file)
        folder = (runs or cache_folder() / "accuracy").absolute()
        failed = train_all(listed, folder, log, at_once, threads, stop)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
