"""Commands that are killed, run out of disk space or lose the right to write, and are repeated.

    python -m benchmarks.kills --kills 5 --seed 0                every command, five times per fault
    python -m benchmarks.kills --command train --fault kill --at 17      one case again

A command runs once without a fault. Then it runs in a new folder with a fault at a random moment,
and is repeated or resumed without the fault. Three things must hold:

- After the fault, each file under a final name is complete, and none that was there is gone.
- A command that fails prints a message and no traceback, and its exit status is not 0.
- After the repetition, the files equal those of the undisturbed run, and no others are left.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from safetensors.numpy import load

from molsepnorm.cli.main import main as molsepnorm

FAULTS = ("kill", "time", "full", "readonly")
"""kill and time: ended at once, before a file operation or after a number of seconds. full and
readonly: from a file operation on, all that need space, or all, fail."""
LIMIT = 180  # seconds after which a command counts as hanging

# a network that trains in a second; common files lie two folders above a case
_SMALL = (
    "--layers 1 --set model.width=8 --set model.ffn_width=8 --set model.heads=2 "
    "--set model.max_path_length=3 --device cpu --threads 1 --batch-size 16"
)
_DATA = f"--data ../../table.csv --targets y {_SMALL}"
_PROBE = f"--data ../../other.csv --targets z {_SMALL} --epochs 1 --from ../../model"
_USE = "--model ../../model --input ../../table.csv --device cpu"
COMMANDS = {
    "train": f"train {_DATA} --epochs 3 --output run",
    "train-ensemble": f"train {_DATA} --epochs 3 --ensemble 2 --output run",
    "train-from": f"train {_PROBE} --output run",
    "pretrain": f"pretrain --data ../../structures.csv {_SMALL} --epochs 2 --output run",
    "check": "data check ../../table.csv --targets y --fix fixed.csv",
    "predict": f"predict {_USE} --output out.csv",
    "predict-parquet": f"predict {_USE} --output out.parquet",
    "embed": f"embed {_USE} --output out.parquet",
    "screen": f"screen {_USE} --processes 1 --rows-per-part 10 --top 5 --output hits",
    "explain": "explain --model ../../model --smiles CCO --device cpu --output out.json",
    "ensemble": "models join ../../model --output joined",
    "benchmark": f"benchmark {_DATA} --epochs 3 --seeds 2 --output seeds",
    "tune": f"tune {_DATA} --epochs 3 --trials 2 --space ../../space.yaml --output tuned",
}
"""Command lines by name. Outputs are relative paths."""

_EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TIMES = "second|time|duration"
# files with times, or drawn by a library
_UNCOMPARED = {"log.txt", "environment.json", "report.html", "README.md", "importance.png"}


@dataclass(frozen=True)
class Outcome:
    """Exit status (negative for a signal), output, and file operations: event, path, new path."""

    code: int
    output: str
    operations: tuple[tuple[str, str, str], ...]
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code in (-signal.SIGKILL, -signal.SIGALRM)


def continued(line: str) -> str:
    """Return the command line for where the same one refuses to run again."""
    command = line.split()[0]
    return f"{command} --resume run" if command in ("train", "pretrain") else f"{line} --force"


def call(line: str) -> None:
    """Run the command line `molsepnorm`."""
    molsepnorm.main(line.split(), prog_name="molsepnorm")


def run(
    line: str,
    folder: Path,
    fault: str = "",
    at: float = 0,
    command: Callable[[str], None] = call,
) -> Outcome:
    """Run a command line in a forked child, with a fault from the file operation, or after the
    seconds, `at`. The child's current folder is `folder`, whose file operations are observed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
        child = os.fork()
        if not child:
            code = 0
            torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8") for n in (1, 2))
            try:
                os.chdir(folder)
                os.environ["MOLSEPNORM_CACHE"] = str(folder / "cache")
                sys.addaudithook(_hook(folder.resolve(), fault, at, log.fileno()))
                signal.setitimer(signal.ITIMER_REAL, max(at, 1e-3) if fault == "time" else LIMIT)
                command(line)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
                code = 70
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seconds = time.monotonic() - begun
        output.seek(0)
        log.seek(0)
        operations = [tuple(each.split("\t")) for each in log.read().splitlines()]
        return Outcome(code, output.read(), tuple(operations), seconds)


def _hook(folder: Path, fault: str, at: float, log: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that logs file operations below a folder and has the fault. Native code,
    such as SQLite's, raises no audit event; `time` ends the command between events, too."""
    done = 0

    def inside(path: Any) -> str:
        relative = os.path.relpath(os.fsdecode(path), folder)
        return "" if relative.startswith("..") else relative

    def hook(event: str, values: tuple[Any, ...]) -> None:
        nonlocal done
        reads = event == "open" and not (values[2] or 0) & _CHANGES
        if reads or event not in _EVENTS or isinstance(values[0], int | None):
            return
        if not (path := inside(values[0])):
            return
        to = inside(values[1]) if event == "os.rename" else ""
        os.write(log, f"{event}\t{path}\t{to}\n".encode("utf-8", "replace"))
        done += 1
        if done > at and fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if done > at and fault == "full" and event in ("open", "os.mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), values[0])
        if done > at and fault == "readonly":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), values[0])

    return hook


def files(folder: Path) -> dict[str, Path]:
    """Return all files by name."""
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def incomplete(folder: Path) -> list[str]:
    """Return the files under final names that cannot be read to the end."""
    found = []
    for name, path in files(folder).items():
        if "/." in f"/{name}" or path.name == "log.txt":  # temporary, or written line by line
            continue
        try:
            _READERS.get(path.suffix, _text)(path)
        except Exception as error:
            found.append(f"{name} is incomplete: {type(error).__name__}: {error}")
    return found


def _text(path: Path) -> None:
    content = path.read_bytes()
    if not content.strip() or (path.suffix == ".csv" and not content.endswith(b"\n")):
        raise ValueError("its end is missing")


_READERS: dict[str, Callable[[Path], Any]] = {
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".parquet": pd.read_parquet,
    ".safetensors": lambda path: load(path.read_bytes()),
    ".zip": lambda path: zipfile.ZipFile(path).testzip(),
}


def lost(folder: Path, operations: tuple[tuple[str, str, str], ...]) -> list[str]:
    """Return final names that were in place before the last operation, and are no longer there."""
    there: set[str] = set()
    for event, path, to in operations[:-1]:
        if event == "os.rename" and "/." not in f"/{to}":
            there.add(to)
        elif event in ("os.remove", "os.rmdir"):
            there.discard(path)
    return [f"{each} is gone" for each in sorted(there) if not (folder / each).exists()]


def unclear(outcome: Outcome) -> list[str]:
    """Return what is wrong with the end of a command that had an error."""
    silent = outcome.code and not re.search(r"\bError: |cannot ", outcome.output)
    if silent or "Traceback" in outcome.output or outcome.code < 0:
        return [f"exit status {outcome.code}, unclear: {outcome.output[-1500:]}"]
    return []


def differences(folder: Path, undisturbed: Path, names_only: bool = False) -> list[str]:
    """Return the files that are missing, left over or different, without times."""
    ours, theirs = files(folder), files(undisturbed)
    found = [f"{name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    found += [f"{name} is left over" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        file = ours[name].name
        if file in _UNCOMPARED or (names_only and file != "trials.csv"):
            continue
        if _comparable(ours[name]) != _comparable(theirs[name]):
            found.append(f"{name} differs")
    return found


def _comparable(path: Path) -> Any:
    """Return the content of a file without times."""
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.name == "trials.csv":  # interrupted trials are replaced by others
        return int((pd.read_csv(path)["state"] == "complete").sum())
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return table[[name for name in table if not re.search(_TIMES, str(name))]].to_csv()
    if path.name == "last.safetensors":
        return {name: array.tobytes() for name, array in load(path.read_bytes()).items()}
    return path.read_bytes()


def _without_times(value: Any) -> Any:
    """Return plain values without the entries whose names are those of times."""
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_times(each) for name, each in value.items() if not re.search(_TIMES, name)
    }


class Campaign:
    """Disturbs commands in a folder of its own, in which it makes the tables and a model."""

    def __init__(self, work: Path) -> None:
        self.work, self.known = work, dict[str, tuple[Path, Outcome]]()
        demo = pd.read_csv(Path(__file__).parents[1] / "data/demo.csv", dtype=str)
        rows = demo[["smiles", "penalised_logp"]].head(40)
        for name, target in (("table.csv", "y"), ("other.csv", "z")):
            rows.set_axis(["smiles", target], axis=1).to_csv(work / name, index_label="id")
        demo[["smiles"]].head(210).to_csv(work / "structures.csv", index=False)
        (work / "space.yaml").write_text("optim:\n  lr: [0.001, 0.002]\n")
        shutil.copytree(self.undisturbed("train")[0] / "run", work / "model")

    def undisturbed(self, name: str) -> tuple[Path, Outcome]:
        """Return the folder and the outcome of a command without a fault, which must succeed."""
        if name not in self.known:
            folder = self._folder("undisturbed", name)
            outcome = run(COMMANDS[name], folder)
            if outcome.code:
                raise SystemExit(f"{name} fails without a fault:\n{outcome.output}")
            self.known[name] = folder, outcome
        return self.known[name]

    def moment(self, name: str, fault: str, number: int, seed: int = 0) -> float:
        """Draw the moment of a case."""
        outcome, rng = self.undisturbed(name)[1], random.Random(f"{seed}/{name}/{fault}/{number}")
        if fault == "time":
            return rng.uniform(0, outcome.seconds)
        return rng.randrange(len(outcome.operations))

    def try_case(self, name: str, fault: str, at: float) -> tuple[Outcome, list[str]]:
        """Run a command with a fault, and repeat it; return what did not hold."""
        line, undisturbed = COMMANDS[name], self.undisturbed(name)[0]
        folder, names_only = self._folder("case", name), name == "tune"
        outcome = run(line, folder, fault, at)
        found = incomplete(folder)
        if outcome.killed:
            found += lost(folder, outcome.operations)
            found += ["it hangs"] * (outcome.code == -signal.SIGALRM and fault != "time")
        else:
            found += unclear(outcome)
        if outcome.code:
            found += self._repeat(line, folder)
        # a lock ends with its process, and a run that is complete is not locked again
        allowed = [".lock is left over"]
        if not outcome.code:  # a report that cannot be written is a warning
            allowed.append("report.html is missing")
        changed = differences(folder, undisturbed, names_only)
        changed = [each for each in changed if not each.endswith(tuple(allowed))]
        return outcome, found + changed

    def _repeat(self, line: str, folder: Path) -> list[str]:
        first = run(line, folder)
        second = run(continued(line), folder) if first.code else first
        return [f"it cannot be repeated: {first.output}{second.output}"] if second.code else []

    def _folder(self, kind: str, name: str) -> Path:
        """Return an empty folder, of the same name for all cases of a command."""
        folder = self.work / kind / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


@click.command()
@click.option("--kills", type=int, default=5, help="Cases per command and fault.")
@click.option("--seed", type=int, default=0, help="Random seed of the moments.")
@click.option("--command", "names", multiple=True, type=click.Choice(list(COMMANDS)))
@click.option("--fault", "faults", multiple=True, type=click.Choice(FAULTS))
@click.option("--at", type=float, help="The moment of one case, in place of random ones.")
def main(
    kills: int, seed: int, names: tuple[str, ...], faults: tuple[str, ...], at: float | None
) -> None:
    """Disturb commands at random moments, and list what is not as if they had not been."""
    cases: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="molsepnorm-kills-") as folder:
        campaign = Campaign(Path(folder).resolve())
        for number in range(kills if at is None else 1):
            for name in names or COMMANDS:
                for fault in faults or FAULTS:
                    moment = campaign.moment(name, fault, number, seed) if at is None else at
                    outcome, found = campaign.try_case(name, fault, moment)
                    ended = "killed" if outcome.killed else f"exit status {outcome.code}"
                    print(
                        f"{name} --fault {fault} --at {moment:.6g}: {ended}",
                        *outcome.operations[-1:],
                    )
                    print("".join(f"    {each}\n" for each in found), end="", flush=True)
                    cases += [bool(found)]
    print(f"{sum(cases)} of {len(cases)} cases have findings")
    sys.exit(any(cases))


if __name__ == "__main__":
    main()
