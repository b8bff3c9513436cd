"""`molsepnorm doctor`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict

import click

from molsepnorm.cli.console import print_json
from molsepnorm.cli.options import GroupedCommand, json_option

_STATES = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


@click.command(cls=GroupedCommand)
@json_option
def doctor(as_json: bool) -> None:
    """Check this installation and its devices.

    Prints versions, devices and folders. Then it compares the network on each device with plain
    operations in float64, and worker processes with one process.
    Exits with status 1 if a check fails.

    \b
    molsepnorm doctor
    molsepnorm doctor --json
    """
    from molsepnorm.doctor import describe, run_checks

    machine, checks = describe(), []
    if not as_json:
        for heading, lines in machine.items():
            click.echo(heading.capitalize())
            for name, text in lines.items():
                click.echo(f"  {name}: {text or 'not installed'}")
        click.echo("Checks")
    for check in run_checks():
        checks.append(check)
        if not as_json:
            click.echo(f"  {_STATES[check.state]:8}{check.name} ({check.seconds:.1f} s)")
            click.echo(f"          {check.said}")
    counts = Counter[str](check.state for check in checks)
    if as_json:
        content = {**machine, "checks": [asdict(each) for each in checks]}
        print_json({**content, "passed": not counts["failed"]})
    else:
        click.echo(
            ", ".join(f"{counts[state]} {_STATES[state]}" for state in _STATES if counts[state])
        )
    if counts["failed"]:
        sys.exit(1)
