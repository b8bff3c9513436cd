"""The command `molsepnorm`, which imports the module of a subcommand when it is used."""

from __future__ import annotations

import csv
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from molsepnorm._version import __version__
from molsepnorm.cli.console import escaped, fitting, one_line, say
from molsepnorm.cli.options import HELP_OPTIONS
from molsepnorm.cli.signals import give_way, rank
from molsepnorm.errors import DataWarning, MolsepnormError

_SECTIONS = {
    "Learn": {
        "train": "Train a model on a data set or a table.",
        "pretrain": "Train a model on structures without labels.",
        "benchmark": "Train with several seeds, splits or settings, and compare them.",
        "tune": "Search for better settings, and train with them.",
        "evaluate": "Score a trained model on a split.",
    },
    "Predict": {
        "predict": "Predict the properties of molecules.",
        "screen": "Predict libraries of any size, and keep the best rows.",
        "suggest": "Choose the molecules to make or measure next.",
        "explain": "Show which atoms and fragments contribute to a prediction.",
        "embed": "Write embeddings of molecules to a table.",
        "serve": "Serve predictions as a page in the browser and over HTTP.",
    },
    "Data and models": {
        "data": "Check a table, and list the named data sets.",
        "models": "List, verify, join and export models.",
        "analyze": "Compare the embeddings of trained models.",
        "doctor": "Check this installation and its devices.",
    },
}

_COMMANDS = [name for section in _SECTIONS.values() for name in section]

_HOMES = dict.fromkeys(("pretrain", "benchmark", "tune"), "train") | {"analyze": "evaluate"}
_HOMES |= dict.fromkeys(("embed", "explain", "screen", "suggest"), "predict")
"""Modules of the commands that have no module of their name."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return getattr(import_module(f"molsepnorm.cli.{_HOMES.get(name, name)}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([*commands.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _escaped_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Print the library's errors without a traceback, and exit with their status."""
        try:
            with _printed_warnings(), _escaped_errors():
                return super().invoke(ctx)
        except MolsepnormError as error:
            _exit(*error.lines, code=error.exit_code)
        except click.ClickException as error:
            give_way(error.exit_code)
            raise
        except BrokenPipeError:
            raise  # the reader of our output has closed it; click exits quietly
        except OSError as error:
            _exit(error.strerror or str(error))
        except UnicodeError as error:
            _exit(f"text cannot be written in the output's encoding: {error}")
        except csv.Error as error:
            _exit(f"a table cannot be read: {error}")
        except MemoryError:
            _exit("out of memory: choose a smaller network, batch or table")


@contextmanager
def _escaped_errors() -> Iterator[None]:
    """Escape control characters that an error of click quotes."""
    try:
        yield
    except click.ClickException as error:
        error.message = escaped(fitting(error.message))  # type: ignore[misc]
        raise


@contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print each warning about data once, on standard error; other warnings as Python does."""
    printed: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_warning(message: Any, category: type[Warning], *more: Any, **named: Any) -> None:
            if not issubclass(category, DataWarning):
                show(message, category, *more, **named)
            elif str(message) not in printed:
                printed.add(str(message))
                say(f"Warning: {fitting(one_line(str(message)))}", err=True)

        warnings.showwarning = print_warning
        warnings.simplefilter("always", DataWarning)
        yield


def _exit(*lines: str, code: int = 1) -> NoReturn:
    give_way(code)
    message = fitting("\n".join(map(one_line, lines)))
    say(f"Error: {f'process {rank()}: ' if rank() else ''}{message}", err=True)
    sys.exit(code)


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": HELP_OPTIONS, "show_default": True}
)
@click.version_option(__version__, prog_name="molsepnorm")
def main() -> None:
    """Molecular property prediction with Graphormer and SepNorm.

    \b
    molsepnorm train --data my.csv --targets logS --output runs/logS
    molsepnorm predict --model runs/logS --smiles CCO
    """
    # read when torch is imported: threads that wait sleep, so that two runs can share the cores
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
