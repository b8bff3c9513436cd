"""The console that every command prints to."""

from __future__ import annotations

from rich.console import Console

__all__ = ["make_console"]


def make_console() -> Console:
    """A console that prints text as it is: units in brackets are no markup."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
