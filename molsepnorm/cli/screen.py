"""`molsepnorm screen`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from molsepnorm.cli.console import make_console, say
from molsepnorm.cli.options import (
    GroupedCommand,
    models_option,
    option,
    output_option,
    setting_options,
    split_names,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import (
    load_predictor,
    processes_option,
    table_options,
    uncertainty_options,
)
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.data.tables.formats import ReadOptions
    from molsepnorm.devices import Precision
    from molsepnorm.predict.screening import ScreenProgress

_SECONDS = 30.0  # between two lines of progress without a terminal


@click.command(cls=GroupedCommand)
@models_option
@option(
    "-i",
    "--input",
    "inputs",
    heading="Library",
    multiple=True,
    required=True,
    help="File, or pattern in quotation marks such as 'lib/*.parquet'; may be repeated. CSV, TSV, "
    "Parquet, .smi, SDF or Excel, optionally compressed.",
)
@table_options
@option(
    "--columns",
    callback=split_names,
    help="Columns of the input for the output, separated by commas. [default: that of SMILES, and "
    "the first that is called like an identifier]",
)
@option(
    "--filter",
    "condition",
    heading="Choice",
    help="Keep the rows that fulfil a condition on columns, such as 'logS > -4 and "
    "similarity > 0.3'.",
)
@option("--top", type=click.IntRange(min=1), help="Keep only this many best rows.")
@option(
    "--by",
    help="With --top: the target or column of predicted numbers. [default: the only target, or its "
    "pIC50]",
)
@option(
    "--ascending/--descending",
    default=None,
    help="With --top: keep the smallest or the largest values. [default: largest]",
)
@output_option(
    "Folder of the results. If it holds an unfinished screen, that one continues.", required=True
)
@uncertainty_options
@option(
    "--rows-per-part",
    type=click.IntRange(min=1),
    default=10_000,
    help="Number of rows that are predicted and written together.",
)
@setting_options("run.device", "run.precision", defaults=True)
@processes_option
def screen(
    model_folders: tuple[Path, ...],
    inputs: tuple[str, ...],
    options: ReadOptions,
    columns: list[str] | None,
    condition: str | None,
    top: int | None,
    by: str | None,
    ascending: bool | None,
    output: Path,
    level: float | None,
    domain: bool,
    rows_per_part: int,
    device: str,
    precision: Precision,
    processes: int | None,
) -> None:
    """Predict libraries of any size, and keep the rows that matter.

    The results are Parquet files in the folder parts of the output, and rows that cannot be
    predicted in the folder rejected. --top writes top.csv and top.parquet. If a screen is stopped
    or killed, the same command continues it.

    \b
    molsepnorm screen --model runs/logS --input library.smi.gz --output hits --filter 'logS > -4'
    molsepnorm screen --model runs/logS --input 'lib/*.parquet' --output best --top 10000
    molsepnorm screen --model runs/logS --input my.csv --output near --domain --filter in_domain
    """
    with ExitStack() as stack:
        stack.enter_context(stop_on_signal())
        predictor = load_predictor(model_folders, device, processes, precision, level, domain)
        from molsepnorm.predict.screening import ScreenOptions
        from molsepnorm.predict.screening import screen as screen_library

        chosen = ScreenOptions(options, columns, condition, top, by, ascending, rows_per_part)
        show = stack.enter_context(_display(top))
        result = screen_library(predictor, inputs, output, chosen, show)
    rejected = ""
    if result.rejected:
        rejected = f"; {result.rejected:,} could not be predicted, see {output / 'rejected'}"
    place = output / ("parts" if top is None else "top.csv")
    say(f"{counted(result.rows, 'row')}, {result.kept:,} kept in {place}{rejected}", err=True)


@contextmanager
def _display(top: int | None) -> Iterator[Callable[[ScreenProgress], None]]:
    """Yield a function that shows the progress of a screen on standard error: a bar on a terminal,
    lines elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = make_console(stderr=True)
    task, printed = None, time.monotonic()
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        *(BarColumn(), text, TimeRemainingColumn()),
        console=console,
        disable=not console.is_terminal,
    ) as bar:

        def show(progress: ScreenProgress) -> None:
            nonlocal task, printed
            if task is None:
                if progress.ranked_by is not None:
                    console.print(f"Ranked by {progress.ranked_by}")
                if progress.parts:
                    done = counted(progress.parts, "part"), counted(progress.rows, "row")
                    console.print(f"{done[0]} with {done[1]} are finished already")
                task = bar.add_task("", completed=progress.rows)
            total = progress.expected  # None unless all files are Parquet
            kept = f", {progress.kept:,} kept" if top is None else ""
            of = "" if total is None else f" of {total:,}"
            line = f"{progress.rows:,}{of} rows{kept}"
            bar.update(task, description=line, completed=progress.rows, total=total)
            if not console.is_terminal and time.monotonic() - printed >= _SECONDS:
                printed = time.monotonic()
                console.print(line)

        yield show
