"""`molsepnorm benchmark`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.options import (
    PLACE,
    options,
    recipe_options,
    seeds_option,
    series_configuration,
    source_options,
    table_options,
)
from molsepnorm.cli.signals import leave_saved, stop_on_signal

if TYPE_CHECKING:
    from molsepnorm.training import Replicates

__all__ = ["benchmark"]


@click.command()
@options(source_options, table_options, recipe_options)
@seeds_option
@click.option(
    "--replicates",
    type=click.IntRange(min=1),
    help="So many splits: training and validation molecules drawn anew, the test molecules the "
    "same. With --folds, each fold is used as it is.",
)
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="Folder of the runs; those in it that are finished are not repeated. "
    "[default: runs/<name>-series]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def benchmark(
    seeds: list[int], replicates: int | None, output: Path | None, as_json: bool, **given: Any
) -> None:
    """Train with several seeds, or on several splits: mean and standard deviation.

    Each run has its folder, and summary.json is written after each. Given again, the same command
    goes on where it was stopped.

    \b
    molsepnorm benchmark --dataset ogbg-molhiv --seeds 0-9
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --seeds 0
    molsepnorm benchmark --data my.csv --split-type scaffold --replicates 3 --seeds 0,1
    """
    from molsepnorm.cli.display import SeriesDisplay
    from molsepnorm.training import StopWhen, train_replicates

    config = series_configuration(given, replicates)
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
    _show(series, as_json)


def _show(series: Replicates, as_json: bool) -> None:
    from molsepnorm.cli.console import make_console
    from molsepnorm.cli.display import series_table

    if as_json:
        click.echo(json.dumps(series.summary, indent=2))
        return
    console = make_console()
    console.print(series_table(series.summary))
    seconds = series.summary["seconds"]["mean"]
    console.print(
        f"{len(series.runs)} run(s), {series.summary['parameters']:,} parameters, {seconds:.0f} s "
        f"of training each. All figures: {series.folder / 'summary.json'}"
    )
