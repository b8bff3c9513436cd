"""`molsepnorm analyze`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.options import (
    PLACE,
    configuration,
    device_option,
    options,
    source_options,
    split_names,
)

if TYPE_CHECKING:
    from rich.console import Console

    from molsepnorm.analysis.geometry import Analysis

__all__ = ["analyze"]


@click.command()
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    type=PLACE,
    metavar="RUN",
    help="A run or a model; or the folder of an ablation or a series, for all runs in it. More may "
    "follow, or be given by --model again.",
)
@click.argument("more", nargs=-1, type=PLACE, metavar="[RUN]...")
@options(source_options)
@click.option("--smiles-column", help="Of the file of --data. [default: smiles]")
@click.option(
    "--targets",
    callback=split_names,
    help="Of the model's, separated by commas: those that embeddings are correlated with. The "
    "first one colours the maps. [default: the first three]",
)
@click.option(
    "--split",
    help="train, val, test, or all. [default: val; all for a table that was not trained on]",
)
@click.option("--molecules", type=click.IntRange(min=2), default=2000, help="Most to look at.")
@click.option(
    "-o",
    "--output",
    type=PLACE,
    default=Path("geometry"),
    help="Folder of the page, the pictures and the numbers.",
)
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def analyze(
    models: tuple[Path, ...],
    more: tuple[Path, ...],
    targets: list[str] | None,
    split: str | None,
    molecules: int,
    output: Path,
    device: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Look at the embeddings of trained models, layer by layer, run beside run.

    How many directions the graph token's embeddings use, how evenly they fill the sphere, how far
    dropout moves them, and whether size and target can be read off them; the same of the atoms'
    mean. Runs of a series are told of together, mean ± sd. Without --dataset or --data the
    molecules are those of the first run; those of --data need no labels.

    \b
    molsepnorm analyze --model runs/zinc-ablation --output runs/zinc-ablation/geometry
    molsepnorm analyze --model runs/shared --model runs/sep --data my.csv
    """
    from molsepnorm.analysis.geometry import analyze as look
    from molsepnorm.analysis.geometry.models import load_models
    from molsepnorm.analysis.geometry.report import require_folder, write_report
    from molsepnorm.cli.console import make_console

    if given["smiles_column"] is not None and given["data"] is None:
        raise click.UsageError("--smiles-column is of a file: name it by --data FILE.csv")
    named = given["dataset"] is not None or given["data"] is not None
    data = configuration(given).data if named else None
    require_folder(output)
    loaded = load_models([*models, *more], data, split, molecules)
    console = make_console()

    def told(name: str) -> None:
        if not as_json:
            console.print(f"{name} …")

    analysis = look(loaded, device, told, targets)
    write_report(analysis, output)
    if as_json:
        click.echo(json.dumps(analysis.to_json(), indent=2))
    else:
        _show(analysis, output, console)


def _show(analysis: Analysis, output: Path, console: Console) -> None:
    from rich.table import Table

    from molsepnorm.analysis.geometry.report import table_of
    from molsepnorm.cli.console import cell

    groups, *rows = zip(*table_of(analysis), strict=True)  # a column for each group
    table = Table(title=f"graph token at the end, {len(analysis.sizes):,} molecules")
    for place, title in enumerate(groups):
        table.add_column(cell(title), justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    console.print(table)
    console.print(f"Figures, and all layers: {output / 'index.html'}")
