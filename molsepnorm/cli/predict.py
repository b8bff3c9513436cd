"""The commands that apply a model: `predict`, `embed`, `explain`, `screen` and `suggest`."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli import sources
from molsepnorm.cli.console import escaped, make_console, make_table, say
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.errors import StorageError, counted, prefixed
from molsepnorm.files.tables import check_embeddings_output, check_output

if TYPE_CHECKING:
    from molsepnorm.data.tables.formats import ReadOptions
    from molsepnorm.predict.screening import ScreenProgress

_SECONDS = 30.0  # between two lines of the progress of a screen without a terminal


@cli.command()
@cli.models_option()
@sources.source_options
@cli.output_option(
    "File: .csv, .tsv, .sdf (all also with .gz), .parquet or .xlsx. [default: CSV to standard "
    "output]"
)
@sources.uncertainty_options
@cli.option(
    "--reference",
    is_flag=True,
    help="Add the percentile of each prediction among the molecules that the model's card names, "
    "or else among the labels of its training molecules.",
)
@cli.option(
    "--alerts",
    is_flag=True,
    help="Add the structural alerts of each molecule (PAINS, Brenk, NIH).",
)
@cli.option(
    "--digits",
    type=click.IntRange(min=1, max=17),
    help="Significant digits of predicted numbers. [default: 6 or more, and all in Parquet]",
)
@cli.option(
    "--overwrite-columns",
    "overwrite",
    is_flag=True,
    help="Replace columns of the file that have the name of a new column, such as y_pred or error.",
)
def predict(
    model_folders: tuple[Path, ...],
    molecules: sources.Molecules,
    output: Path | None,
    digits: int | None,
    overwrite: bool,
    **columns: Any,
) -> None:
    """Predict the properties of molecules, from a file, --smiles or standard input.

    Standard input has one SMILES per line, or is a CSV. The output keeps all rows, their order and
    all columns, and adds <target>_pred. Failed rows have the reason in the column error. Several
    models are averaged; <target>_spread is the standard deviation over all of their networks.
    --uncertainty adds <target>_std, <target>_low and <target>_high, or <target>_calibrated and
    <target>_set. --domain adds similarity, in_domain (yes or no), nearest_smiles,
    <target>_expected_error and <target>_nearest; where training molecules lack labels of some
    targets, also <target>_similarity and <target>_nearest_smiles. --reference adds
    <target>_percentile, and --alerts the column alerts.

    \b
    molsepnorm predict --model runs/zinc-1 --smiles CCO --smiles c1ccccc1
    molsepnorm predict --model runs/zinc-1 --input my.csv --output predicted.csv
    molsepnorm predict --model runs/logS-1 --model runs/logS-2 --input my.csv
    molsepnorm predict --model runs/logS-1 --input my.csv --uncertainty --level 0.8
    molsepnorm predict --model runs/logS-1 --input my.csv --domain
    cut -d, -f1 my.csv | molsepnorm predict --model runs/zinc-1
    """
    molecules.check(output)
    with stop_on_signal():
        if output is not None:
            check_output(output)
        predictor = molecules.predictor(model_folders, **columns)
        from molsepnorm.predict import predict_rows

        rows = molecules.rows(predictor)
        with _opened(output) as out:
            count, failed = predict_rows(predictor, rows, out, digits=digits, overwrite=overwrite)
    if output or failed:
        sources.report(count, failed, f" to {output}" if output else "", "predicted")


class _Terminal(io.TextIOBase):
    """Standard output on a terminal, with control characters escaped."""

    def write(self, text: str) -> int:
        return sys.stdout.write(escaped(text))


@contextmanager
def _opened(output: Path | None) -> Iterator[Path | TextIO]:
    if output is not None:
        yield output
        return
    yield cast(TextIO, _Terminal()) if sys.stdout.isatty() else sys.stdout
    sys.stdout.flush()  # so that a full disk raises here, not when the interpreter exits


@cli.command()
@cli.model_option
@sources.source_options
@cli.output_option("File: .parquet, .csv or .tsv; the last two also with .gz.", required=True)
@cli.option("--atoms", is_flag=True, help="Also write the embeddings of the atoms; Parquet only.")
def embed(model_folder: Path, molecules: sources.Molecules, output: Path, atoms: bool) -> None:
    """Write embeddings of molecules, from a file, --smiles or standard input.

    The embedding of a molecule is the input of the network's head. Standard input has one SMILES
    per line, or is a CSV. The output keeps all rows, their order and all columns, and adds the
    column embedding (in a CSV or TSV embedding_0, embedding_1, …). Failed rows have the reason in
    the column error.

    \b
    molsepnorm embed --model runs/zinc-1 --input my.csv --output embeddings.parquet
    molsepnorm embed --model runs/zinc-1 --smiles CCO --atoms --output ethanol.parquet
    """
    molecules.check(output)
    with stop_on_signal():
        check_embeddings_output(output, atoms)
        predictor = molecules.predictor([model_folder])
        from molsepnorm.predict import embed_rows

        rows, failed = embed_rows(predictor, molecules.rows(predictor), output, atoms=atoms)
    sources.report(rows, failed, f" to {output}", "embedded")


@cli.command()
@cli.model_option
@sources.source_options
@cli.option(
    "--targets",
    heading="Explanation",
    callback=cli.split_names,
    help="Targets to explain, separated by commas. [default: all]",
)
@cli.option(
    "--pairs",
    type=click.IntRange(min=2, max=10_000),
    default=8,
    help="Number of pairs of random orders of the atoms. Twice as many take twice the time, and "
    "divide the squared error of a contribution by two.",
)
@cli.output_option(
    "By extension a page, picture or numbers: .html, .png, .svg, .json.", required=True
)
def explain(
    model_folder: Path,
    molecules: sources.Molecules,
    targets: list[str] | None,
    pairs: int,
    output: Path,
) -> None:
    """Explain predictions by the contributions of atoms and fragments.

    The contributions of a molecule's atoms, its descriptors and the feature columns add up to its
    prediction minus the prediction without them. The page also has the fragments with the largest
    contributions over all molecules. docs/explain.md describes the method.

    \b
    molsepnorm explain --model runs/logS --smiles "CC(=O)Oc1ccccc1C(=O)O" --output aspirin.html
    molsepnorm explain --model runs/logS --input my.csv --output my.html
    """
    molecules.check(output)
    if output.is_dir():
        raise StorageError(f"cannot write {output}: there is a folder of that name")
    with stop_on_signal():
        predictor = molecules.predictor([model_folder])
        predictor.model.require_targets()
        from molsepnorm.analysis.explanations import explain_rows, files

        chosen = files.chosen_targets(predictor.targets, targets)
        files.require_format(output, chosen)
        most = files.MAX_PICTURE if output.suffix.lower() in files.PICTURES else None
        explained = explain_rows(predictor, molecules.rows(predictor), pairs, most)
        name = model_folder.name or str(model_folder)
        files.write_explanations(explained, output, name, chosen)
    failed = sum(each.error is not None for each in explained)
    sources.report(len(explained), failed, f" to {output}", "explained", "the reasons there")


@cli.command()
@cli.models_option()
@cli.option(
    "-i",
    "--input",
    "inputs",
    heading="Library",
    multiple=True,
    required=True,
    help="File, or pattern in quotation marks such as 'lib/*.parquet'; may be repeated. CSV, TSV, "
    "Parquet, .smi, SDF or Excel, optionally compressed.",
)
@sources.table_options
@cli.option(
    "--columns",
    callback=cli.split_names,
    help="Columns of the input for the output, separated by commas. [default: those of SMILES, and "
    "the first that is called like an identifier]",
)
@cli.option(
    "--filter",
    heading="Choice",
    help="Keep the rows that meet a condition, such as 'logS > -4 and similarity > 0.3'.",
)
@cli.option("--top", type=click.IntRange(min=1), help="Keep only this many best rows.")
@cli.option("--by", help="Target or column for --top. [default: the only target, or its pIC50]")
@cli.option(
    "--ascending/--descending", default=None, help="Order for --top. [default: largest first]"
)
@cli.output_option(
    "Folder of the results. If it holds an unfinished screen, that one continues.", required=True
)
@sources.uncertainty_options
@cli.option(
    "--rows-per-part",
    type=click.IntRange(min=1),
    default=10_000,
    help="Number of rows that are predicted and written together.",
)
@cli.setting_options("run.device", "run.precision", defaults=True)
@sources.processes_option
def screen(
    model_folders: tuple[Path, ...],
    inputs: tuple[str, ...],
    options: ReadOptions,
    output: Path,
    processes: int | None,
    **chosen: Any,
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
    own = {name: chosen.pop(name) for name in ("device", "precision", "level", "domain")}
    with stop_on_signal():
        predictor = sources.load_predictor(model_folders, processes, **own)
        from molsepnorm.predict.screening import ScreenOptions
        from molsepnorm.predict.screening import screen as screen_library

        with _display(chosen["top"]) as show:
            wanted = ScreenOptions(options, **chosen)
            result = screen_library(predictor, inputs, output, wanted, show)
    kept = f", {result.kept:,} kept in {output / ('parts' if chosen['top'] is None else 'top.csv')}"
    sources.report(result.rows, result.rejected, kept, "predicted", output / "rejected")


@contextmanager
def _display(top: int | None) -> Iterator[Callable[[ScreenProgress], None]]:
    """Yield a function that shows the progress of a screen, on one line of a terminal."""
    from rich import progress as bars

    console = make_console(stderr=True)
    task, printed = None, time.monotonic()
    text = bars.TextColumn("{task.description}", markup=False)
    columns = bars.SpinnerColumn(), text, bars.TimeElapsedColumn()
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as bar:

        def show(progress: ScreenProgress) -> None:
            nonlocal task, printed
            if task is None:
                if progress.ranked_by is not None:
                    console.print(f"Ranked by {progress.ranked_by}")
                if progress.parts:
                    parts, rows = counted(progress.parts, "part"), counted(progress.rows, "row")
                    console.print(f"{parts} with {rows} are finished already")
                task = bar.add_task("")
            kept = f", {progress.kept:,} kept" if top is None else ""
            line = f"{progress.rows:,} rows{kept}"
            bar.update(task, description=line)
            if not console.is_terminal and time.monotonic() - printed >= _SECONDS:
                printed = time.monotonic()
                console.print(line)

        yield show


def _goal_option(name: str, example: str, help: str) -> cli.Decorator:
    """Return an option that takes TARGET=TEXT and may be repeated."""
    given: dict[str, Any] = {"metavar": "TARGET=TEXT", "multiple": True, "heading": "Choice"}
    given["callback"] = lambda _, __, texts: cli.named_texts(texts, example)
    return cli.option(f"--{name}", help=f"{help}, such as {example}.", **given)


@cli.command()
@cli.optional_model_option
@sources.source_options
@_goal_option("goal", "pIC50=max", "max or min of a number, or a class")
@_goal_option("minimum", "logS=-4", "Smallest value that is wanted")
@_goal_option("maximum", "logD=3", "Largest value that is wanted")
@cli.option("--over", type=float, help="Value to improve on. [default: the best training label]")
@cli.option("--count", type=click.IntRange(min=1), default=96, help="Number of molecules.")
@cli.option("--exploit", type=click.FloatRange(0, 1), default=0.7, help="0 for diversity alone.")
@cli.option("--level", type=float, default=0.9, help="Level of the intervals in the output.")
@cli.output_option(
    "File: .csv, .tsv, .sdf (all also with .gz), .parquet or .xlsx; needed without --simulate."
)
@cli.option(
    "--simulate",
    heading="Simulation",
    is_flag=True,
    help="Hide the labels of --data, choose in rounds, and count how many of the best 5 % are "
    "found. Trains without epochs and forest unless options say otherwise.",
)
@cli.option("--rounds", type=click.IntRange(min=1), help="Number of rounds. [default: 5]")
@cli.option("--start", type=click.IntRange(min=5), help="Molecules known at first. [default: 50]")
@cli.option("--repeats", type=click.IntRange(min=1), help="Number of other starts. [default: 3]")
@cli.setting_options("data.table", "data.targets", "data.transform", "run.epochs")
@cli.recipe_options
def suggest(
    model_folder: Path | None,
    molecules: sources.Molecules,
    output: Path | None,
    level: float,
    simulate: bool,
    **options: Any,
) -> None:
    """Choose the molecules to make or measure next, from a file, --smiles or standard input.

    The value of a candidate is its expected improvement on the best training label (--goal), the
    probability that it is beyond thresholds (--minimum, --maximum) or of a class (--goal), or their
    product. Candidates that are similar to the training molecules or to the batch so far count
    less, by --exploit. The output is in the order of choice, with predictions, intervals, the value
    (acquisition), similarities and the reason of each choice.

    \b
    molsepnorm suggest --model runs/pIC50 --input my.csv --goal pIC50=max --output batch.csv
    molsepnorm suggest --model runs/both --input my.csv --goal pIC50=max --minimum logS=-5 \\
        --count 24 --output batch.csv
    molsepnorm suggest --simulate --data old.csv --targets pIC50 --goal pIC50=max
    """
    wishes = [options.pop(name) for name in ("goal", "minimum", "maximum", "over")]
    numbers = {name: options.pop(name) for name in ("count", "exploit")}
    if simulate:
        if output or model_folder:
            raise click.UsageError("--simulate trains models: leave out --model and --output")
        rounds = {name: options.pop(name) for name in ("rounds", "start", "repeats")}
        numbers |= {name: number for name, number in rounds.items() if number is not None}
        _simulate(molecules, options, wishes, **numbers)
        return
    if given := [name for name, value in options.items() if value not in (None, {})]:
        raise click.UsageError(f"'{given[0]}' is an option of a simulation: add --simulate")
    if model_folder is None or output is None:
        missing = "--model" if model_folder is None else "--output"
        raise click.UsageError(f"a choice needs {missing}; --simulate needs only a table")
    molecules.check(output)
    check_output(output)
    with stop_on_signal():
        with prefixed("suggest needs intervals and training molecules"):
            predictor = molecules.predictor([model_folder], level=level, domain=True)
        from molsepnorm.predict.suggest import parse_goals
        from molsepnorm.predict.suggest import suggest as choose

        wished = parse_goals(predictor.model.task, *wishes)
        rows = molecules.rows(predictor)
        done = choose(predictor, rows, output, goals=wished, **numbers)
    say(f"Ranked by {done.ranked_by}", err=True)
    chosen = f", {done.chosen:,} chosen in {output}"
    known = f"; {done.measured:,} measured already and left out" if done.measured else ""
    sources.report(done.rows, done.failed, chosen + known, "predicted", done.rejected)


def _simulate(
    molecules: sources.Molecules, options: dict[str, Any], wishes: list[Any], **numbers: Any
) -> None:
    """Print how many of the best molecules of a table are found, by strategy and round."""
    if not options["data"] or molecules.smiles or molecules.source:
        raise click.UsageError("--simulate reads a finished table: give --data FILE.csv alone")
    from molsepnorm.predict.suggest import parse_goals
    from molsepnorm.training.comparing.simulation import simulate

    reading = dict(zip(cli.READING, vars(molecules.options).values(), strict=False))
    reading["smiles_column"] = [reading["smiles_column"], *molecules.options.further]
    quick = {"run.epochs": 0, "run.blend": "none", "run.baseline": False}
    reading |= {"device": molecules.device, "precision": molecules.precision}
    config = cli.configuration({**options, **reading}, None if options["config"] else quick)
    with stop_on_signal():
        numbers["on_round"] = partial(say, err=True)
        result = simulate(config, lambda task: parse_goals(task, *wishes), **numbers)
    title = f"{result.wanted:,} of {counted(result.molecules, 'molecule')} are wanted; found, mean"
    heads = ["", *(f">{size:,} measured" for size in result.measured)]
    means = {name: hits.mean(axis=0) for name, hits in result.found.items()}
    rows = [[n, *(f"{m:.1f} ({m / result.wanted:.0%})" for m in mean)] for n, mean in means.items()]
    make_console().print(make_table(title, heads, rows))
