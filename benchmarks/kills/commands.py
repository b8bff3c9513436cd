"""The commands that are disturbed, and the files that they start from.

A further command is a line of `COMMANDS`.
"""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.kills.faults import run

ROOT = Path(__file__).parents[2]
SMALL = (
    *("--layers", "1", "--set", "model.width=8", "--set", "model.ffn_width=8"),
    *("--set", "model.heads=2", "--set", "model.max_path_length=3"),
    *("--device", "cpu", "--threads", "1", "--batch-size", "16"),
)
"""A network that trains in a second."""
TRAIN = ("train", "--data", "{work}/table.csv", "--targets", "y", *SMALL, "--epochs", "3")


@dataclass(frozen=True)
class Command:
    """A command line, in which {work} is the folder of the common files.

    Outputs are relative paths. `resume` replaces `start` once `begun` exists. `replaces` is a file
    that the command writes in one piece: it exists before with other content, and holds either that
    or the new content after a fault. If not `repeats`, the files of a repetition have other content
    (tune replaces interrupted trials), and only their names and the number of trials are compared.
    """

    start: tuple[str, ...]
    resume: tuple[str, ...] = ()
    begun: str = ""
    replaces: str = ""
    repeats: bool = True


_MODEL = ("--model", "{work}/model")
_ENSEMBLE = ("ensemble", "{work}/model", "--output", "joined")
_CHECK = ("data", "check", "{work}/table.csv", "--targets", "y")
_INPUT = ("--input", "{work}/table.csv", "--device", "cpu")

COMMANDS = {
    "train": Command(
        (*TRAIN, "--output", "run"),
        ("train", "--resume", "run"),
        "run/checkpoints/last.safetensors",
    ),
    "train-ensemble": Command(
        (*TRAIN, "--ensemble", "2", "--output", "run"), ("train", "--resume", "run"), "run/members"
    ),
    "train-from": Command(
        ("train", *TRAIN[1:], "--from", "{work}/model", "--output", "run"),
        ("train", "--resume", "run"),
        "run/checkpoints/last.safetensors",
    ),
    "train-probe": Command(
        (
            *("train", "--data", "{work}/other.csv", "--targets", "z", *SMALL, "--epochs", "1"),
            *("--from", "{work}/model", "--output", "run"),
        ),
        ("train", "--resume", "run"),
        "run/checkpoints/last.safetensors",
    ),
    "pretrain": Command(
        ("pretrain", "--data", "{work}/structures.csv", *SMALL, "--epochs", "2", "--output", "run"),
        ("pretrain", "--resume", "run"),
        "run/checkpoints/last.safetensors",
    ),
    "prepare": Command(("data", "prepare", "{work}/table.csv", "--targets", "y")),
    "check": Command(
        (*_CHECK, "--fix", "fixed.csv"), (*_CHECK, "--fix", "fixed.csv", "--force"), "fixed.csv"
    ),
    "predict": Command(("predict", *_MODEL, *_INPUT, "--output", "out.csv"), replaces="out.csv"),
    "predict-parquet": Command(
        ("predict", *_MODEL, *_INPUT, "--output", "out.parquet"), replaces="out.parquet"
    ),
    "embed": Command(
        ("embed", *_MODEL, *_INPUT, "--output", "out.parquet"), replaces="out.parquet"
    ),
    "screen": Command(
        (
            *("screen", *_MODEL, *_INPUT, "--processes", "1", "--rows-per-part", "10"),
            *("--top", "5", "--output", "hits"),
        )
    ),
    "explain": Command(
        ("explain", *_MODEL, "--smiles", "CCO", "--device", "cpu", "--output", "out.json"),
        replaces="out.json",
    ),
    "ensemble": Command(_ENSEMBLE, (*_ENSEMBLE, "--force"), "joined"),
    "share": Command(
        ("share", "{work}/model", "model.zip"),
        ("share", "{work}/model", "model.zip", "--force"),
        "model.zip",
    ),
    "benchmark": Command(("benchmark", *TRAIN[1:], "--seeds", "2", "--output", "seeds")),
    "tune": Command(
        ("tune", *TRAIN[1:], "--trials", "2", "--space", "{work}/space.yaml", "--output", "tuned"),
        repeats=False,
    ),
}
"""Each name with its command."""


def prepare(work: Path) -> None:
    """Write the tables, one of them with a target z in place of y, the ranges of tune and a
    trained model into a folder."""
    demo = pd.read_csv(ROOT / "data" / "demo.csv", dtype=str)
    with open(work / "table.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "smiles", "y"])
        rows = demo[["smiles", "penalised_logp"]].head(40).itertuples(index=False)
        writer.writerows([i, *row] for i, row in enumerate(rows))
    other = (work / "table.csv").read_text().replace("id,smiles,y\n", "id,smiles,z\n")
    (work / "other.csv").write_text(other)
    demo[["smiles"]].head(210).to_csv(work / "structures.csv", index=False)
    (work / "space.yaml").write_text("optim:\n  lr: [0.001, 0.002]\n")
    made = run(filled((*TRAIN, "--output", "model"), work), work)
    shutil.rmtree(work / "cache")
    if made.code:
        raise SystemExit(f"the model of the campaign could not be trained:\n{made.output}")


def filled(arguments: tuple[str, ...], work: Path) -> list[str]:
    """Return arguments with the name of the folder in place of {work}."""
    return [each.replace("{work}", str(work)) for each in arguments]
