"""`molsepnorm evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.console import make_console, print_dataset, print_json
from molsepnorm.cli.options import (
    GroupedCommand,
    configuration,
    json_option,
    model_option,
    option,
    reading_options,
    setting_options,
)
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.devices import Precision


@click.command(cls=GroupedCommand)
@model_option
@setting_options("data.dataset", "data.table", "data.data_dir")
@reading_options()
@setting_options("data.missing_values", "data.relation_column", "data.unit_column", "data.limits")
@setting_options(
    "data.targets",
    help="Columns of the targets, separated by commas. [default: the model's targets]",
)
@option(
    "--split",
    help="Split to score: train, val, test or all. [default: test; all for a table that the model "
    "was not trained on]",
)
@option(
    "--allow-leak",
    is_flag=True,
    help="Score the model on a data set that its card excludes; the output then says so.",
)
@setting_options("run.device", "run.precision", defaults=True)
@json_option
def evaluate(
    model_folder: Path,
    split: str | None,
    allow_leak: bool,
    device: str,
    precision: Precision,
    as_json: bool,
    **options: Any,
) -> None:
    """Score a trained model on a split, with 95 % intervals by bootstrap over the molecules.

    Without --dataset and --data, these are the data that the run was trained on.

    \b
    molsepnorm evaluate --model runs/logS
    molsepnorm evaluate --model runs/zinc-1 --dataset zinc --split val
    molsepnorm evaluate --model runs/logS --data new.csv
    """
    from molsepnorm.cli.sources import announce_unfinished
    from molsepnorm.cli.tables import label_notes, scores_table
    from molsepnorm.tasks import json_scores
    from molsepnorm.training import evaluate as score
    from molsepnorm.training.results.summary import INTERVAL

    own = None if options["dataset"] or options["data"] else _own_config(model_folder)
    data = configuration({**options, "config": own}).data
    announce_unfinished(model_folder)
    found = score(model_folder, data, split, device, precision, allow_leak)
    scores = json_scores(found.scores)
    if as_json:
        about = {"data": found.dataset.name, "split": found.split, "molecules": found.molecules}
        about |= {"not_finite": found.not_finite} if found.not_finite else {}
        about |= {"leak": found.leak} if found.leak else {}
        about |= {"labels": found.labels} if found.labels else {}
        print_json({**about, **scores, "interval_95": found.intervals})
        return
    console = make_console()
    console.print(f"{found.dataset.name}: {counted(found.molecules, 'molecule')} ({found.split})")
    print_dataset(console, found.dataset)
    if found.leak:
        console.print(f"The scores are too optimistic: {found.leak}", style="yellow")
    if found.not_finite:
        console.print(
            f"The predictions of {counted(found.not_finite, 'molecule')} are not finite numbers, "
            "so the scores of these targets are undefined: the model's weights are damaged, or its "
            "values overflow"
        )
    intervals = {INTERVAL: found.intervals} if found.intervals else {}
    console.print(scores_table({found.split: scores, **intervals}))
    for line in label_notes(found.labels):
        console.print(line)


def _own_config(model_folder: Path) -> Path:
    """Return the configuration of the run that trained a model."""
    from molsepnorm.training.run_folder.folder import RunFolder

    run = RunFolder.of_model(model_folder)
    if run is None:
        raise click.UsageError(
            f"{model_folder} is not the folder of a run, which names its data: add --data FILE.csv "
            "or --dataset NAME"
        )
    return run.config
