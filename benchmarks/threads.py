"""Measure training with fixed and adaptive numbers of threads, alone and two runs at once.

    python benchmarks/threads.py --data esol.csv --targets logS --epochs 6 --repeats 3

Each setting trains for some epochs: one run alone, then two at once. The settings follow each other
in every repeat. Printed are the graphs per second of each run's last epochs, as history.csv has
them, and the system's load before the runs started.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import click


@click.command(context_settings={"ignore_unknown_options": True, "show_default": True})
@click.option("--repeats", default=3)
@click.option("--skip", default=2, help="Epochs at the start that do not count.")
@click.option("--settings", default="1,2,adaptive", help="Numbers of threads.")
@click.argument("train", nargs=-1, type=click.UNPROCESSED)
def main(repeats: int, skip: int, settings: str, train: tuple[str, ...]) -> None:
    """Other options are those of `molsepnorm train`."""
    figures: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats):
        for setting in settings.split(","):
            for runs in (1, 2):
                load = os.getloadavg()[0]
                speeds, threads = zip(*_train(train, setting, runs, skip), strict=True)
                figures.setdefault((setting, runs), []).extend(speeds)
                shown = ", ".join(f"{each:.0f}" for each in speeds)
                click.echo(
                    f"threads {setting}, {runs} at once: {shown} graphs/s "
                    f"(threads {' '.join(threads)}; load before {load:.1f})"
                )
    click.echo("\n| threads | alone | two at once, each |\n|---|---|---|")
    for setting in settings.split(","):
        alone, shared = (median(figures[setting, runs]) for runs in (1, 2))
        click.echo(f"| {setting} | {alone:.0f} | {shared:.0f} |")


def _train(
    train: tuple[str, ...], setting: str, runs: int, skip: int
) -> list[tuple[float, str]]:  # graphs/s and numbers of threads of each run
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    fixed = [] if setting == "adaptive" else ["--threads", setting]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "molsepnorm", "train", *train, *fixed, "--quiet"]
        outputs = [Path(folder) / str(n) for n in range(runs)]
        processes = [
            subprocess.Popen(
                [*command, "-o", str(each)], env=environment, stdout=subprocess.DEVNULL
            )
            for each in outputs
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise click.ClickException("a run failed")
        return [_speed(each / "history.csv", skip) for each in outputs]


def _speed(history: Path, skip: int) -> tuple[float, str]:
    with open(history, newline="", encoding="utf-8") as file:
        epochs = list(csv.DictReader(file))
    counted = epochs[skip:]
    seconds = sum(float(epoch["seconds"]) for epoch in counted)
    graphs = sum(float(e["seconds"]) * float(e["graphs_per_second"]) for e in counted)
    return graphs / seconds, "".join(epoch["threads"] for epoch in epochs)


if __name__ == "__main__":
    main()
