"""Measure training with several numbers of threads, alone and two runs at once.

    python benchmarks/threads.py --data esol.csv --targets log_solubility --from none --no-baseline

Waiting threads sleep (OMP_WAIT_POLICY=PASSIVE, which `molsepnorm` sets) or spin (ACTIVE). Printed
are the graphs per second of each run, as history.csv has them, without the first epoch.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import click


@click.command(context_settings={"ignore_unknown_options": True, "show_default": True})
@click.option("--numbers", default="1,2", help="Numbers of threads.")
@click.option("--epochs", default=4)
@click.argument("train", nargs=-1, type=click.UNPROCESSED)
def main(numbers: str, epochs: int, train: tuple[str, ...]) -> None:
    """Other options are those of `molsepnorm train`."""
    command = [sys.executable, "-m", "molsepnorm", "train", *train, "--epochs", str(epochs)]
    for threads, wait, runs in product(numbers.split(","), ("PASSIVE", "ACTIVE"), (1, 2)):
        if threads == "1" and wait == "ACTIVE":
            continue  # nothing waits
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": wait}
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder) / str(number) for number in range(runs)]
            started = [
                subprocess.Popen([*command, "--quiet", "-o", str(each)], env=environment)
                for each in outputs
            ]
            codes = [process.wait() for process in started]
            if any(codes):
                raise click.ClickException("a run failed")
            speeds = ", ".join(f"{_speed(each / 'history.csv'):.0f}" for each in outputs)
        click.echo(f"{threads} threads, {wait.lower()}, {runs} at once: {speeds} graphs/s")


def _speed(history: Path) -> float:
    with open(history, newline="", encoding="utf-8") as file:
        _, *epochs = csv.DictReader(file)
    seconds = [float(epoch["seconds"]) for epoch in epochs]
    rates = [float(epoch["graphs_per_second"]) for epoch in epochs]
    return sum(s * r for s, r in zip(seconds, rates, strict=True)) / sum(seconds)


if __name__ == "__main__":
    main()
