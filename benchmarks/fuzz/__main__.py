"""The command `python -m benchmarks.fuzz`; see the package."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import ast
import sys
import tempfile
from pathlib import Path

import click
import torch

from benchmarks.fuzz.frame import Campaign
from benchmarks.fuzz.kinds import KINDS
from benchmarks.fuzz.promises import PACKAGE
from benchmarks.fuzz.work import prepare


@click.command()
@click.option("--minutes", type=float, default=5.0, help="Duration, for all kinds together.")
@click.option("--seed", type=int, default=0, help="Random seed of the cases.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)))
@click.option("--cases", type=int, help="Cases per kind, in place of --minutes.")
@click.option("--shrink", type=float, default=20.0, help="Seconds to shrink each finding.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="File of a finding.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("runs/fuzz"))
def main(
    minutes: float,
    seed: int,
    kinds: tuple[str, ...],
    cases: int | None,
    shrink: float,
    replay: Path | None,
    output: Path,
) -> None:
    """Try invalid input on molsepnorm and list the promises that it broke."""
    torch.set_num_threads(1)
    output = output.resolve()
    with tempfile.TemporaryDirectory(prefix="molsepnorm-fuzz-") as folder:
        campaign = Campaign(prepare(Path(folder)), seed, output, shrink)
        print(f"{PACKAGE}, seed {seed}")
        if replay is not None:
            campaign.replay(ast.literal_eval(replay.read_text(encoding="utf-8")))
        else:
            campaign.run(kinds or tuple(KINDS), minutes, cases)
            campaign.summarise()
    sys.exit(1 if campaign.found else 0)


if __name__ == "__main__":
    main()
