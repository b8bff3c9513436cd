"""Stores in the cache with damaged content: refused, made anew, or the same training. Where the
digest is forged: refused, made anew, or numbers."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.fuzz import edits, promises
from benchmarks.fuzz.work import Work, command

PARTS = ("edits",)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    drawn = edits.draw(rng, ".store", rng.choice((1, 1, 1, 2)))
    return {"edits": drawn, "forged": rng.random() < 0.4}


def check(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / "store", "cache")
    (store,) = Path("cache").glob("*.store")
    edits.apply(store, case["edits"], case["forged"])
    os.environ["MOLSEPNORM_CACHE"] = str(Path("cache").resolve())
    try:
        result = command(["train", "--config", str(work.root / "tiny.yaml"), "-o", "run"])
    finally:
        os.environ["MOLSEPNORM_CACHE"] = str(work.root / "cache")
    promises.clean_exit(result)
    if result.code == 0:
        promises.same_run(work.root / "run", Path("run"), not case["forged"], "store")
