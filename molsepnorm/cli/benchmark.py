"""`molsepnorm benchmark`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.options import (
    GroupedCommand,
    json_option,
    option,
    output_option,
    seeds_option,
    series_configuration,
    training_options,
)
from molsepnorm.cli.signals import leave_saved, stop_on_signal

__all__ = ["benchmark"]


@click.command(cls=GroupedCommand)
@training_options("run.seed")
@seeds_option
@option(
    "--replicates",
    type=click.IntRange(min=1),
    help="Number of splits: training and validation molecules are drawn again for each, the test "
    "molecules stay the same. Not needed with --folds, which trains on every fold.",
)
@output_option(
    "Folder of the runs. Finished runs in it are not repeated. [default: runs/<name>-series]"
)
@json_option
def benchmark(
    seeds: list[int], replicates: int | None, output: Path | None, as_json: bool, **options: Any
) -> None:
    """Train with several seeds or on several splits, and print mean and standard deviation.

    Each run has a folder of its own; summary.json is updated after each run. Run the same command
    again to continue after an interruption.

    \b
    molsepnorm benchmark --dataset ogbg-molhiv --seeds 0-9
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --seeds 0
    molsepnorm benchmark --data my.csv --split-type scaffold --replicates 3 --seeds 0,1
    """
    from molsepnorm.cli.display import SeriesDisplay, series_table
    from molsepnorm.training import StopWhen, train_replicates

    config = series_configuration(options, replicates)
    display = SeriesDisplay(quiet=as_json)
    with stop_on_signal(lambda: display.training) as stop:
        series = train_replicates(
            config,
            output or Path("runs") / f"{config.data.label}-series",
            seeds=seeds,
            splits=replicates,
            callback=[display, StopWhen(lambda: stop.signal is not None)],
        )
    if not series.finished:
        leave_saved(stop)
    if as_json:
        click.echo(json.dumps(series.summary, indent=2))
        return
    display.console.print(series_table(series.summary))
    seconds = series.summary["seconds"]["mean"]
    display.console.print(
        f"{len(series.runs)} run(s), {series.summary['parameters']:,} parameters, {seconds:.0f} s "
        f"of training each. All figures: {series.folder / 'summary.json'}"
    )
