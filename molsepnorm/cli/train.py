"""`molsepnorm train`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from molsepnorm.cli.options import data_options, parse_settings

if TYPE_CHECKING:
    from molsepnorm.training import TrainConfig

__all__ = ["train"]


@click.command()
@data_options
@click.option("--config", type=click.Path(path_type=Path), help="A YAML file of settings.")
@click.option("--preset", help="An architecture: slim, base.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    callback=parse_settings,
    help="Any setting of the configuration, such as model.layers=6; may be repeated.",
)
@click.option("--epochs", type=int, help="Passes over the training molecules.")
@click.option("--batch-size", type=int, help="Molecules per step.")
@click.option("--lr", type=float, help="Learning rate at its peak.")
@click.option("--layers", type=int, help="Layers of the network.")
@click.option("--norm", help="sep (SepNorm) or shared (one norm for all tokens).")
@click.option("--seed", type=int, help="Of the initial weights, the order and dropout.")
@click.option("--device", help="auto, cpu, cuda, cuda:1, …")
@click.option("--on-invalid", help="skip or fail: what to do with a SMILES that cannot be read.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The run's folder. [default: runs/<name>-<number>]",
)
@click.option(
    "--resume", type=click.Path(path_type=Path), help="Go on with the run in this folder."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the final scores alone.")
@click.pass_context
def train(
    ctx: click.Context, output: Path | None, resume: Path | None, quiet: bool, **options: Any
) -> None:
    """Train a model on a data set or a table.

    \b
    molsepnorm train --dataset zinc
    molsepnorm train --data my.csv --targets logS --epochs 100
    molsepnorm train --config configs/zinc.yaml --set model.layers=6
    molsepnorm train --resume runs/zinc-1
    """
    from molsepnorm.cli.display import TrainingDisplay
    from molsepnorm.training import train as run_training
    from molsepnorm.training.folder import RunFolder

    display = TrainingDisplay(quiet)
    if resume is not None:
        _require_nothing_else(ctx)
        config, folder = None, resume
    else:
        config = _configuration(options)
        name = config.data.dataset or Path(config.data.table or "run").stem
        folder = output or RunFolder.numbered(name)
    with _stop_on_signal(lambda: display.training) as stop:
        try:
            result = run_training(
                config,
                folder,
                resume=resume is not None,
                listener=display,
                stop=lambda: stop.signal is not None,
            )
        finally:
            display.close()
    if not result.finished:
        assert stop.signal is not None
        click.echo(f"Stopped and saved. Go on: molsepnorm train --resume {result.folder}", err=True)
        sys.exit(128 + stop.signal)


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a resumed run would not follow."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("resume", "quiet"):
            raise click.UsageError(
                "--resume goes on with the configuration that its run began with, so it takes no "
                f"other option than --quiet; got {max(parameter.opts, key=len)}"
            )


_NAMED = {
    "data_dir": "data.data_dir",
    "smiles_column": "data.smiles_column",
    "targets": "data.targets",
    "on_invalid": "data.on_invalid",
    "epochs": "run.epochs",
    "batch_size": "run.batch_size",
    "seed": "run.seed",
    "device": "run.device",
    "lr": "optim.lr",
    "layers": "model.layers",
    "norm": "model.norm",
}
"""Options for the most common settings."""


def _configuration(options: dict[str, Any]) -> TrainConfig:
    from molsepnorm.training import load_config

    if options["dataset"] and options["data"]:
        raise click.UsageError("--dataset and --data are both sources: give one of them")
    overrides = {
        setting: options[name] for name, setting in _NAMED.items() if options[name] is not None
    }
    return load_config(
        options["dataset"] or options["data"],
        config=options["config"],
        preset=options["preset"],
        overrides={**overrides, **options["settings"]},
    )


class _Stop:
    signal: int | None = None


@contextmanager
def _stop_on_signal(training: Callable[[], bool]) -> Iterator[_Stop]:
    """Within, SIGINT and SIGTERM ask training to stop after its step. Before training has begun,
    and when one comes again, they break off at once."""
    stop = _Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal is not None or not training():
            click.echo("\nStopped at once.", err=True)
            sys.exit(128 + number)
        stop.signal = number
        click.echo("\nStopping after this step (again to stop at once) …", err=True)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
