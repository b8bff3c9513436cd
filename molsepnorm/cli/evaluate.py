"""`molsepnorm evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.options import data_options, model_option

__all__ = ["evaluate"]


@click.command()
@model_option
@data_options
@click.option("--split", default="test", help="train, val, test, or all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def evaluate(model_folder: Path, split: str, as_json: bool, **options: Any) -> None:
    """Score a trained model on a split.

    \b
    molsepnorm evaluate --model runs/zinc-1 --dataset zinc --split test
    molsepnorm evaluate --model runs/logS --data new.csv --split all
    """
    from rich.console import Console

    from molsepnorm.cli.display import scores_table
    from molsepnorm.model import PropertyModel
    from molsepnorm.training import evaluate as score
    from molsepnorm.training import load_config

    if (options["dataset"] is None) == (options["data"] is None):
        raise click.UsageError("name one source: --dataset NAME or --data FILE.csv")
    settings = {
        f"data.{name}": options[name]
        for name in ("data_dir", "smiles_column", "targets")
        if options[name] is not None
    }
    model = PropertyModel.from_pretrained(model_folder)
    source = options["dataset"] or options["data"]
    dataset, scores = score(model, load_config(source, overrides=settings).data, split)
    if as_json:
        click.echo(json.dumps({"data": dataset.name, "split": split, **scores}, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"Data: {dataset.name}")
    if dataset.rejected:
        console.print(f"Left out: {len(dataset.rejected)} row(s) that cannot be read")
    console.print(scores_table({split: dict(scores)}))
