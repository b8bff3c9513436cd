"""`molsepnorm evaluate` and `analyze`: score and compare trained models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import make_console, make_table, print_dataset, print_json
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.devices import Precision


@cli.command()
@cli.model_option
@cli.setting_options("data.dataset", "data.table", "data.data_dir")
@cli.reading_options()
@cli.setting_options(
    "data.missing_values", "data.relation_column", "data.unit_column", "data.limits"
)
@cli.option(
    "--split",
    help="Split to score: train, val, test or all. [default: test; all for a table that the model "
    "was not trained on]",
)
@cli.option(
    "--allow-leak",
    is_flag=True,
    help="Score the model on a data set that its card excludes; the output then says so.",
)
@cli.setting_options("run.device", "run.precision", defaults=True)
@cli.json_option
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
    from molsepnorm.cli.display import label_notes, scores_table
    from molsepnorm.cli.sources import announce_unfinished
    from molsepnorm.tasks import json_scores
    from molsepnorm.training import evaluate as score
    from molsepnorm.training.results.summary import INTERVAL
    from molsepnorm.training.run_folder.folder import RunFolder

    run = None
    if not options["dataset"] and not options["data"]:
        run = RunFolder.of_model(model_folder)
        if run is None:
            raise click.UsageError(
                f"{model_folder} is not the folder of a run, which names its data: add --data "
                "FILE.csv or --dataset NAME"
            )
    data = cli.configuration({**options, "config": run and run.config}).data
    announce_unfinished(model_folder)
    result = score(model_folder, data, split, device, precision, allow_leak)
    scores, name = json_scores(result.scores), result.dataset.name
    if as_json:
        about = {"data": name, "split": result.split, "molecules": result.molecules}
        for key in ("not_finite", "leak", "labels"):
            if value := getattr(result, key):
                about[key] = value
        print_json({**about, **scores, "interval_95": result.intervals})
        return
    console = make_console()
    console.print(f"{name}: {counted(result.molecules, 'molecule')} ({result.split})")
    print_dataset(console, result.dataset)
    if result.leak:
        console.print(f"The scores are too optimistic: {result.leak}", style="yellow")
    if result.not_finite:
        console.print(
            f"The predictions of {counted(result.not_finite, 'molecule')} are not finite numbers, "
            "so the scores of these targets are undefined: the model's weights are damaged, or its "
            "values overflow"
        )
    intervals = {INTERVAL: result.intervals} if result.intervals else {}
    console.print(scores_table({result.split: scores, **intervals}))
    for line in label_notes(result.labels):
        console.print(line)


@cli.command()
@cli.option(
    "--model",
    "models",
    heading="Models",
    multiple=True,
    required=True,
    type=cli.FILE,
    metavar="RUN",
    help="Folder of a run or of a saved model, or of an ablation or benchmark for all runs in it. "
    "May be repeated; more folders may follow.",
)
@click.argument("more", nargs=-1, type=cli.FILE, metavar="[RUN]...")
@cli.setting_options("data.dataset", "data.table", "data.data_dir")
@cli.reading_options()
@cli.setting_options(
    "data.targets",
    help="Targets of the model that are correlated with the embeddings, separated by commas. "
    "[default: the first three]",
)
@cli.option(
    "--split",
    help="Split to analyse: train, val, test or all. [default: val; all for a table that the model "
    "was not trained on]",
)
@cli.option(
    "--molecules", type=click.IntRange(min=2), default=2000, help="Maximum number of molecules."
)
@cli.setting_options("run.device", defaults=True)
@cli.output_option("Folder of the figure and the numbers.", default=Path("geometry"))
@cli.json_option
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

    if options["data"] is None and any(options[name] is not None for name in cli.READING):
        raise click.UsageError("options on how a table is written need --data FILE.csv")
    is_named = options["dataset"] is not None or options["data"] is not None
    data = cli.configuration(options).data if is_named else None
    require_folder(output)
    loaded = load_models([*models, *more], data, split, molecules)
    console = make_console(quiet=as_json)
    analysis = run(loaded, device, lambda name: console.print(f"{name} …"), targets)
    write(analysis, output)
    if as_json:
        print_json(analysis.to_json())
        return
    (first, *groups), *rows = analysis.table()
    title = f"Graph token after the last layer, {analysis.molecules:,} molecules"
    console.print(make_table(title, (first, *(f">{group}" for group in groups)), rows))
    console.print(f"All layers: {output / 'geometry.png'}, {output / 'geometry.json'}")
