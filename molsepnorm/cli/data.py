"""`molsepnorm data`: check a table, list the named data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.console import print_json
from molsepnorm.cli.options import (
    FILE,
    GroupedCommand,
    configuration,
    json_option,
    option,
    setting_options,
)


@click.group()
def data() -> None:
    """Check a table before training, list the named data sets.

    \b
    molsepnorm data check my.csv --fix clean.csv
    molsepnorm data list
    """


@data.command(cls=GroupedCommand)
@click.argument("file", type=FILE)
@setting_options("data", without=("data.dataset", "data.table", "data.data_dir", "data.on_invalid"))
@option(
    "--fix",
    "copy",
    heading="Output",
    type=FILE,
    metavar="OUT.csv",
    help="Write a cleaned copy, and the removed and changed rows to OUT.removed.csv.",
)
@option("--force", is_flag=True, help="Replace existing files of --fix.")
@option("--strict", is_flag=True, help="Exit with status 1 if problems are found.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    file: Path,
    copy: Path | None,
    force: bool,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Check a table before training.

    Problems prevent training, or spoil what is learned or measured: invalid SMILES, duplicates,
    conflicting labels, train/test leakage, invalid labels, and constant targets. Everything else is
    listed for information. The exit status is 0 unless --strict is given.

    FILE is never changed, and another file is replaced only with --force. The copy that --fix
    writes has no invalid SMILES and one row per molecule (several if they differ in
    --feature-columns or --time-column): different numbers become their mean, as in training with
    --duplicates mean, different classes an empty cell, and empty cells are filled from duplicates.

    \b
    molsepnorm data check my.csv
    molsepnorm data check my.csv --targets logS --fix clean.csv
    molsepnorm data check my.csv --splits-column split --strict
    """
    from molsepnorm.cli.data_display import print_clean, print_commands, print_report
    from molsepnorm.data.checking.check import check_table, scan_table
    from molsepnorm.data.checking.clean import clean_table, removed_path, write_clean
    from molsepnorm.data.tables.formats import hold
    from molsepnorm.training.recipes import encoding

    config = configuration({**options, "data": file})
    if copy is not None:
        removed_path(copy, file, force)  # raises before the work if no copy can be written there
    with hold(file):
        scan = scan_table(config.data, encoding(config))
    report = check_table(scan)
    content = report.to_json()
    if not as_json:
        print_report(report)
    if copy is not None:
        clean = clean_table(scan, encoding(config))
        files = {"copy": str(copy), "list": str(write_clean(clean, copy, file, force))}
        content["fixed"] = {**files, "removed": clean.removed, "changed": clean.changed}
        if not as_json:
            print_clean(clean, files["copy"], files["list"])
    if as_json:
        print_json(content)
    else:
        print_commands(report, _given(ctx), copy)
    if strict and report.problems:
        sys.exit(1)


def _given(ctx: click.Context) -> dict[str, str]:
    """Return the options of the data that the user gave, as they are written in a command."""
    given = {}
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        of_data = getattr(param, "heading", "Output") != "Output"
        if isinstance(param, click.Option) and of_data and value is not None:
            given[param.opts[0]] = ",".join(value) if isinstance(value, list) else str(value)
    return given


@data.command(name="list", cls=GroupedCommand)
@setting_options("data.data_dir")
@json_option
def list_(data_dir: Path | None, as_json: bool) -> None:
    """List the named data sets, and which of them are on this machine.

    \b
    molsepnorm data list
    molsepnorm data list --data-dir /data --json
    """
    from molsepnorm.cli.data_display import print_sets
    from molsepnorm.data.datasets import list_sets

    sets = list_sets(data_dir)
    if as_json:
        print_json(
            [
                {**vars(each), **each.about._asdict(), "folder": each.folder and str(each.folder)}
                for each in sets
            ]
        )
    else:
        print_sets(sets)
