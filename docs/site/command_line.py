"""The page of all commands and options, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html import escape

import click

from molsepnorm.cli import main

__all__ = ["commands_page"]

_HEAD = """\
# Commands

Every command and its options, as `molsepnorm COMMAND --help` prints them. Options that belong to a
setting can also be given in a YAML file; see [Settings](../settings.md).

"""


def commands_page() -> str:
    """Return the page as Markdown."""
    context = click.Context(main, info_name="molsepnorm", **main.context_settings)
    return _HEAD + "\n".join(_group(main, context, level=2))


def _group(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    """Yield a table of the commands of a group, and a section for each."""
    rows = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    yield "| command | |\n|---|---|"
    for name, command in rows:
        path = f"{context.command_path} {name}"
        yield f"| [`{path}`](#{_anchor(path)}) | {_text(command.get_short_help_str(200))} |"
    yield ""
    for name, command in rows:
        inner = click.Context(
            command, info_name=name, parent=context, **(command.context_settings or {})
        )
        yield f"{'#' * level} {inner.command_path} {{#{_anchor(inner.command_path)}}}\n"
        yield _help(command)
        if isinstance(command, click.Group):
            yield from _group(command, inner, level + 1)
        else:
            yield from _options(command, inner)


def _anchor(path: str) -> str:
    return path.removeprefix("molsepnorm ").replace(" ", "-")


def _help(command: click.Command) -> str:
    """Return the help of a command; lines that click does not wrap are examples."""
    parts = []
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        if part.startswith("\b"):
            parts.append(f"```sh\n{part.removeprefix(chr(8)).strip()}\n```")
        else:
            parts.append(_text(" ".join(part.split())))
    return "\n\n".join(parts) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a table of options for each heading of the command's help."""
    arguments = [each for each in command.get_params(context) if isinstance(each, click.Argument)]
    usage = " ".join(
        [context.command_path, "[OPTIONS]", *(a.make_metavar(context) for a in arguments)]
    )
    yield f"```sh\n{usage}\n```\n"
    groups: dict[str, list[tuple[str, str]]] = {}
    heading = "Options"
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if isinstance(option, click.Option) and record and "--help" not in option.opts:
            heading = getattr(option, "heading", heading)
            groups.setdefault(heading, []).append(record)
    yield '<div class="options" markdown>\n'
    for name, records in groups.items():
        yield f"| {name} | |\n|---|---|"
        for option, text in records:
            yield f"| `{option}` | {_text(text)} |"
        yield ""
    yield "</div>\n"


def _text(text: str) -> str:
    """Return text of the help as Markdown: options and names as code, signs without a meaning."""
    pieces = re.split(r"(`[^`]*`)", text)  # every second piece is code
    pieces[::2] = [re.sub(r"([\[\]|*_\\])", r"\\\1", escape(each, False)) for each in pieces[::2]]
    pieces[::2] = [re.sub(r"(?<![\w`-])(--[\w-]*\w)", r"`\1`", piece) for piece in pieces[::2]]
    return "".join(pieces)
