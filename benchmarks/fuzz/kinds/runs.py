"""Run folders with a damaged file, resumed: refused, or the results of an undisturbed run."""

from __future__ import annotations

import json
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
    *("model/config.json", "model/model.safetensors"),
)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    name = rng.choice(_FILES)
    return {
        "file": name,
        "edits": edits.draw(rng, name, rng.choice((1, 1, 1, 2))),
        "of": "finished" if rng.random() < 0.2 else "stopped",
    }


def check(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / ("resumed" if case["of"] == "finished" else "stopped"), "run")
    edits.apply(Path("run") / case["file"], case["edits"])
    result = command(["train", "--resume", "run"])
    promises.clean_exit(result)
    if result.code == 0 and case["file"] not in ("rejected.csv", "environment.json"):
        for name in ("metrics.json", "predictions_test.csv", "history.csv"):
            old, new = (_content(folder / name) for folder in (work.root / "resumed", Path("run")))
            promises.same_numbers(old, new, f"{name}, {case['file']}")


def _content(path: Path) -> Any:
    """What must be as before, without times; None where there is no such file."""
    if not path.exists():
        return None
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        return {name: value for name, value in content.items() if name != "seconds"}
    rows = promises.read_back(path)
    timed = [place for place, name in enumerate(rows[0]) if "second" in name]
    return [[cell for place, cell in enumerate(row) if place not in timed] for row in rows]
