"""Print text to a terminal with its control characters escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["cell", "escaped", "fitting", "make_console", "one_line", "say"]

# Characters that move the cursor or change colours or the writing direction, and surrogates, which
# cannot be sent to a terminal. Line ends and tabs stay.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""The text with its control characters as Python writes them.

    >>> print(escaped("\x1b[2Jcolumn"))
    \x1b[2Jcolumn
    """
    return _UNPRINTABLE.sub(lambda sign: ascii(sign[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""The text with its control characters, line ends and tabs escaped.

    >>> print(one_line("a\ncolumn"))
    a\ncolumn
    """
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def fitting(message: str) -> str:
    """An error's message, cut where it quotes a very long value."""
    most = 4000
    return message if len(message) <= most else f"{message[:most]} …"


def say(text: str, err: bool = False) -> None:
    """Print a text that may hold a user's own text."""
    click.echo(escaped(text), err=err)


def cell(text: str) -> Text:
    """A text of a user's as a cell of a table, which is no markup."""
    from rich.text import Text

    return Text(one_line(text))


def make_console() -> Console:
    """A console that prints text as it is, each on a line of its own: units in brackets are no
    markup, and nothing moves the cursor but what rich sends itself."""
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

    return Plain(highlight=False, soft_wrap=True, markup=False, emoji=False)
