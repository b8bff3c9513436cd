"""`molsepnorm report`."""

from __future__ import annotations

from pathlib import Path

import click

from molsepnorm.cli.console import one_line, say
from molsepnorm.cli.options import FILE, GroupedCommand, output_option


@click.command(cls=GroupedCommand)
@click.argument("run", type=FILE)
@output_option("Page to write. [default: report.html in the folder of the run]")
def report(run: Path, output: Path | None) -> None:
    """Write the report of a finished run, an HTML page.

    RUN is the folder of the run. Its files are read, and no model is applied. Training writes the
    same page as report.html; docs/report.md describes it.

    \b
    molsepnorm report runs/logS-1
    molsepnorm report runs/logS-1 --output logS.html
    """
    from molsepnorm.training.report import write_report

    say(one_line(f"Report: {write_report(run, output)}"))
