"""`molsepnorm train`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from molsepnorm.cli.console import say
from molsepnorm.cli.options import (
    PLACE,
    configuration,
    options,
    recipe_options,
    source_options,
    table_options,
)
from molsepnorm.cli.ranks import rank
from molsepnorm.cli.signals import stop_on_signal

__all__ = ["train"]


@click.command()
@options(source_options, table_options, recipe_options)
@click.option("--seed", type=int, help="Of the initial weights, the order and dropout.")
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="The run's folder. [default: runs/<name>-<number>]",
)
@click.option("--resume", type=PLACE, help="Go on with the run in this folder.")
@click.option("-q", "--quiet", is_flag=True, help="Print the final scores alone.")
@click.pass_context
def train(
    ctx: click.Context, output: Path | None, resume: Path | None, quiet: bool, **given: Any
) -> None:
    """Train a model on a data set or a table.

    \b
    molsepnorm train --dataset zinc
    molsepnorm train --data my.csv --targets logS --epochs 100
    molsepnorm train --data my.csv --targets active --split-type scaffold --class-weight balanced
    molsepnorm train --config configs/zinc.yaml --set model.layers=6
    molsepnorm train --data my.csv --targets logS --from runs/zinc-rich-1 --freeze-epochs 5
    molsepnorm train --resume runs/zinc-1
    torchrun --nproc-per-node 4 -m molsepnorm train --dataset zinc
    """
    from molsepnorm.cli.display import TrainingDisplay
    from molsepnorm.training import StopWhen
    from molsepnorm.training import train as run_training
    from molsepnorm.training.folder import RunFolder

    another = bool(rank())  # than the first of torchrun's processes, which tells of the run
    display = TrainingDisplay(quiet or another)
    display.console.quiet = another
    if resume is not None:
        _require_nothing_else(ctx)
        config, folder = None, resume
    else:
        config = configuration(given)
        folder = output or RunFolder.numbered(config.data.label)
    with stop_on_signal(lambda: display.training) as stop:
        try:
            result = run_training(
                config,
                folder,
                resume=resume is not None,
                callback=[display, StopWhen(lambda: stop.signal is not None)],
            )
        finally:
            display.close()
    if not result.finished:
        if not another:
            say(f"Stopped and saved. Go on: molsepnorm train --resume {result.folder}", err=True)
        sys.exit(128 + (stop.signal or signal.SIGTERM))  # it may be another one that was asked to


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a resumed run would not follow."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("resume", "quiet"):
            raise click.UsageError(
                "--resume goes on with the configuration that its run began with, so it takes no "
                f"other option than --quiet; got {max(parameter.opts, key=len)}"
            )
