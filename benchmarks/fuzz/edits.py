"""Damage to files: bytes, values in JSON, tensors in safetensors files; and forged digests.

An edit is a list of a name, numbers and a value; `apply` uses the numbers modulo the size.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.files.digests import BLANK, KEY, json_digest, write_sealed

VALUES = (
    *("null", "true", "false", '""', '"x"', '"1"', "[]", "{}", "[1]", "[[]]", '{"a": 1}', "-1"),
    *("0", "1", "2", "3", "255", "100000", "1000000000", "9223372036854775808", "1" + "0" * 400),
    *("1e308", "1e400", "NaN", "Infinity", "-Infinity", "0.5", "1e-320", '"\\u0000"'),
    *('"\\ud800"', '"\\u001b[31m"', "9" * 5000, "[" * 3000 + "]" * 3000),
    *('"' + "x" * 10_000 + '"', "DELETE", "DOUBLE"),
)
_ENDINGS = (".json", ".safetensors", ".store")


def draw(rng: random.Random, name: str, count: int = 1) -> list[list[Any]]:
    """Draw edits that suit a file of this name."""
    ops = ["flip", "flip", "cut", "insert", "keep", "delete"]
    if name.endswith(_ENDINGS):
        ops = ["flip", "cut", "insert", "keep", "delete"] + ["json"] * 8
    if name.endswith((".safetensors", ".store")):
        ops += ["flip"] * 4 + ["swap", "fill", "fill", "inner", "inner", "inner"]
    return [
        [rng.choice(ops), rng.randrange(1 << 30), rng.randrange(1 << 30), rng.choice(VALUES)]
        for _ in range(count)
    ]


def apply(path: Path, edits: list[list[Any]], forged: bool = False) -> None:
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
        elif op in ("json", "inner", "swap", "fill"):
            content = _structured(path, bytes(content), op, position, number, value)
        path.write_bytes(content)
    if forged:
        _forge(path)


def _forge(path: Path) -> None:
    """Replace the digests by those of the damaged file; a file without digests stays the same."""
    with suppress(ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError):
        if path.name not in ("config.json", "model.safetensors"):
            content = path.read_bytes()
            if field := re.search(rb'"sha256": ?"([0-9a-f]{64})"', content):
                begin, end = field.span(1)
                write_sealed(path, [content[:begin] + BLANK.encode() + content[end:]])
            return
        config, weights = path.with_name("config.json"), path.with_name("model.safetensors")
        about = json.loads(config.read_text(encoding="utf-8"))
        about[KEY] = {weights.name: sha256(weights.read_bytes()).hexdigest()}
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
        if op in ("swap", "fill"):
            _edit_tensors(entries, data, op, position, number)
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
    parent[key] = "the place of the value"
    return json.dumps(content).replace('"the place of the value"', value)


def _nodes(content: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(content) if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from _nodes(content[key])


def _edit_tensors(entries: dict, data: bytearray, op: str, position: int, number: int) -> None:
    spans = [
        tuple(each["data_offsets"]) for name, each in entries.items() if "data_offsets" in each
    ]
    spans = [span for span in spans if span[1] > span[0]]
    first = spans[position % len(spans)]
    size = first[1] - first[0]
    if op == "swap":
        same = [span for span in spans if span[1] - span[0] == size]
        second = same[number % len(same)]
        one, other = data[slice(*first)], data[slice(*second)]
        data[slice(*first)], data[slice(*second)] = other, one
        return
    values = (0.0, np.nan, np.inf, -1.0, 1e30, 1e-40)
    fill = np.full(size // 4 + 1, values[number % len(values)], dtype=np.float32).tobytes()
    data[slice(*first)] = fill[:size]
