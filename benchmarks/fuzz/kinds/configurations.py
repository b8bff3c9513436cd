"""Configurations: every setting with values of the wrong type, size and form."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import TARGETS, Work, command
from molsepnorm import MolsepnormError, TrainConfig, load_config

PARTS = ("lines", "set")

VALUES = (
    *("", "null", "true", "x", "''", "-1", "0", "1", "2", "3", "7", "255", "256", "32768"),
    *("2147483648", "9223372036854775808", "1" * 30, "9" * 5000, "-" + "9" * 5000, "0.5"),
    *("1e-320", "1e308", "1e999", ".inf", "-.inf", ".nan", "0x10", "0o17", "1_000", "12:30:45"),
    *("2024-01-01", "2024-13-45", "{}", "[]", "[1]", "['x']", "[null]", "[[[]]]"),
    *("[" * 2000 + "]" * 2000, "{" * 300 + "}" * 300, "{a: 1}", "{1: 2}", "{null: 1}"),
    *("{[1]: 2}", "!!int x", "!!float x", "!!binary x", "!!set {a}"),
    *("!!python/object/apply:os.getcwd []", "!!str 1", "!!timestamp x", "!!omap [a: 1]", "*a"),
    *("&a [*a]", "&a x", "|\n", ">", "'\\0'", '"\\0"', '"\\ud800"', '"\\x1b[31m"', "😀", "é", "%"),
    *("@x", "`", "? ", "x" * 100_000, "logp", "smiles", "table.csv", "/dev/null", "..", "~"),
    *("0.8,0.1,0.1", "[.8, .1, .1]", "[.8, .1, .nan]", "[1, 0, 0]", "binary", "{logp: binary}"),
    *("zinc", "ogb", "random", "mae", "1s", "9h"),
)
_TEXTS = (
    *("", "[]", "x", "- a", "\t", "\0", "data", "data: 1", "data: []", "? data", "{", "'"),
    *("%YAML 9.9", "data: &a {x: *a}", "--- a\n--- b", "<<: {data: 1}", "model: *m", "1: {}"),
    *("null: {}", "[a]: {}"),
    "[" * 3000,
    "a: " + "{a: " * 3000,
    "&a [" + "*a, " * 50 + "]",
    "\n".join(f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]" for k in range(9)),
    "\n".join(
        ["run:", "  a0: &a0 [x]"]
        + [f"  a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]" for k in range(9)]
    ),
)
_WITHOUT = ("data.data_dir", "data.table", "data.dataset", "run.device")


def names() -> Iterator[str]:
    """Yield every setting by its dotted name."""
    for section, field in TrainConfig.model_fields.items():
        kind: Any = field.annotation
        inner = [f.name for f in fields(kind)] if is_dataclass(kind) else list(kind.model_fields)
        yield from (f"{section}.{name}" for name in inner)


_KNOWN = tuple(names())


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    lines = [
        "optim: {lr: 0.001}",
        "model: {layers: 1, width: 8, ffn_width: 8, heads: 2, max_path_length: 3}",
        "run: {epochs: 1, batch_size: 8, device: cpu}",
    ]
    given = []
    way = rng.choice(("set", "set", "set", "file", "file", "text", "overrides"))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(_KNOWN)
        if rng.random() < 0.05:
            name = rng.choice(
                ("", ".", "model", "model.", ".x", "x.y", "model.layers.x", "a" * 9999)
            )
        given.append(f"{name}={rng.choice(VALUES)}")
    if way == "file":
        for text in given:
            name, _, value = text.partition("=")
            section, _, key = name.partition(".")
            block = [f"{section}:", f"  {key}: {value}"]
            if section == "model":  # a large network takes long without a hang
                small = {"width": 8, "ffn_width": 8, "heads": 2}
                block += [f"  {each}: {size}" for each, size in small.items() if each != key]
            lines = [line for line in lines if not line.startswith(f"{section}:")] + block
        given = []
    elif way == "text":
        lines.insert(rng.randrange(4), rng.choice(_TEXTS))
        given = []
    return {"lines": lines, "set": given, "way": way, "train": rng.random() < 0.5}


def check(case: dict[str, Any], work: Work) -> None:
    Path("config.yaml").write_bytes("\n".join(case["lines"]).encode("utf-8", "surrogatepass"))
    if case["way"] == "overrides" or not case["train"]:
        overrides = dict(text.partition("=")[::2] for text in case["set"])
        try:
            config = load_config(work.root / "table.csv", config="config.yaml", overrides=overrides)
        except MolsepnormError as error:
            promises.our_error(error)
            return
        except Exception as error:
            promises.our_error(error, library=True)
            return
        config.save(Path("again.yaml"))
        if load_config(config=Path("again.yaml")) != config.resolved():
            raise promises.Broken(
                "unchanged output", "the saved configuration is not the loaded one"
            )
        return
    settings = [part for text in case["set"] for part in ("--set", text) if "\0" not in text]
    table = ["--data", str(work.root / "table.csv"), "--targets", ",".join(TARGETS)]
    result = command(["train", "--config", "config.yaml", *table, "-o", "run", *settings])
    promises.clean_exit(result)
    if result.code == 0:
        metrics = json.loads(Path("run/metrics.json").read_text())
        if not isinstance(metrics["test"], dict):
            raise promises.Broken("number or reason", "no scores of the test split")
        load_config(config=Path("run/config.yaml"))
