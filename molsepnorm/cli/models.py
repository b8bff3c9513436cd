"""`molsepnorm models`: list, verify, join, report and export models."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import make_console, make_table, one_line, print_json, say
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import load_predictor, refuse_repeated, table_options
from molsepnorm.errors import ConfigError, counted, did_you_mean

if TYPE_CHECKING:
    from molsepnorm.data.tables.formats import ReadOptions
    from molsepnorm.pretrained.card import ModelCard

_SHOWN = 5  # rejected rows that are printed


class _ShowByDefault(click.Group):
    """A group with the default command `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault)
def models() -> None:
    """List, verify, join and export models.

    A model that comes with molsepnorm can be named wherever a model folder is expected. `show`
    lists these models, or prints the card of one, and may be left out.

    \b
    molsepnorm models
    molsepnorm models molsepnorm-small
    molsepnorm models molsepnorm-small --json
    molsepnorm models verify runs/logS
    molsepnorm train --data my.csv --targets logS --from molsepnorm-small
    """


@models.command(cls=cli.GroupedCommand)
@click.argument("folder", type=cli.FILE)
@cli.json_option
def verify(folder: Path, as_json: bool) -> None:
    """Compare the files of a model with their digests, and load the model.

    FOLDER is the folder of a run or a model, or the name of a model that comes with molsepnorm. Of
    a run, all models and checkpoints are verified; its other files have no digests. The exit status
    is 1 if a file is damaged. Digests detect accidental damage: whoever changes a file on purpose
    can change its digest, too.

    \b
    molsepnorm models verify runs/logS
    molsepnorm models verify runs/logS/model --json
    """
    from molsepnorm.training.run_folder.verification import verify as verified

    checks = verified(folder)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.path) for check in checks)
        for check in checks:
            say(one_line(f"{check.path:<{width}}  {'damaged' if check.problem else 'intact'}"))
    damaged = [check for check in checks if check.problem]
    for check in damaged:
        say(one_line(f"Error: {check.problem}"), err=True)
    if damaged:
        sys.exit(1)


@models.command(cls=cli.GroupedCommand)
@click.argument("name", required=False)
@cli.json_option
def show(name: str | None, as_json: bool) -> None:
    """List the models that come with molsepnorm, or print the card of one.

    \b
    molsepnorm models show
    molsepnorm models show molsepnorm-small --json
    """
    from molsepnorm.pretrained import shipped_models
    from molsepnorm.pretrained.card import read_card

    folders = shipped_models()
    if name is not None and name not in folders:
        raise ConfigError(f"no model '{name}' comes with molsepnorm. {did_you_mean(name, folders)}")
    cards = [
        (read_card(folder), sum(path.stat().st_size for path in folder.iterdir()))
        for folder in ([folders[name]] if name else folders.values())
    ]
    if as_json:
        content = [{**asdict(card), "bytes": size} for card, size in cards]
        print_json(content[0] if name else content)
    elif name:
        _print_card(*cards[0])
    else:
        _print_list(cards)


def _print_list(cards: Iterable[tuple[ModelCard, int]]) -> None:
    headings = ("name", ">parameters", ">size", "trained on", "objectives", "must not be scored on")
    rows = (
        (
            card.name,
            f"{card.parameters:,}",
            _megabytes(size),
            ", ".join(f"{source.molecules:,} of {source.name}" for source in card.sources),
            ", ".join(card.objectives),
            ", ".join(card.excludes),
        )
        for card, size in cards
    )
    console = make_console()
    console.print(make_table("Models", headings, rows, plain=True))
    console.print("Print the card of a model: molsepnorm models NAME")


def _print_card(card: ModelCard, size: int) -> None:
    console = make_console()
    console.print(f"{card.name} {card.version}: {card.description}", style="bold")
    about = make_table("", ("", ""), _rows(card, size), plain=True)
    about.show_header = False
    console.print(about)
    if card.scores:
        headings = ("data set", "metric", "method", ">mean", ">sd", ">seeds")
        rows = []
        for score in card.scores:
            sd = f"{score.sd:.3f}" if score.seeds > 1 else ""
            names = score.dataset, score.metric, score.method
            rows.append((*names, f"{score.mean:.3f}", sd, str(score.seeds)))
        console.print(make_table("Scores", headings, rows))
    if card.end_points:
        headings = ("target", "what it is", "unit", ">molecules", "source", "licence")
        described = (
            (name, each.title, each.unit, f"{each.molecules:,}", each.source, each.licence)
            for name, each in card.end_points.items()
        )
        console.print(make_table("Targets", headings, described, plain=True))
    if card.predicts:
        console.print(f"Predict with it: molsepnorm predict --model {card.name} --input my.csv")
    console.print(f"Fine-tune it: molsepnorm train --data my.csv --from {card.name}")


def _rows(card: ModelCard, size: int) -> Iterable[tuple[Any, ...]]:
    for source in card.sources:
        digest = f"sha256 {source.sha256[:12]}…"
        yield "trained on", f"{source.molecules:,} molecules of {source.name} ({digest})"
    yield "objectives", ", ".join(f"{name} ({w:g})" for name, w in card.objectives.items())
    yield "network", f"{card.architecture}; {card.parameters:,} parameters, {_megabytes(size)}"
    yield "training", f"{card.hours:g} hours on {card.machine}"
    yield "weights", f"sha256 {card.weights_sha256[:12]}…"
    yield "licence", card.licence
    for dataset, reason in card.excludes.items():
        yield "must not be scored on", f"{dataset}: {reason}"
    if card.excludes:
        yield "", "These data sets are recognised by name; a table with their molecules is not."


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


@models.command(cls=cli.GroupedCommand)
@click.argument("folders", metavar="MODELS...", nargs=-1, required=True, type=cli.FILE)
@cli.output_option("Folder of the joined model.", required=True)
@cli.option("--force", is_flag=True, help="Replace an existing model.")
def join(folders: tuple[Path, ...], output: Path, force: bool) -> None:
    """Join trained models into one model, which predicts their mean.

    MODELS are folders of runs or of models with the same targets and inputs. Predictions of the
    joined model have their standard deviation over the parts as <target>_spread. To train an
    ensemble from a table, use molsepnorm train --ensemble.

    \b
    molsepnorm models join runs/logS-1 runs/logS-2 --output models/logS
    """
    from molsepnorm.model import PropertyModel, require_new_model
    from molsepnorm.model import join as joined_model

    refuse_repeated(folders)
    require_new_model(output, force)
    joined = joined_model([PropertyModel.from_pretrained(folder) for folder in folders])
    joined.save_pretrained(output)
    parts = counted(len(joined.parts), "part")
    say(f"{parts} of {counted(len(folders), 'model')}. Model: {output}")


@models.command(cls=cli.GroupedCommand)
@click.argument("run", type=cli.FILE)
@cli.output_option("Page to write. [default: report.html in the folder of the run]")
def report(run: Path, output: Path | None) -> None:
    """Write the report of a finished run, an HTML page.

    RUN is the folder of the run. Its files are read, and no model is applied. Training writes the
    same page as report.html; docs/report.md describes it.

    \b
    molsepnorm models report runs/logS-1
    molsepnorm models report runs/logS-1 --output logS.html
    """
    from molsepnorm.training.report import write_report

    say(one_line(f"Report: {write_report(run, output)}"))


@models.command(cls=cli.GroupedCommand)
@cli.models_option()
@cli.option(
    "--encode",
    "source",
    heading="Molecules",
    type=cli.FILE,
    help="Write the molecules of this file as inputs of the exported model: CSV, TSV, Parquet, "
    "Excel, SDF or .smi, optionally compressed. By default the model is written.",
)
@table_options
@cli.output_option("Folder to write.", required=True)
def export(
    model_folders: tuple[Path, ...], source: Path | None, options: ReadOptions, output: Path
) -> None:
    """Write a model as ONNX, which maps tensors to predictions.

    The folder has model.onnx, model.json, which describes the inputs and outputs, and example.npz.
    The file is compared with `molsepnorm predict` before it is put in place. With --encode,
    molecules are written as inputs of an exported model, 64 to a file.

    \b
    molsepnorm models export --model runs/logS --output logS-onnx
    molsepnorm models export --model runs/logS --encode my.csv --output my-encoded
    """
    if source is None and options != type(options)():
        raise click.UsageError("--smiles-column and other options on tables belong to --encode")
    from molsepnorm.interop.export import check_export, encode_table, export_onnx

    with stop_on_signal():
        if source is None:
            check_export(output)  # before the model is loaded
        model = load_predictor(model_folders, processes=1).model
        if source is None:
            report = export_onnx(model, output)
            say(f"Model: {report.file}")
            say(
                f"Largest difference from molsepnorm predict on {report.molecules} molecules: "
                f"{report.difference:.1e} ({report.unit})"
            )
            return
        encoded = encode_table(model, source, output, options)
    for line in encoded.rejected[:_SHOWN]:
        say(f"Left out: {line}", err=True)
    if others := len(encoded.rejected[_SHOWN:]):
        say(f"Left out: {counted(others, 'other row')}", err=True)
    say(f"{counted(encoded.molecules, 'molecule')} in {counted(encoded.files, 'file')}: {output}")
