"""`molsepnorm ablate`."""

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
    from molsepnorm.training import Ablation

__all__ = ["ablate"]


def _parse_vary(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> dict[str, list[Any]]:
    """A callback: `name=value,value,…`, the values read as YAML."""
    vary = {}
    for text in texts:
        name, _equals, rest = text.partition("=")
        from molsepnorm.training.settings import parse_yaml

        try:
            values = parse_yaml(f"[{rest}]")
        except ValueError:
            values = []
        if not values:
            raise click.BadParameter(f"'{text}' should look like model.layers=4,8,12")
        vary[name.strip()] = values
    return vary


@click.command()
@options(source_options, table_options, recipe_options)
@click.option(
    "--vary",
    required=True,
    multiple=True,
    metavar="NAME=VALUE,VALUE…",
    callback=_parse_vary,
    help="norm=shared,sep,sep-ln (also shared-bn, sep-bn, sep-ln-bn, sep-rms-bn), or any setting, "
    "such as model.layers=4,8; given several times, all combinations. The first is what the others "
    "are compared with.",
)
@seeds_option
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="Folder of the runs; those in it that are finished are not repeated. "
    "[default: runs/<name>-ablation]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def ablate(
    vary: dict[str, list[Any]], seeds: list[int], output: Path | None, as_json: bool, **given: Any
) -> None:
    """Compare variants of one recipe over the same seeds.

    Prints mean and standard deviation of each variant, and the mean difference from the first one,
    over pairs of the same seed, with its 95 % interval and the p-value of a paired t-test. Given
    again, the same command goes on where it was stopped.

    \b
    molsepnorm ablate --dataset zinc --vary norm=shared,sep,sep-ln --seeds 0-4 --budget 8m
    molsepnorm ablate --data my.csv --targets logS --vary model.layers=4,8 --vary optim.lr=5e-4,1e-3
    """
    from molsepnorm.cli.display import SeriesDisplay
    from molsepnorm.training import StopWhen
    from molsepnorm.training import ablate as run

    config = series_configuration(given)
    display = SeriesDisplay(quiet=as_json, several=True)
    with stop_on_signal(lambda: display.training) as stop:
        ablation = run(
            config,
            output or Path("runs") / f"{config.data.label}-ablation",
            vary,
            seeds=seeds,
            callback=[display, StopWhen(lambda: stop.signal is not None)],
        )
    if not ablation.finished:
        leave_saved(stop)
    _show(ablation, as_json)


def _show(ablation: Ablation, as_json: bool) -> None:
    from molsepnorm.cli.console import make_console
    from molsepnorm.cli.display import ablation_tables

    if as_json:
        click.echo(json.dumps(ablation.to_json(), indent=2))
        return
    console = make_console()
    for table in ablation_tables(ablation):
        console.print(table)
    console.print(f"All figures: {ablation.folder / 'ablation.json'}")
