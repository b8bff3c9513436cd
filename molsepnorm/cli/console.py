"""Print text with its control characters escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import click

from molsepnorm.errors import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from molsepnorm.data.datasets import Dataset

# Controls of cursor, colour and writing direction, without line ends and tabs, and surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

_NUMBER = 6  # characters of a column of numbers
_WIDTH = 200  # characters of a line in a file or a pipe


def escaped(text: str) -> str:
    r"""Return the text with its control characters written as in Python.

    >>> print(escaped("\x1b[2Jcolumn"))
    \x1b[2Jcolumn
    """
    return _UNPRINTABLE.sub(lambda sign: ascii(sign[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return the text with its control characters, line ends and tabs escaped."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def fitting(message: str) -> str:
    """Shorten a message that quotes a very long value."""
    return message if len(message) <= 4000 else f"{message[:4000]} …"


def say(text: str, err: bool = False) -> None:
    """Print a text that may contain text from the user's files or command line."""
    click.echo(escaped(text), err=err)


def print_json(content: Any) -> None:
    click.echo(json.dumps(content, indent=2))


def make_table(
    title: str, headings: Iterable[str], rows: Iterable[Iterable[str]], *, plain: bool = False
) -> Table:
    """Return a table whose cells wrap, without lines if `plain`; > marks headings of numbers."""
    from rich.box import HEAVY_HEAD
    from rich.table import Table

    table = Table(title=title, box=None if plain else HEAVY_HEAD)
    for heading in headings:
        name, number = heading.removeprefix(">"), heading.startswith(">")
        justify: Literal["left", "right"] = "right" if number else "left"
        width = max([_NUMBER, *map(len, name.split())]) if number else None
        table.add_column(name, justify=justify, overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*row)
    return table


def print_dataset(console: Console, dataset: Dataset, more: str = "") -> None:
    """Print warnings about a table, and how many rows were skipped, with the first reason."""
    for warning in dataset.warnings:
        console.print(warning)
    if dataset.rejected:
        first, rows = dataset.rejected[0], counted(len(dataset.rejected), "row")
        word, number = dataset.position(first.row)
        skipped = f"Skipped: {rows} that cannot be read, such as {word} {number}"
        console.print(f"{skipped}, '{first.smiles}': {first.reason}{more}", style="yellow")


def make_console(**options: Any) -> Console:
    """Return a console of rich without markup that escapes control characters, tabs and line ends.
    It has room for wide tables if it is not a terminal."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, *args: Any, **options: Any) -> Text:
            return super().render_str(one_line(text), *args, **options)

    console = Plain(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)
    if not console.is_terminal:
        console.width = _WIDTH
    return console
