"""`molsepnorm evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.options import (
    column_options,
    configuration,
    device_option,
    model_option,
    options,
    precision_option,
    source_options,
)

if TYPE_CHECKING:
    from molsepnorm.predict.inference import Precision

__all__ = ["evaluate"]


@click.command()
@model_option
@options(source_options, column_options)
@click.option(
    "--split",
    help="train, val, test, or all. [default: test; all for a table that was not trained on]",
)
@device_option
@precision_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def evaluate(
    model_folder: Path,
    split: str | None,
    device: str,
    precision: Precision,
    as_json: bool,
    **given: Any,
) -> None:
    """Score a trained model on a split.

    \b
    molsepnorm evaluate --model runs/zinc-1 --dataset zinc --split test
    molsepnorm evaluate --model runs/logS --data new.csv
    """
    from molsepnorm.cli.console import make_console
    from molsepnorm.cli.display import scores_table
    from molsepnorm.tasks import json_scores
    from molsepnorm.training import evaluate as score

    if (given["dataset"] is None) == (given["data"] is None):
        raise click.UsageError("name one source: --dataset NAME or --data FILE.csv")
    found = score(model_folder, configuration(given).data, split, device, precision)
    scores = json_scores(found.scores)
    if as_json:
        about = {"data": found.dataset.name, "split": found.split, "molecules": found.molecules}
        about |= {"not_finite": found.not_finite} if found.not_finite else {}
        click.echo(json.dumps({**about, **scores}, indent=2))
        return
    console = make_console()
    console.print(f"{found.dataset.name}: {found.molecules:,} molecules ({found.split})")
    if found.dataset.rejected:
        console.print(f"Left out: {len(found.dataset.rejected)} row(s) that cannot be read")
    if found.not_finite:
        console.print(
            f"{found.not_finite:,} molecule(s) have a prediction that is not a finite number, so "
            "scores of these targets are undefined: the model's weights are damaged, or its "
            "numbers overflow"
        )
    console.print(scores_table({found.split: scores}))
