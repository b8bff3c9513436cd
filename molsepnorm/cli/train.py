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
    FILE,
    GroupedCommand,
    configuration,
    option,
    output_option,
    training_options,
)
from molsepnorm.cli.signals import rank, stop_on_signal


@click.command(cls=GroupedCommand)
@training_options()
@output_option("Folder of the run. [default: runs/<name>-<number>]")
@option("--resume", type=FILE, help="Continue the run in this folder.")
@option("-q", "--quiet", is_flag=True, help="Print only the final scores.")
@click.pass_context
def train(
    ctx: click.Context, output: Path | None, resume: Path | None, quiet: bool, **options: Any
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

    silent = bool(rank())  # of torchrun's processes, only the first prints
    display = TrainingDisplay(quiet or silent)
    display.console.quiet = silent
    if resume is not None:
        _require_nothing_else(ctx)
        config, folder = None, resume
    else:
        config = configuration(options)
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
        if not silent:
            say(f"Stopped and saved. Continue: molsepnorm train --resume {result.folder}", err=True)
        # without a signal here, another process received it
        sys.exit(128 + (stop.signal or signal.SIGTERM))


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a resumed run would ignore."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("resume", "quiet"):
            raise click.UsageError(
                "--resume continues a run with its own configuration, so it takes no other option "
                f"than --quiet; got {max(parameter.opts, key=len)}"
            )
