"""Print text with its control characters escaped."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.errors import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from molsepnorm.data.datasets import Dataset

# Characters that move the cursor or change colours or the writing direction, and surrogates, which
# cannot be encoded. Line ends and tabs are kept.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Return the text with its control characters written as in Python.

    >>> print(escaped("\x1b[2Jcolumn"))
    \x1b[2Jcolumn
    """
    return _UNPRINTABLE.sub(lambda sign: ascii(sign[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return the text with its control characters, line ends and tabs escaped.

    >>> print(one_line("a\ncolumn"))
    a\ncolumn
    """
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def fitting(message: str) -> str:
    """Return an error's message, shortened if it quotes a very long value."""
    return message if len(message) <= 4000 else f"{message[:4000]} …"


def say(text: str, err: bool = False) -> None:
    """Print a text that may contain text from the user's files or command line."""
    click.echo(escaped(text), err=err)


def print_json(content: Any) -> None:
    """Print JSON for people and programs to read."""
    click.echo(json.dumps(content, indent=2))


def make_table(title: str, *headings: str) -> Table:
    """Return an empty table; a column whose heading begins with > is aligned right.

    No cell is cut: a table that is wider than the terminal is printed without lines, or, if that is
    still too wide, as a few lines of text for each row. A column whose `no_wrap` is set to False
    wraps at spaces instead.
    """
    from rich.table import Table

    class Fitting(Table):
        def __rich_console__(self, console: Console, options: Any) -> Any:
            box = self.box
            if _width(self) > options.max_width:
                self.box = None
            if _width(self) > options.max_width:
                yield from _stacked(self, options.max_width)
            else:
                _share_width(self, options.max_width)
                yield from super().__rich_console__(console, options)
            self.box = box

    table = Fitting(title=title)
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(
            name, justify="left" if name == heading else "right", no_wrap=True, overflow="fold"
        )
    return table


def _width(table: Table) -> int:
    """Return the smallest width at which no cell is cut."""
    lines = len(table.columns) + 1 if table.box else 0
    return lines + sum(_widths(table, column)[0] + 2 for column in table.columns)


def _widths(table: Table, column: Column) -> tuple[int, int]:
    """Return the smallest width at which no cell of a column is cut, and that of a single line."""
    from rich.cells import cell_len

    cells = [str(cell) for cell in column.cells] + [str(column.header)] * table.show_header
    words = cells if column.no_wrap else [word for cell in cells for word in cell.split()]
    shortest, full = (max(map(cell_len, each), default=0) for each in (words, cells))
    return shortest, full


def _share_width(table: Table, width: int) -> None:
    """Divide the width that is left over among the columns that wrap: rich would cut their words,
    and numbers in other columns."""
    spare = width - _width(table)
    needed = [full - shortest for shortest, full in (_widths(table, c) for c in table.columns)]
    for column, need in zip(table.columns, needed, strict=True):
        if need:
            column.width = _widths(table, column)[0] + min(need, spare * need // sum(needed))


def _stacked(table: Table, width: int) -> Iterator[Text]:
    """Yield each row as lines: its first cell, and below it the other cells with their headings."""
    from rich.text import Text

    if table.title:
        yield Text(one_line(str(table.title)), style="italic")
    headings = [str(column.header) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        if first:
            yield Text(one_line(str(first)))
        named = zip(headings[1:], others, strict=True)
        cells = ", ".join(one_line(f"{name} {cell}".strip()) for name, cell in named if cell)
        for line in textwrap.wrap(
            cells, max(20, width - 4), break_long_words=False, break_on_hyphens=False
        ):
            yield Text(f"    {line}")


def print_dataset(console: Console, dataset: Dataset, more: str = "") -> None:
    """Print warnings about a table, and how many rows were skipped, with the first reason."""
    for warning in dataset.warnings:
        console.print(warning)
    if dataset.rejected:
        first = dataset.rejected[0]
        word, number = dataset.position(first.row)
        console.print(
            f"Skipped: {counted(len(dataset.rejected), 'row')} that cannot be read, such as "
            f"{word} {number}, '{first.smiles}': {first.reason}{more}",
            style="yellow",
        )


def make_console(**options: Any) -> Console:
    """Return a console without markup that escapes control characters, tabs and line ends.

    Args:
        options: further options of `rich.console.Console`.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def render_str(self, text: str, *args: Any, **options: Any) -> Text:
            return super().render_str(one_line(text), *args, **options)

        def render(self, *args: Any, **options: Any) -> Any:
            for segment in super().render(*args, **options):
                if segment.control or not _UNPRINTABLE.search(segment.text):
                    yield segment
                else:
                    yield Segment(escaped(segment.text), segment.style)

    return Plain(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)
