"""Works through a plan, a process for each run.

    taskset -c 1 python benchmarks/accuracy/worker.py            # plan.yaml, to its end
    taskset -c 1 python benchmarks/accuracy/worker.py --wait     # and then waits for more entries

It takes the first run that is neither in the log nor being made by another worker, and reads the
plan anew after each, so that it can be edited meanwhile. It ends when there is none left, or before
the next run when there is a file `stop` beside the plan. A run whose configuration cannot be had is
left until its entry, or the package's source, is changed. What a run prints goes to
<runs>/<name>-<seed>.txt.

To end one run, and log it as it is: kill its process (its number is printed). To end a worker and
let its run finish and be logged: kill the worker.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402

from accuracy.log import LOG, read  # noqa: E402
from accuracy.plan import PLAN, Entry, read_plan  # noqa: E402
from molsepnorm.files.writing import fingerprint  # noqa: E402

__all__ = ["Worker", "claimed"]

_PAUSE = 20.0  # seconds until an unreadable or empty plan is looked at again
_REFUSED = 2  # run.py's exit status where it logs nothing, so that nothing is done twice


class Worker:
    """Makes the runs of a plan.

    Args:
        plan, log: their files.
        runs: where runs have their folders and what they print.
        command: makes one, given its name and arguments; it must add a line to the log.
    """

    def __init__(self, plan: Path, log: Path, runs: Path, command: Sequence[str]) -> None:
        self.plan, self.log, self.runs, self.command = plan, log, runs, command
        self._refused: set[tuple[Entry, str]] = set()

    def one(self) -> bool:
        """Make the first run that is left; false if none is, or if a file `stop` is there.

        Raises:
            ValueError: the plan or the log cannot be read.
        """
        if self.plan.with_name("stop").exists():
            return False
        logged, code = read(self.log), _code()
        for entry in read_plan(self.plan):
            if (entry, code) in self._refused or entry.done(logged):
                continue
            with claimed(entry, self.log) as claim:
                # another worker may have made it since the log was read
                if claim is not None and not entry.done(read(self.log)):
                    self._make(entry, claim, code)
                    return True
        return False

    def _make(self, entry: Entry, claim: int, code: str) -> None:
        self.runs.mkdir(parents=True, exist_ok=True)
        printed, before = self.runs / f"{entry.name}-{entry.seed}.txt", len(read(self.log))
        places = ("--log", str(self.log), "--runs", str(self.runs))
        with open(printed, "w") as output:
            process = subprocess.Popen(
                [*self.command, entry.name, *entry.arguments, *places],
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[claim],  # which is held for as long as the run lives, whatever we do
            )
            _tell(f"{entry.told}: begun as process {process.pid}, prints to {printed}")
            status = process.wait()
        tail = printed.read_text(errors="replace").splitlines()[-1:]
        _tell(f"{entry.told}: exit status {status}: {''.join(tail)}")
        mine = [(run.name, run.seed) for run in read(self.log)[before:]]
        if (entry.name, entry.seed) not in mine:
            self._refused.add((entry, code))


@contextmanager
def claimed(entry: Entry, log: Path) -> Iterator[int | None]:
    """Within, no other worker on this log has this run: an open file that holds the claim, or None
    where another one has it."""
    folder = log.with_name(".claims")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{entry.name}-{entry.seed}", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file.fileno()


def _code() -> str:
    """Of the package as it is now: what could not be read before may have been mended."""
    return fingerprint(*sorted((HERE.parents[1] / "molsepnorm").rglob("*.py")))


def _tell(what: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {what}")


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("plan", type=click.Path(path_type=Path), default=PLAN)
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
@click.option("--runs", type=click.Path(path_type=Path), help="Scratch folder. [default: a cache]")
@click.option("--wait", is_flag=True, help="For more entries when all are made.")
def main(plan: Path, log: Path, runs: Path | None, wait: bool) -> None:
    from molsepnorm.data.datasets.dataset import cache_folder

    runs = runs or cache_folder() / "accuracy"
    worker = Worker(plan, log.resolve(), runs, [sys.executable, str(HERE / "run.py")])
    try:
        read_plan(plan), read(log)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    while True:
        try:
            again: bool | None = worker.one()
        except ValueError as error:  # it is being edited, perhaps
            _tell(str(error))
            again = None
        if plan.with_name("stop").exists() or (again is False and not wait):
            break
        if not again:
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
