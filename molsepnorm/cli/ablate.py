"""`molsepnorm ablate`."""

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


@click.command(cls=GroupedCommand)
@training_options("run.seed")
@seeds_option
@option(
    "--vary",
    required=True,
    multiple=True,
    metavar="NAME=VALUE,VALUE…",
    callback=_parse_vary,
    help="Setting and the values to compare, such as norm=shared,sep or model.layers=4,8. Given "
    "several times, all combinations are trained. The first variant is the baseline.",
)
@output_option(
    "Folder of the runs. Finished runs in it are not repeated. [default: runs/<name>-ablation]"
)
@json_option
def ablate(
    vary: dict[str, list[Any]], seeds: list[int], output: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare variants of one recipe over the same seeds.

    Prints the mean and standard deviation of each variant, and its mean difference from the first
    variant over pairs of runs with the same seed, with a 95 % interval and the p-value of a paired
    t-test. Run the same command again to continue after an interruption.

    \b
    molsepnorm ablate --dataset zinc --vary norm=shared,sep,sep-ln --seeds 0-4 --budget 8m
    molsepnorm ablate --data my.csv --targets logS --vary model.layers=4,8 --vary optim.lr=5e-4,1e-3
    """
    from molsepnorm.cli.display import SeriesDisplay, ablation_tables
    from molsepnorm.training import StopWhen
    from molsepnorm.training import ablate as run

    config = series_configuration(options)
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
    if as_json:
        click.echo(json.dumps(ablation.to_json(), indent=2))
        return
    for table in ablation_tables(ablation):
        display.console.print(table)
    display.console.print(f"All figures: {ablation.folder / 'ablation.json'}")
