"""`molsepnorm data`: look through a table, list the named sets, make a store ahead of training."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli.options import (
    PLACE,
    configuration,
    data_dir_option,
    options,
    recipe_options,
    source_options,
    table_options,
)

__all__ = ["data"]


@click.group()
def data() -> None:
    """Check a table, list the named data sets, make ready what training reads.

    \b
    molsepnorm data check my.csv --fix clean.csv
    molsepnorm data list
    molsepnorm data prepare zinc
    """


@data.command()
@click.argument("file", type=PLACE)
@options(table_options)
@click.option(
    "--fix",
    "output",
    type=PLACE,
    metavar="OUT.csv",
    help="Write a cleaned copy, and what was removed or changed to OUT.removed.csv.",
)
@click.option("--strict", is_flag=True, help="Leave with code 1 where there is a problem.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path, output: Path | None, strict: bool, as_json: bool, **given: Any) -> None:
    """Look through a table before training.

    A problem stops training, or spoils what is learned or measured: rows that are no molecule,
    repeated molecules, labels that contradict each other, molecules on both sides of a split,
    cells that are no label, targets with nothing to learn. All else is for information. The code
    is 0 whatever is found, unless --strict is given.

    FILE is never changed. The copy that --fix writes has no unreadable rows and one row for each
    molecule, its blanks filled from the others. Numbers that contradict each other become their
    median if they lie within half a standard deviation of their column, otherwise a blank, as do
    contradicting classes.

    \b
    molsepnorm data check my.csv
    molsepnorm data check my.csv --targets logS --fix clean.csv
    molsepnorm data check my.csv --splits-column split --strict
    """
    from molsepnorm.cli.data_display import print_clean, print_report
    from molsepnorm.data.checking.check import report_of
    from molsepnorm.data.checking.clean import clean_scan, removed_path, write_clean
    from molsepnorm.data.checking.scan import scan_table

    config = configuration({**given, "data": file}).data
    if output is not None:
        removed_path(output, file)  # before the work, if it is no place for a copy
    scan = scan_table(config)
    report = report_of(scan)
    clean, removed = None, None
    if output is not None:
        clean = clean_scan(scan)
        removed = write_clean(clean, output, file)
    if as_json:
        content = report.to_json()
        if clean is not None:
            content["fixed"] = {
                "copy": str(output),
                "list": str(removed),
                "removed": clean.removed,
                "changed": clean.changed,
            }
        click.echo(json.dumps(content, indent=2, allow_nan=False))
    else:
        print_report(report, fixing=clean is not None)
        if clean is not None:
            print_clean(clean, str(output), str(removed))
    if strict and report.problems:
        sys.exit(1)


@data.command(name="list")
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(data_dir: Path | None, as_json: bool) -> None:
    """The data sets known by name, and what of them is on this machine.

    \b
    molsepnorm data list
    molsepnorm data list --data-dir /data --json
    """
    from molsepnorm.cli.data_display import print_sets
    from molsepnorm.data.datasets.catalog import list_sets

    sets = list_sets(data_dir)
    if as_json:
        content = [{**vars(each), "folder": each.folder and str(each.folder)} for each in sets]
        click.echo(json.dumps(content, indent=2))
    else:
        print_sets(sets)


@data.command()
@click.argument("source", required=False, metavar="[NAME|FILE]")
@options(source_options, table_options, recipe_options)
def prepare(source: str | None, **given: Any) -> None:
    """Make the store that `molsepnorm train` with the same options reads, or say that it is there.

    \b
    molsepnorm data prepare zinc
    molsepnorm data prepare ogbg-molhiv --data-dir /data
    molsepnorm data prepare my.csv --targets logS --preset base
    """
    from molsepnorm.cli.data_display import print_store
    from molsepnorm.data import datasets
    from molsepnorm.files.writing import cache_folder
    from molsepnorm.model import encoding_of
    from molsepnorm.training.run import architecture

    if source is not None:
        if given["dataset"] or given["data"]:
            raise click.UsageError(f"{source} is a source, and so is --dataset or --data: give one")
        given["dataset"] = source
    config = configuration(given)
    before = {path: path.stat().st_mtime_ns for path in cache_folder().glob("*.store")}
    start = time.perf_counter()
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    seconds = time.perf_counter() - start
    path = dataset.store.path
    assert path is not None
    print_store(dataset, seconds, made=before.get(path) != path.stat().st_mtime_ns)
