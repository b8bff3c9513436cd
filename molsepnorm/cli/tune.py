"""`molsepnorm tune`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import say
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    configuration,
    given_settings,
    option,
    output_option,
    training_options,
)
from molsepnorm.cli.signals import rank, stop_on_signal


@click.command(cls=GroupedCommand)
@training_options("run.budget")
@option(
    "--trials",
    heading="Search",
    type=click.IntRange(min=1),
    help="Number of trials, including those that are stopped early. The first one is the recipe. "
    "Required without --budget.",
)
@option("--budget", help="Time of the search, such as 30m or 1h. At least the recipe is trained.")
@option(
    "--space",
    type=FILE,
    help="YAML file of settings and their values. [default: configs/tune.yaml, without the "
    "settings that are given here or do not fit the recipe]",
)
@option(
    "--replicates",
    type=click.IntRange(min=1),
    help="Number of splits of each trial, whose validation scores are averaged. [default: every "
    "fold of --folds; otherwise as many as it takes to validate on 500 molecules, at most 5]",
)
@option("--no-train", is_flag=True, help="Do not train the best configuration at the end.")
@output_option(
    "Folder of the search, which several processes can share. [default: runs/<name>-tune]"
)
def tune(
    trials: int | None,
    budget: str | None,
    space: Path | None,
    replicates: int | None,
    no_train: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Search for the settings with the best validation score, and train with them.

    Bad trials are stopped early. The test split is used once, by the training of the best
    configuration at the end. Run the same command again to continue after an interruption, or
    several times at once to share the work.

    \b
    molsepnorm tune --data my.csv --targets logS --budget 1h
    molsepnorm tune --data my.csv --targets logS --split-type scaffold --trials 50
    molsepnorm tune --data my.csv --targets logS --trials 50 --space space.yaml -o runs/tune-logS
    """
    from molsepnorm.cli.display import TrainingDisplay, TuningDisplay, tuning_table
    from molsepnorm.training import StopWhen
    from molsepnorm.tuning import train_best
    from molsepnorm.tuning import tune as search

    if rank() is not None:
        raise click.UsageError(
            "a trial runs in one process: start the command several times with the same --output, "
            "in place of torchrun"
        )
    config = configuration(options)
    folder = output or Path("runs") / f"{config.data.label}-tune"
    display, training = TuningDisplay(), TrainingDisplay()
    with stop_on_signal(lambda: display.training) as stop:
        stopping = StopWhen(lambda: stop.signal is not None)
        tuning = search(
            config,
            folder,
            trials=trials,
            budget=budget,
            space=space,
            fixed=given_settings(options),
            splits=replicates,
            callback=[display, stopping],
            report=display.on_trial,
        )
        finished = tuning.finished
        if finished:
            display.console.print(tuning_table(tuning))
        if finished and not no_train and not tuning.others_run:
            try:
                finished = train_best(tuning, [training, stopping]).finished
            finally:
                training.close()
    if not finished:
        stop.leave()
    if tuning.others_run:
        say(
            "Another process runs a trial, and trains the best configuration at the end. If it was "
            "killed, run this command again in a minute."
        )
    elif no_train:
        best = shlex.quote(str(folder / "best.yaml"))
        say(f"Train the best configuration: molsepnorm train --config {best}")
    elif not training.training:
        say(f"The best configuration is already trained: {folder / 'best'}")
