"""Add the folders of finished runs to the log.

    python benchmarks/accuracy/add.py runs/zinc-ablation --prefix norms- --why "which norm"

A run of `molsepnorm ablate` or `benchmark` is named after the folder above its seed (norms-shared,
norms-sep), any other run after its own folder. Call this in the checkout that trained the runs,
whose commit and source hash go into the log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import click  # noqa: E402

from accuracy.log import LOG, append, from_folder, read  # noqa: E402


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--prefix", default="", help="Beginning of the names in the log.")
@click.option("--why", default="", help="Question that the runs answer.")
@click.option("--log", type=click.Path(path_type=Path), default=LOG, help="[default: log.jsonl]")
def main(folders: tuple[Path, ...], prefix: str, why: str, log: Path) -> None:
    logged = {(run.name, run.seed) for run in read(log)}
    for metrics in sorted(path for folder in folders for path in folder.rglob("metrics.json")):
        folder, seed = metrics.parent, json.loads(metrics.read_text())["seed"]
        named = folder.parent if folder.name.startswith("seed-") else folder
        name = prefix + named.name
        if (name, seed) in logged:
            click.echo(f"{name} seed {seed} is in the log already")
            continue
        run = from_folder(folder, name, seed, why)
        append(run, log)
        click.echo(f"{name} seed {seed}: val {run.val}, test {run.test}")


if __name__ == "__main__":
    main()
