"""Damaged files in folders of models, runs and screens: refused, or the results of before.

If the digests are forged to match the damage: refused, or finite numbers. Damage is a list of
edits of bytes, of values in JSON and of tensors. An edit is a list of a name, numbers and a value;
`_apply` uses the numbers modulo the size.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import SCREEN, Work, command
from molsepnorm import Predictor
from molsepnorm.files.digests import BLANK, KEY, json_digest, write_sealed
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.predict.screening import screen

_VALUES = (
    *("null", "true", "false", '""', '"x"', '"1"', "[]", "{}", "[1]", "[[]]", '{"a": 1}', "-1"),
    *("0", "1", "2", "3", "255", "100000", "1000000000", "9223372036854775808", "1" + "0" * 400),
    *("1e308", "1e400", "NaN", "Infinity", "-Infinity", "0.5", "1e-320", '"\\u0000"'),
    *('"\\ud800"', '"\\u001b[31m"', "9" * 5000, "[" * 3000 + "]" * 3000),
    *('"' + "x" * 10_000 + '"', "DELETE", "DOUBLE"),
)
_SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "not a molecule", "C"]
_RUN_FILES = (
    *("checkpoints/last.safetensors",) * 6,
    *("history.csv", "splits.json", "environment.json", "config.yaml", "rejected.csv"),
    *("metrics.json", "model/config.json", "model/model.safetensors"),
)
_UNUSED = ("rejected.csv", "environment.json")


def _make(rng: random.Random, name: str) -> dict[str, Any]:
    """Draw edits that suit a file of this name."""
    ops = ["flip", "flip", "cut", "insert", "keep", "delete"]
    if name.endswith((".json", ".safetensors")):
        ops += ["json"] * 8
    if name.endswith(".safetensors"):
        ops += ["flip"] * 4 + ["fill"] * 2 + ["inner"] * 3
    edits = [
        [rng.choice(ops), rng.randrange(1 << 30), rng.randrange(1 << 30), rng.choice(_VALUES)]
        for _ in range(rng.choice((1, 1, 1, 2)))
    ]
    can = name.endswith((".safetensors", "config.json", "manifest.json"))
    return {"file": name, "edits": edits, "forged": rng.random() < 0.4 and can}


def _make_model(rng: random.Random, work: Work) -> dict[str, Any]:
    files = ("config.json", "config.json", "model.safetensors", TRAINING_FILE)
    return _make(rng, rng.choice(files))


def _check_model(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / "run" / "model", "model")
    _apply(Path("model") / case["file"], case["edits"], case["forged"])
    domain = case["file"] == TRAINING_FILE
    try:
        after = Predictor.from_pretrained("model", domain=domain).predict(_SMILES)
    except Exception as error:
        promises.our_error(error)
        return
    before = Predictor(work.predictor.model, domain=domain).predict(_SMILES)
    for old, new in zip(before, after, strict=True):
        values = list((new.values or {"": None}).values())
        if case["forged"]:
            values = [0 if type(value) is str else value for value in values]  # any classes
        promises.number_or_reason(values, new.error, new.smiles)
        if not case["forged"]:
            promises.same_numbers(old.values, new.values, f"predictions, {case['file']}")
            promises.same_numbers(old.domain, new.domain, f"domain, {case['file']}")


def _make_run(rng: random.Random, work: Work) -> dict[str, Any]:
    of = "whole" if rng.random() < 0.2 else "stopped"
    return {**_make(rng, rng.choice(_RUN_FILES)), "of": of}


def _check_run(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / case["of"], "run")
    _apply(Path("run") / case["file"], case["edits"], case["forged"])
    result = command(["train", "--resume", "run"])
    promises.clean_exit(result)
    if result.code == 0:
        same = not case["forged"] and case["file"] not in _UNUSED
        promises.same_run(work.root / "whole", Path("run"), same, case["file"])


def _make_screen(rng: random.Random, work: Work) -> dict[str, Any]:
    parts = sorted(path.name for path in (work.root / "screened" / "parts").iterdir())
    file = rng.choice(("manifest.json", "manifest.json", "manifest.json", f"parts/{parts[0]}"))
    return {**_make(rng, file), "missing": rng.sample(parts, rng.randrange(len(parts)))}


def _check_screen(case: dict[str, Any], work: Work) -> None:
    shutil.copytree(work.root / "screened", "screened")
    for name in case["missing"]:
        (Path("screened") / "parts" / name).unlink()
    _apply(Path("screened") / case["file"], case["edits"], case["forged"])
    try:
        screen(work.predictor, [str(work.root / "table.csv")], "screened", SCREEN)
    except Exception as error:
        promises.our_error(error)
        return
    if case["file"] == "manifest.json":
        before, after = _rows(work.root / "screened"), _rows(Path("screened"))
        promises.same_numbers(before, after, "rows of a screen")


def _rows(folder: Path) -> list[list[Any]]:
    parts = sorted((folder / "parts").glob("*.parquet"))
    return pd.concat(map(pd.read_parquet, parts)).round(3).fillna("").to_numpy().tolist()


def _apply(path: Path, edits: list[list[Any]], forged: bool = False) -> None:
    """Damage the file; with `forged`, make its digests match the damage."""
    for op, position, number, value in edits:
        if not path.is_file():
            return
        content = bytearray(path.read_bytes())
        at = position % max(len(content), 1)
        if op == "delete":
            path.unlink()
            return
        if op == "flip" and content:
            content[at] ^= 1 << number % 8
        elif op == "cut":
            del content[at : at + 1 + number % 16]
        elif op == "insert":
            content[at:at] = bytes([number % 256] * (1 + number % 9))
        elif op == "keep":
            del content[at:]
        elif op in ("json", "inner", "fill"):
            content = _structured(path, bytes(content), op, position, number, value)
        path.write_bytes(content)
    if forged:
        _forge(path)


def _forge(path: Path) -> None:
    """Replace the digests by those of the damaged file; a file without digests stays the same."""
    with suppress(ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError):
        if path.name not in ("config.json", "model.safetensors", TRAINING_FILE):
            content = path.read_bytes()
            if path.name == "manifest.json":
                about = json.loads(content)
                about.pop(KEY, None)
                path.write_text(json.dumps({**about, KEY: json_digest(about)}), encoding="utf-8")
            elif field := re.search(rb'"sha256": ?"([0-9a-f]{64})"', content):
                begin, end = field.span(1)
                write_sealed(path, [content[:begin] + BLANK.encode() + content[end:]])
            return
        config, weights = path.with_name("config.json"), path.with_name("model.safetensors")
        about = json.loads(config.read_text(encoding="utf-8"))
        about[KEY] = {
            each.name: sha256(each.read_bytes()).hexdigest()
            for each in (weights, config.with_name(TRAINING_FILE))
        }
        about[KEY][config.name] = json_digest(about)
        config.write_text(json.dumps(about), encoding="utf-8")


def _structured(
    path: Path, content: bytes, op: str, position: int, number: int, value: str
) -> bytes | bytearray:
    try:
        if path.suffix == ".json":
            return _edit_json(content.decode(), position, value).encode("utf-8", "surrogatepass")
        length = int.from_bytes(content[:8], "little")
        header, data = content[8 : 8 + length].decode(), bytearray(content[8 + length :])
        entries = json.loads(header)
        if op == "fill":
            _fill_tensor(entries, data, position, number)
        elif op == "inner":
            about = entries["__metadata__"]
            name = next(iter(about))
            about[name] = _edit_json(about[name], position, value)
            header = json.dumps(entries)
        else:
            header = _edit_json(header, position, value)
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError, StopIteration):
        return content  # an earlier edit damaged it, or it has nothing of this kind
    start = header.encode("utf-8", "surrogatepass")
    start += b" " * (-len(start) % 8)
    return len(start).to_bytes(8, "little") + start + data


def _edit_json(text: str, position: int, value: str) -> str:
    """Replace one value in a JSON text by the JSON text `value`."""
    content = json.loads(text)
    nodes = list(_nodes(content))
    parent, key = nodes[position % len(nodes)]
    if value == "DELETE":
        del parent[key]
        return json.dumps(content)
    if value == "DOUBLE":
        value = json.dumps([parent[key], parent[key]])
    parent[key] = "VALUE"
    return json.dumps(content).replace('"VALUE"', value)


def _nodes(content: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(content) if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _nodes(content[key])


def _fill_tensor(entries: dict, data: bytearray, position: int, number: int) -> None:
    spans = [each["data_offsets"] for each in entries.values() if "data_offsets" in each]
    begin, end = spans[position % len(spans)]
    value = (0.0, np.nan, np.inf, -1.0, 1e30, 1e-40)[number % 6]
    fill = np.full((end - begin) // 4 + 1, value, dtype=np.float32).tobytes()
    data[begin:end] = fill[: end - begin]


KINDS = {
    name: SimpleNamespace(__name__=name, PARTS=("edits",), make=make, check=check)
    for name, make, check in (
        ("models", _make_model, _check_model),
        ("runs", _make_run, _check_run),
        ("screens", _make_screen, _check_screen),
    )
}
