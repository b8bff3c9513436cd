"""`molsepnorm analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import make_console, make_table, print_json
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    configuration,
    json_option,
    option,
    output_option,
    reading_options,
    setting_options,
)


@click.command(cls=GroupedCommand)
@option(
    "--model",
    "models",
    heading="Models",
    multiple=True,
    required=True,
    type=FILE,
    metavar="RUN",
    help="Folder of a run or of a saved model, or of an ablation or benchmark for all runs in it. "
    "May be repeated; more folders may follow.",
)
@click.argument("more", nargs=-1, type=FILE, metavar="[RUN]...")
@setting_options("data.dataset", "data.table", "data.data_dir")
@reading_options()
@setting_options(
    "data.targets",
    help="Targets of the model that are correlated with the embeddings, separated by commas. "
    "[default: the first three]",
)
@option(
    "--split",
    help="Split to analyse: train, val, test or all. [default: val; all for a table that the model "
    "was not trained on]",
)
@option(
    "--molecules", type=click.IntRange(min=2), default=2000, help="Maximum number of molecules."
)
@setting_options("run.device", defaults=True)
@output_option("Folder of the figure and the numbers.", default=Path("geometry"))
@json_option
def analyze(
    models: tuple[Path, ...],
    more: tuple[Path, ...],
    targets: list[str] | None,
    split: str | None,
    molecules: int,
    output: Path,
    device: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the embeddings of trained models, layer by layer.

    Reports the effective dimension of the graph token's embeddings, how evenly they cover the
    sphere, how much dropout moves them, and how well size and targets can be read from them; the
    same for the mean of the atoms. Runs that differ only in their seed are summarised together.
    Without --dataset or --data, the molecules are those of the first run. A table given by --data
    needs no labels.

    \b
    molsepnorm analyze --model runs/zinc-ablation --output runs/zinc-ablation/geometry
    molsepnorm analyze --model runs/shared --model runs/sep --data my.csv
    """
    from molsepnorm.analysis.geometry import analyze as run
    from molsepnorm.analysis.geometry.analysis import load_models
    from molsepnorm.analysis.geometry.figure import require_folder, write

    if options["smiles_column"] is not None and options["data"] is None:
        raise click.UsageError("--smiles-column needs a table: give --data FILE.csv")
    named = options["dataset"] is not None or options["data"] is not None
    data = configuration(options).data if named else None
    require_folder(output)
    loaded = load_models([*models, *more], data, split, molecules)
    console = make_console()
    progress = (lambda name: None) if as_json else (lambda name: console.print(f"{name} …"))
    analysis = run(loaded, device, progress, targets)
    write(analysis, output)
    if as_json:
        print_json(analysis.to_json())
        return
    groups, *rows = analysis.table()
    title = f"Graph token after the last layer, {analysis.molecules:,} molecules"
    table = make_table(title, groups[0], *(f">{group}" for group in groups[1:]))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"All layers: {output / 'geometry.png'}, {output / 'geometry.json'}")
