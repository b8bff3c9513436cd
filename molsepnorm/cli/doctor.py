"""`molsepnorm doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import print_json


@cli.command()
@cli.json_option
def doctor(as_json: bool) -> None:
    """Check this installation and its devices.

    Prints versions, devices and folders, and compares the network on each device with plain
    operations in float64. Exits with status 1 if a check fails.

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
            click.echo(f"  {check.name}: {check.state} ({check.seconds:.1f} s). {check.said}")
    passed = all(check.state == "ok" for check in checks)
    if as_json:
        print_json({**machine, "checks": [asdict(check) for check in checks], "passed": passed})
    if not passed:
        sys.exit(1)
