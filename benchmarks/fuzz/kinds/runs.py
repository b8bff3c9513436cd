"""Run folders with a damaged file, resumed, evaluated or analyzed: refused, or the results of an
undisturbed run. Where the digests are forged: refused, or numbers."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.fuzz import edits, promises
from benchmarks.fuzz.work import Work, command

PARTS = ("edits",)

_FILES = (
    *("checkpoints/last.safetensors",) * 6,
    *("history.csv", "splits.json", "environment.json", "config.yaml", "rejected.csv"),
    *("metrics.json", "model/config.json", "model/model.safetensors"),
)
_COMMANDS = {
    "resume": "train --resume run",
    "evaluate": "evaluate --model run --data TABLE --json",
    "analyze": "analyze --model run -o analysis",
}
_UNUSED = ("rejected.csv", "environment.json")


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    name = rng.choice(_FILES)
    return {
        "file": name,
        "edits": edits.draw(rng, name, rng.choice((1, 1, 1, 2))),
        "forged": rng.random() < 0.4 and name.endswith((".safetensors", "config.json")),
        "of": "whole" if rng.random() < 0.2 else "stopped",
        "command": rng.choice(("resume",) * 6 + ("evaluate", "analyze")),
    }


def check(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / case["of"], "run")
    edits.apply(Path("run") / case["file"], case["edits"], case["forged"])
    given = _COMMANDS[case["command"]].replace("TABLE", str(work.root / "table.csv"))
    result = command(given.split())
    promises.clean_exit(result)
    if result.code:
        return
    same = not case["forged"] and case["file"] not in _UNUSED
    if case["command"] == "evaluate":
        promises.numbers(result.out)
        before = command(["evaluate", "--model", str(work.root / case["of"]), *given.split()[3:]])
        if same and before.out != result.out:
            what = f"{before.out:.300} became {result.out:.300}"
            raise promises.Broken("damage is noticed", what, f"scores, {case['file']}")
    elif case["command"] == "resume":
        promises.same_run(work.root / "whole", Path("run"), same, case["file"])
