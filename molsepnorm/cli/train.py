"""`molsepnorm train` and `molsepnorm pretrain`."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from molsepnorm.cli.console import say
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    configuration,
    option,
    output_option,
    reading_options,
    recipe_options,
    setting_options,
    training_options,
)
from molsepnorm.cli.signals import rank, stop_on_signal
from molsepnorm.errors import MolsepnormError, StorageError

if TYPE_CHECKING:
    from molsepnorm.training import TrainConfig


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --output, --resume and --quiet to a command."""
    resume = option(
        "--resume",
        type=FILE,
        help="Continue the run in this folder; with a higher --epochs, train it for longer.",
    )
    quiet = option("-q", "--quiet", is_flag=True, help="Print only the final scores.")
    output = output_option("Folder of the run. [default: runs/<name>-<number>]")
    return output(resume(quiet(command)))


@click.command(cls=GroupedCommand)
@training_options()
@run_options
@click.pass_context
def train(
    ctx: click.Context, output: Path | None, resume: Path | None, quiet: bool, **options: Any
) -> None:
    """Train a model on a data set or a table.

    \b
    molsepnorm train --dataset zinc
    molsepnorm train --data my.csv --targets logS --ensemble 5
    molsepnorm train --data my.csv --targets active --split-type scaffold
    molsepnorm train --config configs/zinc.yaml --set model.layers=6
    molsepnorm train --resume runs/zinc-1
    torchrun --nproc-per-node 4 -m molsepnorm train --dataset zinc
    """
    run_training(ctx, None if resume else configuration(options), output, resume, quiet)


def run_training(
    ctx: click.Context,
    config: TrainConfig | None,
    output: Path | None,
    resume: Path | None,
    quiet: bool,
) -> None:
    """Train with a configuration, or continue a run, and exit if a signal stops it."""
    from molsepnorm.cli.display import RunLog, TrainingDisplay
    from molsepnorm.training import StopWhen
    from molsepnorm.training import train as start
    from molsepnorm.training.run_folder.folder import RunFolder

    silent = bool(rank())  # of torchrun's processes, only the first prints and writes the log
    display = TrainingDisplay(quiet or silent)
    display.console.quiet = silent
    if resume is not None:
        _require_nothing_else(ctx)
        folder = resume
    else:
        assert config is not None
        folder = output or RunFolder.numbered(config.data.label)
    log = RunLog(folder)
    with stop_on_signal(lambda: display.training) as stop, display.heartbeat():
        try:
            result = start(
                config,
                folder,
                resume=resume is not None,
                epochs=None if resume is None else ctx.params["epochs"],
                callback=[
                    *(display, StopWhen(lambda: stop.signal is not None)),
                    *([] if silent else [log]),
                ],
            )
        except MolsepnormError as error:
            with suppress(StorageError):  # of the log; the disk may be full
                log.write(f"Error: {error}")
            raise
        finally:
            display.close()
    if not result.finished:
        if not silent:
            command = f"molsepnorm {ctx.info_name} --resume {shlex.quote(str(result.folder))}"
            log.write(stopped := f"Stopped and saved. Continue: {command}")
            say(stopped, err=True)
        # without a signal here, another process received it
        sys.exit(128 + (stop.signal or signal.SIGTERM))


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a resumed run would ignore."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("resume", "epochs", "quiet"):
            raise click.UsageError(
                "--resume continues a run with its own configuration, so it takes no other option "
                f"than --epochs and --quiet; got {max(parameter.opts, key=len)}"
            )


@click.command(cls=GroupedCommand)
@option(
    "--data",
    "files",
    heading="Data",
    type=FILE,
    multiple=True,
    help="File with SMILES: CSV, TSV, Parquet, SDF or .smi; may be repeated.",
)
@option(
    "--teacher",
    heading="Data",
    type=FILE,
    help="Parquet file, or folder of them, with embeddings of these molecules by another model, in "
    "the columns smiles and embedding.",
)
@reading_options()
@setting_options("data.featurizer", "data.on_invalid")
@recipe_options
@setting_options(
    "model", "optim.lr", "run", without=("run.metric", "run.baseline", "run.blend", "run.refit")
)
@run_options
@click.pass_context
def pretrain(
    ctx: click.Context,
    files: tuple[Path, ...],
    teacher: Path | None,
    output: Path | None,
    resume: Path | None,
    quiet: bool,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """Train a model on structures without labels, as a start for `train --from`.

    The weights of the losses are settings: objective.teacher, objective.descriptors and
    objective.contrastive.

    \b
    molsepnorm pretrain --data molecules.smi --output runs/pretrained
    molsepnorm pretrain --data molecules.smi --teacher vectors.parquet
    molsepnorm pretrain --data a.csv --data b.parquet --set objective.contrastive=1 --epochs 5
    molsepnorm pretrain --resume runs/pretrained
    molsepnorm train --data my.csv --targets logS --from runs/pretrained
    """
    config = None
    if resume is None:
        from molsepnorm.training.recipes import config_folder

        if not files:
            raise click.UsageError("name the molecules: --data FILE")
        options["config"] = options["config"] or config_folder() / "pretrain.yaml"
        given: dict[str, Any] = {"data.structures": [str(file) for file in files]}
        if teacher is not None:
            given |= {"objective.teacher": 1.0, "objective.teacher_vectors": str(teacher)}
        config = configuration({**options, "settings": {**given, **settings}})
    run_training(ctx, config, output, resume, quiet)
