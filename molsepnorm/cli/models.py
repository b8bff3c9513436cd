"""`molsepnorm models`: the models that come with the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.console import make_console, make_table, print_json
from molsepnorm.cli.options import GroupedCommand, json_option

if TYPE_CHECKING:
    from molsepnorm.pretrained import ModelCard


@click.command(cls=GroupedCommand)
@click.argument("name", required=False)
@json_option
def models(name: str | None, as_json: bool) -> None:
    """List the models that come with molsepnorm, or print the card of one.

    The name of a model can be given wherever a model folder is expected.

    \b
    molsepnorm models
    molsepnorm models molsepnorm-small
    molsepnorm models molsepnorm-small --json
    molsepnorm train --data my.csv --targets logS --from molsepnorm-small
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
    for column in table.columns[3:]:
        column.no_wrap = False
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
    table.columns[1].no_wrap = False
    for row in _rows(card, size):
        table.add_row(*row)
    console.print(table)
    if card.scores:
        headings = ("data set", "metric", "method", ">mean", ">sd", ">seeds")
        scores = make_table("Scores", *headings)
        for each in card.scores:
            numbers = (f"{each.mean:.3f}", f"{each.sd:.3f}", str(each.seeds))
            scores.add_row(each.dataset, each.metric, each.method, *numbers)
        console.print(scores)
    console.print(f"Fine-tune it: molsepnorm train --data my.csv --from {card.name}")


def _rows(card: ModelCard, size: int) -> Iterable[tuple[Any, ...]]:
    """Yield the name and the text of each entry of a card."""
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
