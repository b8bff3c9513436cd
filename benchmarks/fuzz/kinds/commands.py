"""Command lines: every option of every command with invalid values, and conflicting options."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import click

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import Work, command
from molsepnorm.cli.main import main

PARTS = ("arguments", "stdin")

_VALUES = (
    *("", " ", "-", "--", "-1", "0", "1", "2", "3", "1e9", "9" * 30, "9" * 5000),
    *("-" + "9" * 5000, "nan", "inf", "1e-320", "0.5", "true", "null", "x", "\udce9", "C\udce9C"),
    *("\udcff" * 300, "😀", "a\nb", "\x1b[31mred", "x" * 300, "x" * 5000, "x" * 100_000, "="),
    *("a=b", "a=b=c", ",", ",,,", "a,a", "logp", "logp,logp", "smiles", "id", "colour"),
    *("active=binary", "colour=regression", "logp=binary", "0-9", "9-0", "0-99999999999999"),
    *("1,1", "-5--1", "cpu", "cuda", "cuda:99", "meta", "mps", "cpu:7", "auto", "bf16", "tf32"),
    *("random", "scaffold", "0.8,0.1,0.1", "1,0,0", "nan,nan,nan", "0.5,0.5,0", "1s", "0s"),
    *("1e99h", "-5m", "balanced", "mae", "roc_auc", "sep", "shared", "mini", "zinc", "ogb", "hf"),
    *("skip", "fail", "keep", "train", "val", "test", "all", "model.layers=1"),
    *("model.layers=99999999", "[1]", "{}", "run.seed=-1", "norm=sep,shared", "model.width=8,7"),
    *("optim.lr=1e999,x", "%s%n", "$(x)", "`x`"),
)
_PATHS = (
    *("", ".", "..", "/", "/dev/null", "/proc/self/mem", "/proc/x/y", "missing"),
    *("missing/x", "TABLE", "RUN", "MODEL", "CHECKPOINT", "CONFIG", "x" * 300, "x" * 5000),
    *("a\nb", "\udcff", "~", "-", "in.csv", "in.csv/x", "in.zip", "in.parquet", "in.sdf", "full"),
    *("full/x.csv", "link", "folder.csv"),
)
_OUTPUTS = ("-o", "--output", "--fix", "--output=")
_BASES = (
    "train --config CONFIG --data TABLE -o out",
    "train --resume STOPPED",
    "predict --model RUN -i TABLE -o out.csv --processes 1",
    "predict --model RUN --smiles CCO --processes 1",
    "predict --model RUN --processes 1",
    "evaluate --model RUN --data TABLE --split all",
    "data check TABLE",
    "data check TABLE --fix out.csv --json",
    "data list",
    "data prepare --config CONFIG --data TABLE",
    "benchmark --config CONFIG --data TABLE --seeds 0 -o out",
    "ablate --config CONFIG --data TABLE --seeds 0 --vary norm=shared -o out",
    "analyze --model RUN --data TABLE -o out",
    "convert --from hf CHECKPOINT -o out",
    "convert --from graphormer-v1 WEIGHTS -o out",
)


def _of(words: list[str]) -> click.Command:
    group = main.get_command(click.Context(main), words[0])
    assert group is not None
    return group.commands[words[1]] if isinstance(group, click.Group) else group


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    arguments = rng.choice(_BASES).split()
    options = [p for p in _of(arguments).params if isinstance(p, click.Option)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        option = rng.choice(options)
        name = rng.choice([*option.opts, *option.secondary_opts])
        if option.is_flag:
            arguments.append(name)
            continue
        path = isinstance(option.type, click.Path) and rng.random() < 0.9
        arguments += [name, rng.choice(_PATHS if path else _VALUES)]
    if rng.random() < 0.1:
        arguments.insert(
            rng.randint(1, len(arguments)), rng.choice((*_VALUES, *_PATHS, "--x", "-h"))
        )
    if rng.random() < 0.1:
        del arguments[rng.randrange(1, len(arguments))]
    stdin = rng.choice(
        (b"", b"CCO\n", b"smiles\nCCO\n", b"\n\n", b"\xff\xfe", b"\0", b'"', b"C" * 140_000)
    )
    return {"arguments": arguments, "stdin": stdin}


def check(case: dict[str, Any], work: Work) -> None:
    # copies, as some cases write to them
    words = {"TABLE": "table.csv", "RUN": "run", "MODEL": "run/model", "CONFIG": "tiny.yaml"}
    words |= {"CHECKPOINT": "run/model/model.safetensors", "STOPPED": "stopped"}
    words |= {"WEIGHTS": "in.csv"}
    for name in ("stopped", "run"):
        shutil.copytree(work.root / name, name)
    for name in ("table.csv", "tiny.yaml"):
        shutil.copy(work.root / name, name)
    Path("in.csv").write_text("smiles,logp\nCCO,1\n")
    for name in ("in.zip", "in.parquet", "in.sdf"):
        Path(name).write_bytes(b"PK\3\4nothing")
    Path("full").mkdir()
    Path("full/x.csv").write_text("mine")
    Path("folder.csv").mkdir()
    Path("folder.csv/x").write_text("mine")
    Path("link").symlink_to("missing")
    given = [words.get(each, each) for each in case["arguments"]]
    result = command(given, case["stdin"])
    promises.clean_exit(result, data=given[0] == "predict")
    for path in (Path("full/x.csv"), Path("folder.csv/x"), Path("in.csv")):
        named = any(each in (str(path), f"./{path}") for each in given)
        if not path.exists() and not named:
            raise promises.Broken("unchanged input", f"{path} is gone", "a folder was replaced")
    if {"-o", "--output"}.isdisjoint(given):
        for name in ("run/model/model.safetensors", "run/model/config.json", "table.csv"):
            if Path(name).read_bytes() != (work.root / name).read_bytes():
                raise promises.Broken("unchanged input", f"{name} was changed")
