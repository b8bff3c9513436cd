"""Commands that are killed repeatedly, or run twice at once.

In the end their results are those of an undisturbed command, and no temporary file is left.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import Work, command

PARTS = ()
SECONDS = 60
BATCH = 5

_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "fcntl.flock")
_COMMANDS = {
    "train": "train --config ROOT/long.yaml -o run",
    "prepare": "data prepare --config ROOT/tiny.yaml",
    "predict": "predict --model ROOT/run -i ROOT/table.csv -o out.csv --processes 1",
}


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    """Draw kills after a number of file operations or of seconds."""
    name = rng.choice(("train", "train", "prepare", "predict"))
    operations, seconds = {"train": (1150, 2.5), "prepare": (130, 0.2), "predict": (30, 0.2)}[name]
    kills = [
        rng.choice((["event", rng.randrange(operations)], ["seconds", rng.random() * seconds]))
        for _ in range(rng.randint(2, 6))
    ]
    return {"command": name, "kills": kills, "crowd": rng.choice((1, 1, 2))}


def check(case: dict[str, Any], work: Work) -> None:
    os.environ["MOLSEPNORM_CACHE"] = "cache"
    try:
        if case["command"] != "prepare":
            shutil.copytree(work.root / "store", "cache")
        for kill in case["kills"]:
            _outcomes(case, kill, work)
            if case["command"] == "predict" and Path("out.csv").exists():
                _require_same(work.root / "out.csv", Path("out.csv"))
        for code, text in _outcomes(case, None, work) + _outcomes({**case, "crowd": 1}, None, work):
            done = "exists and is not empty" in text and Path("run/metrics.json").exists()
            if code and not done and not (case["crowd"] > 1 and "another process" in text):
                raise promises.Broken("kills", f"it fails in the end: {text}", text[:60])
        _require_results(case["command"], work)
    finally:
        os.environ["MOLSEPNORM_CACHE"] = str(work.root / "cache")


def _require_results(name: str, work: Work) -> None:
    if name == "predict":
        _require_same(work.root / "out.csv", Path("out.csv"))
    elif name == "prepare":
        (store,) = Path("cache").glob("*.store")
        _require_same(work.root / "store" / store.name, store)
    else:
        promises.same_run(work.root / "whole", Path("run"), True, "killed")
        for file in ("model/model.safetensors", "model/config.json", "predictions_test.csv"):
            _require_same(work.root / "whole" / file, Path("run") / file)
    ends = (".partial", ".old", ".spool", ".lock")
    left = [str(path) for path in Path().rglob("*") if path.name.endswith(ends)]
    if left:
        raise promises.Broken("nothing half done", f"{left} is left", f"left by {name}")


def _require_same(before: Path, after: Path) -> None:
    if before.read_bytes() != after.read_bytes():
        raise promises.Broken("kills", f"{after} differs from that of an undisturbed command")


def _outcomes(case: dict[str, Any], kill: list | None, work: Work) -> list[tuple[int, str]]:
    """Run the command as many times at once as the case says, and kill the first."""
    line = _COMMANDS[case["command"]].replace("ROOT", str(work.root))
    if Path("run/checkpoints/last.safetensors").exists():
        line = "train --resume run"
    started = []
    for number in range(case["crowd"]):
        ours, theirs = Pipe(duplex=False)
        child = os.fork()
        if not child:
            _serve(line.split(), None if number else kill, theirs)
        theirs.close()
        started.append((child, ours))
    outcomes = []
    for child, ours in started:
        try:
            code, text, broken = ours.recv()
        except EOFError:
            code, text, broken = 0, "", None  # killed
        os.waitpid(child, 0)
        if broken is not None:
            raise broken
        outcomes.append((code, text))
    return outcomes


def _serve(arguments: list[str], kill: list | None, channel: Connection) -> None:
    """Run the command in a child."""
    try:
        if kill is not None and kill[0] == "seconds":
            signal.setitimer(signal.ITIMER_REAL, kill[1] + 1e-3)  # SIGALRM ends the process
        elif kill is not None:
            _die_after(kill[1])
        result = command(arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            promises.clean_exit(result)
            broken = None
        except promises.Broken as error:
            broken = error.with_traceback(None)
        channel.send((result.code, f"{result.err}{result.error or ''}", broken))
    finally:
        os._exit(0)


def _die_after(operations: int) -> None:
    left = operations

    def count(event: str, arguments: tuple) -> None:
        nonlocal left
        if event in _EVENTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
