"""Models as files: those that come with the package, their integrity, ensembles and reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.console import make_console, make_table, one_line, print_json, say
from molsepnorm.cli.export import export
from molsepnorm.cli.options import FILE, GroupedCommand, json_option, option, output_option
from molsepnorm.cli.sources import refuse_repeated
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.pretrained import ModelCard


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
    table = make_table("Models", *headings)
    table.box = None
    for card in cards:
        table.add_row(
            card.name,
            f"{card.parameters:,}",
            _megabytes(sizes[card.name]),
            ", ".join(f"{each.molecules:,} of {each.name}" for each in card.sources),
            ", ".join(card.objectives),
            ", ".join(card.excludes),
        )
    console = make_console()
    console.print(table)
    console.print("Print the card of a model: molsepnorm models NAME")


def _print_card(card: ModelCard, size: int) -> None:
    console = make_console()
    console.print(f"{card.name} {card.version}: {card.description}", style="bold")
    table = make_table("", "", "")
    table.box, table.show_header = None, False
    for row in _rows(card, size):
        table.add_row(*row)
    console.print(table)
    if card.scores:
        headings = ("data set", "metric", "method", ">mean", ">sd", ">seeds")
        scores = make_table("Scores", *headings)
        for each in card.scores:
            spread = f"{each.sd:.3f}" if each.seeds > 1 else ""
            numbers = (f"{each.mean:.3f}", spread, str(each.seeds))
            scores.add_row(each.dataset, each.metric, each.method, *numbers)
        console.print(scores)
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


models.add_command(export)
