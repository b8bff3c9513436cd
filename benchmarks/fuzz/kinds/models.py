"""Model folders with a damaged file: refused, or the numbers of before. Where the digests are
forged: refused, or numbers."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.fuzz import edits, promises
from benchmarks.fuzz.work import Work, command
from molsepnorm import Predictor

PARTS = ("edits",)

_SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "not a molecule", "C"]


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    name = rng.choice(("config.json", "config.json", "model.safetensors"))
    drawn = edits.draw(rng, name, rng.choice((1, 1, 1, 2)))
    forged, cli = rng.random() < 0.4, rng.random() < 0.2
    return {"file": name, "edits": drawn, "forged": forged, "command": cli}


def check(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / "run" / "model", "model")
    edits.apply(Path("model") / case["file"], case["edits"], case["forged"])
    if case["command"]:
        given = [part for text in _SMILES for part in ("--smiles", text)]
        result = command(["predict", "--model", "model", "--processes", "1", *given])
        promises.clean_exit(result)
        before = command(["predict", "--model", str(work.root / "run"), "--processes", "1", *given])
        if result.code == 0 and not case["forged"]:
            promises.same_numbers(before.out, result.out, f"predictions, {case['file']}")
        return
    try:
        after = Predictor.from_pretrained("model").predict(_SMILES)
    except Exception as error:
        promises.our_error(error)
        return
    before = work.predictor.predict(_SMILES)
    for old, new in zip(before, after, strict=True):
        values = list((new.values or {"": None}).values())
        if case["forged"]:
            values = [0 if type(value) is str else value for value in values]  # any classes
        promises.number_or_reason(values, new.error, new.smiles)
        if not case["forged"]:
            promises.same_numbers(old.values, new.values, f"predictions, {case['file']}")
