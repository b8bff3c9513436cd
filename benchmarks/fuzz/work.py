"""The files that all cases start from, and `command`, which runs a command line in this process."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from click.testing import CliRunner

from molsepnorm import Predictor, load_config, train
from molsepnorm.predict.screening import ScreenOptions, screen
from molsepnorm.training import StopWhen

ROOT = Path(__file__).parents[2]
TARGETS = ["logp", "active", "colour"]
SETTINGS = {
    "data.targets": TARGETS,
    "model.layers": 2,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "model.max_path_length": 3,
    "run.epochs": 1,
    "run.batch_size": 8,
    "run.device": "cpu",
    "run.baseline": False,
}
"""A network that trains in a second."""
SCREEN = ScreenOptions(rows_per_part=12)


@dataclass(frozen=True)
class Work:
    """The folder of a campaign: table.csv, tiny.yaml, run/ (trained), whole/ (trained for three
    epochs), stopped/ (the same run in its second epoch), screened/ (the table, in parts), and
    cache/, which all cases share. A case begins in an empty current folder."""

    root: Path
    smiles: tuple[str, ...]
    predictor: Predictor


@dataclass(frozen=True)
class Result:
    """The outcome of a command line."""

    code: int
    out: str
    err: str
    error: BaseException | None


def prepare(root: Path) -> Work:
    """Make the table, the model and the runs, in child processes: autograd's threads do not survive
    a fork."""
    demo = pd.read_csv(ROOT / "data" / "demo.csv", dtype=str)
    with open(root / "table.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "smiles", *TARGETS])
        for i, (smiles, logp, active) in enumerate(demo[:60].to_numpy().tolist()):
            colour = ("red", "green", "blue")[i % 3]
            writer.writerow([i, smiles, logp if i % 7 else "", active, colour])
    os.environ["MOLSEPNORM_CACHE"] = str(root / "cache")
    config = load_config(root / "table.csv", overrides=SETTINGS)
    config.save(root / "tiny.yaml")
    steps = iter(range(100))
    long = config.changed({"run.epochs": 3})
    in_child(lambda: train(config, root / "run"))
    in_child(lambda: train(long, root / "whole"))
    in_child(lambda: train(long, root / "stopped", callback=StopWhen(lambda: next(steps) == 8)))
    predictor = Predictor.from_pretrained(root / "run")
    in_child(lambda: screen(predictor, [str(root / "table.csv")], root / "screened", SCREEN))
    return Work(root, tuple(demo["smiles"]), predictor)


def in_child(do: Callable[[], object]) -> None:
    """Run in a child process."""
    child = os.fork()
    if not child:
        code = 1
        try:
            torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
            do()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the campaign's own model or run could not be made")


def command(arguments: list[str], stdin: bytes = b"") -> Result:
    """Run `molsepnorm` with these arguments."""
    from molsepnorm.cli.main import main

    given = [os.fsdecode(os.fsencode(each)) for each in arguments]
    done = CliRunner().invoke(main, given, stdin, prog_name="molsepnorm")
    error = None if isinstance(done.exception, SystemExit) else done.exception
    return Result(done.exit_code, done.stdout, done.stderr, error)
