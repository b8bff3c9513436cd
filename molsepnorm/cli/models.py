"""Models as files: shipped ones, their integrity, ensembles, reports, and export."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.console import make_console, make_table, one_line, print_json, say
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    json_option,
    models_option,
    option,
    output_option,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.cli.sources import load_predictor, refuse_repeated, table_options
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.data.tables.formats import ReadOptions
    from molsepnorm.pretrained import ModelCard

_SHOWN = 5  # rejected rows that are printed


class _ShowByDefault(click.Group):
    """A group whose command is `show` unless another one is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault)
def models() -> None:
    """List the models that come with molsepnorm, or print the card of one; verify, join and
    export models.

    The name of a model can be given wherever a model folder is expected. `show` may be left out.

    \b
    molsepnorm models
    molsepnorm models molsepnorm-small
    molsepnorm models molsepnorm-small --json
    molsepnorm models verify runs/logS
    molsepnorm train --data my.csv --targets logS --from molsepnorm-small
    """


@models.command(cls=GroupedCommand)
@click.argument("folder", type=FILE)
@json_option
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
        from dataclasses import asdict

        print_json([asdict(each) for each in checks])
    else:
        width = max(len(each.file) for each in checks)
        for each in checks:
            say(one_line(f"{each.file:<{width}}  {each.status}"))
    damaged = [each for each in checks if each.status == "damaged"]
    for each in damaged:
        say(one_line(f"Error: {each.problem}"), err=True)
    if damaged:
        sys.exit(1)


@models.command(cls=GroupedCommand)
@click.argument("name", required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """List the models that come with molsepnorm, or print the card of one.

    \b
    molsepnorm models show
    molsepnorm models show molsepnorm-small --json
    """
    from dataclasses import asdict

    from molsepnorm.errors import ConfigError, did_you_mean
    from molsepnorm.pretrained import read_card, shipped_models

    folders = shipped_models()
    if name is not None and name not in folders:
        raise ConfigError(f"no model '{name}' comes with molsepnorm. {did_you_mean(name, folders)}")
    sizes = {
        each: sum(path.stat().st_size for path in folder.iterdir())
        for each, folder in folders.items()
    }
    cards = [read_card(folders[each]) for each in ([name] if name else folders)]
    if as_json:
        content = [{**asdict(card), "bytes": sizes[card.name]} for card in cards]
        print_json(content[0] if name else content)
    elif name:
        _print_card(cards[0], sizes[name])
    else:
        _print_list(cards, sizes)


def _print_list(cards: Iterable[ModelCard], sizes: Mapping[str, int]) -> None:
    headings = ("name", ">parameters", ">size", "trained on", "objectives", "must not be scored on")
    rows = (
        (
            card.name,
            f"{card.parameters:,}",
            _megabytes(sizes[card.name]),
            ", ".join(f"{each.molecules:,} of {each.name}" for each in card.sources),
            ", ".join(card.objectives),
            ", ".join(card.excludes),
        )
        for card in cards
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
        rows = (
            (
                *(each.dataset, each.metric, each.method, f"{each.mean:.3f}"),
                *(f"{each.sd:.3f}" if each.seeds > 1 else "", str(each.seeds)),
            )
            for each in card.scores
        )
        console.print(make_table("Scores", headings, rows))
    if card.predicts:
        console.print(f"Predict with it: molsepnorm predict --model {card.name} --input my.csv")
    console.print(f"Fine-tune it: molsepnorm train --data my.csv --from {card.name}")


def _rows(card: ModelCard, size: int) -> Iterable[tuple[Any, ...]]:
    for each in card.sources:
        digest = f"sha256 {each.sha256[:12]}…"
        yield "trained on", f"{each.molecules:,} molecules of {each.name} ({digest})"
    yield "objectives", ", ".join(f"{name} ({w:g})" for name, w in card.objectives.items())
    yield "network", f"{card.architecture}; {card.parameters:,} parameters, {_megabytes(size)}"
    yield "training", f"{card.hours:g} hours on {card.machine}"
    yield "weights", f"sha256 {card.weights_sha256[:12]}…"
    yield "licence", card.licence
    for dataset, reason in card.excludes.items():
        yield "must not be scored on", f"{dataset}: {reason}"
    if card.excludes:
        note = "These data sets are recognised by name; a table with their molecules is not."
        yield "", note


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


@models.command(cls=GroupedCommand)
@click.argument("folders", metavar="MODELS...", nargs=-1, required=True, type=FILE)
@output_option("Folder of the joined model.", required=True)
@option("--force", is_flag=True, help="Replace an existing model.")
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


@models.command(cls=GroupedCommand)
@click.argument("run", type=FILE)
@output_option("Page to write. [default: report.html in the folder of the run]")
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


@models.command(cls=GroupedCommand)
@models_option
@option(
    "--encode",
    "source",
    heading="Molecules",
    type=FILE,
    help="Write the molecules of this file as inputs of the exported model: CSV, TSV, Parquet, "
    "Excel, SDF or .smi, optionally compressed. By default the model is written.",
)
@table_options
@output_option("Folder to write.", required=True)
def export(
    model_folders: tuple[Path, ...], source: Path | None, options: ReadOptions, output: Path
) -> None:
    """Write a model as ONNX, which maps tensors to predictions.

    The folder has model.onnx, model.json, which describes the inputs and outputs, and example.npz.
    The file is compared with `molsepnorm predict` before it is put in place. With
    --encode, molecules are written as inputs of an exported model, 64 to a file.

    \b
    molsepnorm models export --model runs/logS --output logS-onnx
    molsepnorm models export --model runs/logS --encode my.csv --output my-encoded
    """
    if source is None and options != type(options)():
        raise click.UsageError("--smiles-column and other options on tables belong to --encode")
    with stop_on_signal():
        if source is None:
            _export(model_folders, output)
        else:
            _encode(model_folders, source, options, output)


def _export(folders: tuple[Path, ...], output: Path) -> None:
    from molsepnorm.interop.export import check_export, export_onnx

    check_export(output)  # before the model is loaded
    model = load_predictor(folders, "cpu", 1, "fp32").model
    report = export_onnx(model, output)
    say(f"Model: {report.file}")
    say(
        f"Largest difference from molsepnorm predict on {report.molecules} molecules: "
        f"{report.difference:.1e} ({report.unit})"
    )


def _encode(folders: tuple[Path, ...], source: Path, options: ReadOptions, output: Path) -> None:
    from molsepnorm.interop.export import encode_table

    model = load_predictor(folders, "cpu", 1, "fp32").model
    found = encode_table(model, source, output, options)
    for line in found.rejected[:_SHOWN]:
        say(f"Left out: {line}", err=True)
    if others := len(found.rejected[_SHOWN:]):
        say(f"Left out: {counted(others, 'other row')}", err=True)
    say(f"{counted(found.molecules, 'molecule')} in {counted(found.files, 'file')}: {output}")
