"""Stores in the cache with damaged content: refused, made anew, or the same training."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.fuzz import edits, promises
from benchmarks.fuzz.kinds.runs import _content
from benchmarks.fuzz.work import Work, command

PARTS = ("edits",)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    return {"edits": edits.draw(rng, ".store", rng.choice((1, 1, 1, 2)))}


def check(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / "store", "cache")
    (store,) = Path("cache").glob("*.store")
    edits.apply(store, case["edits"])
    os.environ["MOLSEPNORM_CACHE"] = str(Path("cache").resolve())
    try:
        result = command(["train", "--config", str(work.root / "tiny.yaml"), "-o", "run"])
    finally:
        os.environ["MOLSEPNORM_CACHE"] = str(work.root / "cache")
    promises.clean_exit(result)
    if result.code == 0:
        for name in ("metrics.json", "predictions_test.csv"):
            old, new = (_content(folder / name) for folder in (work.root / "run", Path("run")))
            promises.same_numbers(old, new, f"{name}, store")
