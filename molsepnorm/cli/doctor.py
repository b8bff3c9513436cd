"""`molsepnorm doctor`."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import asdict

import click

__all__ = ["doctor"]

_STATES = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check this installation and its devices.

    Prints versions, devices and folders. Then it compares the package's attention with PyTorch's
    operations, worker processes with one process, and on a GPU every fast path with the plain one.
    Exits with status 1 if a check fails.

    \b
    molsepnorm doctor
    molsepnorm doctor --json
    """
    from molsepnorm.doctor import describe, run_checks

    machine, checks = describe(), []
    if not as_json:
        for heading, lines in (
            ("Versions", _in_columns(machine.versions)),
            ("Devices", [f"{name}: {text}" for name, text in machine.devices.items()]),
            ("Folders", [f"{name}: {text}" for name, text in machine.folders.items()]),
        ):
            click.echo("\n".join([heading, *(_wrapped(line, "  ", "    ") for line in lines)]))
        click.echo("Checks")
    for check in run_checks():
        checks.append(check)
        if not as_json:
            click.echo(f"  {_STATES[check.state]:8}{check.name} ({check.seconds:.1f} s)")
            click.echo(_wrapped(check.said, " " * 10, " " * 10))
    counts = {state: sum(check.state == state for check in checks) for state in _STATES}
    if as_json:
        content = {**asdict(machine), "checks": [asdict(each) for each in checks]}
        click.echo(json.dumps({**content, "passed": not counts["failed"]}, indent=2))
    else:
        click.echo(", ".join(f"{n} {_STATES[state]}" for state, n in counts.items() if n))
    if counts["failed"]:
        sys.exit(1)


def _in_columns(versions: dict[str, str | None]) -> list[str]:
    """Return lines with two packages each."""
    cells = [f"{name:15} {found or 'not installed':20}" for name, found in versions.items()]
    return ["".join(cells[start : start + 2]).rstrip() for start in range(0, len(cells), 2)]


def _wrapped(text: str, first: str, rest: str) -> str:
    wrapper = textwrap.TextWrapper(79, first, rest, break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(text)
