"""Command lines and configurations: every option and setting with invalid values."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import Work, command
from molsepnorm import TrainConfig
from molsepnorm.cli.main import main

PARTS = ("arguments", "stdin", "lines")

_VALUES = (
    *("", " ", "-", "--", "-1", "0", "1", "2", "3", "7", "255", "256", "32768", "2147483648"),
    *("9223372036854775808", "1e9", "9" * 30, "9" * 5000, "-" + "9" * 5000, "nan", "inf", ".inf"),
    *(".nan", "1e-320", "1e999", "0.5", "0x10", "1_000", "12:30:45", "2024-13-45", "true", "null"),
    *("x", "\udce9", "C\udce9C", "\udcff" * 300, "😀", "a\nb", "\x1b[31mred", "x" * 300, "='"),
    *("x" * 100_000, "=", "a=b", "a=b=c", ",", ",,,", "a,a", "logp", "logp,logp", "smiles", "id"),
    *("active=binary", "colour=regression", "logp=binary", "0-9", "9-0", "0-99999999999999"),
    *("1,1", "-5--1", "cpu", "cuda", "cuda:99", "meta", "mps", "cpu:7", "auto", "bf16", "tf32"),
    *("random", "scaffold", "0.8,0.1,0.1", "1,0,0", "nan,nan,nan", "[.8, .1, .nan]", "1s", "0s"),
    *("1e99h", "-5m", "balanced", "mae", "roc_auc", "sep", "shared", "mini", "zinc", "ogb", "hf"),
    *("skip", "fail", "keep", "train", "val", "test", "all", "model.layers=1", "{logp: binary}"),
    *("model.layers=99999999", "[1]", "['x']", "[null]", "{}", "{a: 1}", "{1: 2}", "{[1]: 2}"),
    *("[" * 2000 + "]" * 2000, "!!int x", "!!python/object/apply:os.getcwd []", "&a [*a]", "*a"),
    *("'\\0'", '"\\ud800"', "|\n", "@x", "`", "? ", "run.seed=-1", "norm=sep,shared", "%s%n"),
    *("model.width=8,7", "optim.lr=1e999,x", "$(x)", "table.csv", "/dev/null", "..", "~"),
)
_TEXTS = (
    *("", "[]", "x", "- a", "\t", "\0", "data", "data: 1", "data: []", "? data", "{", "'"),
    *("%YAML 9.9", "data: &a {x: *a}", "--- a\n--- b", "<<: {data: 1}", "model: *m", "1: {}"),
    *("null: {}", "[a]: {}", "[" * 3000, "a: " + "{a: " * 3000, "&a [" + "*a, " * 50 + "]"),
    "\n".join(f"a{k + 1}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]" for k in range(9)),
)
"""Lines of a configuration file."""
_PATHS = (
    *("", ".", "..", "/", "/dev/null", "/proc/self/mem", "/proc/x/y", "missing"),
    *("missing/x", "table.csv", "run", "run/model", "tiny.yaml", "x" * 300, "x" * 5000),
    *("a\nb", "\udcff", "~", "-", "in.csv", "in.csv/x", "in.zip", "in.parquet", "in.sdf", "full"),
    *("full/x.csv", "link", "folder.csv"),
)
_STDIN = (b"", b"CCO\n", b"smiles\nCCO\n", b"\n\n", b"\xff\xfe", b"\0", b'"', b"C" * 140_000)
_BASES = (
    *("train --config tiny.yaml --data table.csv -o out",) * 4,
    "train --resume stopped",
    "predict --model run -i table.csv -o out.csv --processes 1",
    "predict --model run --smiles CCO --processes 1",
    "predict --model run --processes 1",
    "evaluate --model run --data table.csv --split all",
    "data check table.csv",
    "data check table.csv --fix out.csv --json",
    "data list",
    "data prepare --config tiny.yaml --data table.csv",
    "benchmark --config tiny.yaml --data table.csv --seeds 0 -o out",
    "ablate --config tiny.yaml --data table.csv --seeds 0 --vary norm=shared -o out",
    "analyze --model run --data table.csv -o out",
    "convert run/model/model.safetensors -o out",
)
_RUN_FILES = ("run/model/model.safetensors", "run/model/config.json", "table.csv")


def _settings() -> Iterator[str]:
    """Yield every setting by its dotted name."""
    for section, field in TrainConfig.model_fields.items():
        kind: Any = field.annotation
        own = fields(kind) if is_dataclass(kind) else getattr(kind, "model_fields", ())
        yield from (f"{section}.{getattr(each, 'name', each)}" for each in own)


_NAMES = (*_settings(), "", ".", "model", "model.", ".x", "x.y", "model.layers.x", "a" * 9999)


def _below(words: tuple[str, ...], found: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a command, by its words."""
    if not isinstance(found, click.Group):
        yield " ".join(words), found
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        command = found.get_command(context, name)
        assert command is not None
        yield from _below((*words, name), command)


COMMANDS = dict(_below((), main))
"""Every command of molsepnorm, by its words, such as "data check"."""


def _bare(rng: random.Random, name: str) -> list[str]:
    """Return a command with a value for each argument and common option that it has."""
    arguments = name.split()
    for param in COMMANDS[name].params:
        if isinstance(param, click.Argument):
            arguments.append(rng.choice(("run", "run", "stopped", "table.csv", "out", "out.zip")))
        elif "--model" in param.opts:
            arguments += ["--model", "run"]
        elif "--config" in param.opts:
            arguments += ["--config", "tiny.yaml"]
        elif "--data" in param.opts:
            arguments += ["--data", "table.csv"]
        elif "--smiles" in param.opts:
            arguments += ["--smiles", "CCO"]
        elif "--trials" in param.opts:
            arguments += ["--trials", "1"]
        elif "--seeds" in param.opts:
            arguments += ["--seeds", "0"]
        elif "--output" in param.opts:
            arguments += ["--output", "out"]
    return arguments


def _options_of(words: list[str]) -> list[click.Option]:
    name = max((each for each in (words[0], " ".join(words[:2])) if each in COMMANDS), key=len)
    return [each for each in COMMANDS[name].params if isinstance(each, click.Option)]


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    arguments, lines = rng.choice(_BASES).split(), []
    if rng.random() < 0.4:
        arguments = _bare(rng, rng.choice([*COMMANDS]))
    options = _options_of(arguments)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        option = rng.choice(options)
        name = rng.choice([*option.opts, *option.secondary_opts])
        if "--config" in arguments and rng.random() < 0.5:
            arguments += ["--set", f"{rng.choice(_NAMES)}={rng.choice(_VALUES)}"]
        elif option.is_flag:
            arguments.append(name)
        else:
            path = isinstance(option.type, click.Path) and rng.random() < 0.9
            arguments += [name, rng.choice(_PATHS if path else _VALUES)]
    if rng.random() < 0.1:
        odd = rng.choice((*_VALUES, *_PATHS, "--x", "-h"))
        arguments.insert(rng.randint(1, len(arguments)), odd)
    if rng.random() < 0.1:
        del arguments[rng.randrange(1, len(arguments))]
    if rng.random() < 0.2:
        section, _, key = rng.choice(_NAMES[:-8]).partition(".")
        setting = f"{section}: {{{key}: {rng.choice(_VALUES)}}}"
        lines = [rng.choice((setting, rng.choice(_TEXTS)))]
    return {"arguments": arguments, "stdin": rng.choice(_STDIN), "lines": lines}


def check(case: dict[str, Any], work: Work) -> None:
    for name in ("stopped", "run"):  # copies, as some cases write to them
        shutil.copytree(work.root / name, name)
    for name in ("table.csv", "tiny.yaml"):
        shutil.copy(work.root / name, name)
    with open("tiny.yaml", "ab") as file:
        file.write("\n".join(["", *case["lines"]]).encode("utf-8", "surrogatepass"))
    Path("in.csv").write_text("smiles,logp\nCCO,1\n")
    for name in ("in.zip", "in.parquet", "in.sdf"):
        Path(name).write_bytes(b"PK\3\4nothing")
    for name in ("full/x.csv", "folder.csv/x"):
        Path(name).parent.mkdir()
        Path(name).write_text("mine")
    Path("link").symlink_to("missing")
    given = [each for each in case["arguments"] if "\0" not in each]
    result = command(given, case["stdin"])
    promises.clean_exit(result, data=given[:1] == ["predict"])
    for path in (Path("full/x.csv"), Path("folder.csv/x"), Path("in.csv")):
        if not path.exists() and str(path) not in given:
            raise promises.Broken("unchanged input", f"{path} is gone", "a folder was replaced")
    if {"-o", "--output"}.isdisjoint(given):
        for name in _RUN_FILES:
            if Path(name).read_bytes() != (work.root / name).read_bytes():
                raise promises.Broken("unchanged input", f"{name} was changed")
