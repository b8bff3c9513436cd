"""Damaged files in model folders, run folders and stores: refused, or the results of before.

If the digests are forged to match the damage: refused, or finite numbers.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.fuzz import edits, promises
from benchmarks.fuzz.work import Work, command
from molsepnorm import Predictor

_SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "not a molecule", "C"]
_RUN_FILES = (
    *("checkpoints/last.safetensors",) * 6,
    *("history.csv", "splits.json", "environment.json", "config.yaml", "rejected.csv"),
    *("metrics.json", "model/config.json", "model/model.safetensors"),
)
_UNUSED = ("rejected.csv", "environment.json")
_COMMANDS = {
    "resume": "train --resume run",
    "evaluate": "evaluate --model run --data TABLE --json",
    "analyze": "analyze --model run -o analysis",
}


def _make(rng: random.Random, name: str) -> dict[str, Any]:
    drawn = edits.draw(rng, name, rng.choice((1, 1, 1, 2)))
    can = name.endswith((".safetensors", "config.json", ".store"))
    return {"file": name, "edits": drawn, "forged": rng.random() < 0.4 and can}


def _make_model(rng: random.Random, work: Work) -> dict[str, Any]:
    name = rng.choice(("config.json", "config.json", "model.safetensors"))
    return {**_make(rng, name), "command": rng.random() < 0.2}


def _check_model(case: dict[str, Any], work: Work) -> None:
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
    for old, new in zip(work.predictor.predict(_SMILES), after, strict=True):
        values = list((new.values or {"": None}).values())
        if case["forged"]:
            values = [0 if type(value) is str else value for value in values]  # any classes
        promises.number_or_reason(values, new.error, new.smiles)
        if not case["forged"]:
            promises.same_numbers(old.values, new.values, f"predictions, {case['file']}")


def _make_run(rng: random.Random, work: Work) -> dict[str, Any]:
    return {
        **_make(rng, rng.choice(_RUN_FILES)),
        "of": "whole" if rng.random() < 0.2 else "stopped",
        "command": rng.choice(("resume",) * 6 + ("evaluate", "analyze")),
    }


def _check_run(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / case["of"], "run")
    edits.apply(Path("run") / case["file"], case["edits"], case["forged"])
    given = _COMMANDS[case["command"]].replace("TABLE", str(work.root / "table.csv")).split()
    result = command(given)
    promises.clean_exit(result)
    if result.code:
        return
    same = not case["forged"] and case["file"] not in _UNUSED
    if case["command"] == "evaluate":
        promises.numbers(result.out)
        before = command(["evaluate", "--model", str(work.root / case["of"]), *given[3:]])
        if same:
            promises.same_numbers(before.out, result.out, f"scores, {case['file']}")
    elif case["command"] == "resume":
        promises.same_run(work.root / "whole", Path("run"), same, case["file"])


def _make_store(rng: random.Random, work: Work) -> dict[str, Any]:
    return _make(rng, ".store")


def _check_store(case: dict[str, Any], work: Work) -> None:
    """A damaged store may also be made again."""
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


KINDS = {
    name: SimpleNamespace(__name__=name, PARTS=("edits",), make=make, check=check)
    for name, make, check in (
        ("models", _make_model, _check_model),
        ("runs", _make_run, _check_run),
        ("stores", _make_store, _check_store),
    )
}
