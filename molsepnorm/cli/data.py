"""`molsepnorm data`: check a table, and list the named data sets."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import make_console, make_table, print_json
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from molsepnorm.data.checking.check import Group, TableReport
    from molsepnorm.data.checking.clean import CleanTable
    from molsepnorm.data.datasets import ListedSet
    from molsepnorm.tasks.summary import TargetSummary

_MAX_TARGETS = 30  # that are listed
_MAX_ROWS = 3  # of a group
_MAX_GROUPS = 5  # of a finding
_MAX_SMILES = 50  # characters
_WIDE = 120  # columns of a terminal that shows the descriptions of data sets
_KINDS = {"regression": "number", "binary": "yes/no", "multiclass": "classes"}
_NOT_CHECKED = ("data.dataset", "data.table", "data.data_dir", "data.on_invalid", "data.auxiliary")
_FIXED = ("unreadable", "invalid-labels", "conflicts", "duplicates")
_STOPS = ("targets", "weights", "features", "split", "constant")


@click.group()
def data() -> None:
    """Check a table before training, list the named data sets.

    \b
    molsepnorm data check my.csv --fix clean.csv
    molsepnorm data list
    """


@data.command(cls=cli.GroupedCommand)
@click.argument("file", type=cli.FILE)
@cli.setting_options("data", without=_NOT_CHECKED)
@cli.option(
    "--fix",
    "copy",
    heading="Output",
    type=cli.FILE,
    metavar="OUT.csv",
    help="Write a cleaned copy, and the removed and changed rows to OUT.removed.csv.",
)
@cli.option("--force", is_flag=True, help="Replace existing files of --fix.")
@cli.option("--strict", is_flag=True, help="Exit with status 1 if problems are found.")
@cli.json_option
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
    from molsepnorm.data.checking.check import check_table, scan_table
    from molsepnorm.data.checking.clean import clean_table, removed_path, write_clean
    from molsepnorm.training.recipes import encoding

    config = cli.configuration({**options, "data": file})
    if copy is not None:
        removed = removed_path(copy, file, force)  # raises an error before the work
    scan = scan_table(config.data, encoding(config))
    report = check_table(scan)
    content = asdict(report)
    if not as_json:
        _print_report(report)
    if copy is not None:
        clean = clean_table(scan)
        write_clean(clean, copy, removed)
        files = {"copy": str(copy), "list": str(removed)}
        content["fixed"] = {**files, "removed": clean.removed, "changed": clean.changed}
        if not as_json:
            _print_clean(clean, files["copy"], files["list"])
    if as_json:
        print_json(content)
    else:
        _print_commands(report, _given(ctx), copy)
    if strict and report.problems:
        sys.exit(1)


def _given(ctx: click.Context) -> dict[str, str]:
    """Return the options of the data that the user gave, as in a command; a flag's value is ""."""
    from molsepnorm.tasks.inputs import names_text

    given = {}
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if getattr(param, "heading", None) not in (None, "Output") and value is not None:
            text = names_text(value) if isinstance(value, list) else str(value)
            given[param.opts[0]] = "" if isinstance(value, bool) else text
    return given


@data.command(name="list", cls=cli.GroupedCommand)
@cli.setting_options("data.data_dir")
@cli.json_option
def list_(data_dir: Path | None, as_json: bool) -> None:
    """List the named data sets, and which of them are on this machine.

    \b
    molsepnorm data list
    molsepnorm data list --data-dir /data --json
    """
    from molsepnorm.data.datasets import list_sets

    sets = list_sets(data_dir)
    if not as_json:
        _print_sets(sets)
        return
    content = []
    for each in sets:
        folder = None if each.folder is None else str(each.folder)
        content.append({**vars(each), **each.about._asdict(), "folder": folder})
    print_json(content)


def _print_report(report: TableReport) -> None:
    console = make_console()
    console.print(
        f"{report.source}: {counted(report.rows, 'row')}, {report.readable:,} valid SMILES, "
        f"{counted(report.molecules, 'different molecule')}"
    )
    for warning in report.warnings:
        console.print(warning)
    if report.splits:
        parts = ", ".join(f"{name} {count:,}" for name, count in report.splits.items())
        console.print(f"Split: {parts}")
    if report.targets:
        console.print(_targets(report.targets))
        if (more := len(report.targets) - _MAX_TARGETS) > 0:
            console.print(f"{more:,} more targets are in the output of --json")
    sections = {"Problems": report.problems, "For information": report.information}
    for heading, findings in sections.items():
        if findings:
            console.print(heading, style="bold")
        for finding in findings:
            console.print(f"- {finding.text}", style="yellow" if finding.problem else None)
            for group in finding.groups[:_MAX_GROUPS]:
                console.print(f"    {_line(group)}")
            if len(finding.groups) > _MAX_GROUPS:
                console.print("    …")
    if not report.problems:
        console.print("No problem found.", style="green")


def _print_commands(report: TableReport, given: Mapping[str, str], copy: Path | None) -> None:
    """Print the commands that clean the table and train with the recommended options.

    Args:
        given: the options of the user, such as {"--targets": "y"}.
        copy: the cleaned copy, if it was written.
    """
    from molsepnorm.files.tables import name_of_copy
    from molsepnorm.molecules.featurize.standardize import LEVELS

    console = make_console()
    source, options, recommended = report.source, dict(given), dict(given)
    for finding in report.information:
        for name, value in finding.options.items():
            if name == "--standardize":
                value = max(value, recommended.get(name, value), key=LEVELS.index)
            elif name in given:
                value = f"{given[name]},{value}"
            recommended[name] = value
    kinds = {each.kind for each in report.problems}
    fixable = not kinds.isdisjoint(_FIXED)
    fixable |= "leak" in kinds and "--splits-column" in options  # of equal feature columns
    if transform := recommended.get("--transform"):  # it decides which numbers conflict
        options["--transform"] = transform
    fixable &= "targets" not in kinds  # unread labels would not be merged, but the first one kept
    if fixable and copy is None and "--splits-file" not in options:
        copy = Path(name_of_copy(source))
        words = ["molsepnorm", "data", "check", source, *_words(options), "--fix", str(copy)]
        console.print(f"Clean it: {shlex.join(words)}")
    if recommended != {**given} and not any(each.kind in _STOPS for each in report.problems):
        words = ["molsepnorm", "train", "--data", str(copy or source), *_words(recommended)]
        console.print(f"Train with the recommended options: {shlex.join(words)}")


def _words(options: Mapping[str, str]) -> list[str]:
    return [word for option in options.items() for word in option if word]


_CHANGES = {
    "marked": "with a marked number, such as 45*, replaced by the number",
    "invalid": "with an invalid label emptied",
    "filled": "filled from another row of the molecule",
    "means": "with different numbers replaced by their mean",
    "conflicts": "emptied, because classes, or lower and upper bounds, conflict",
}


def _print_clean(clean: CleanTable, copy: str, removed: str) -> None:
    console = make_console()
    console.print(
        f"{copy}: {counted(len(clean.table), 'row')}; {clean.removed:,} removed, "
        f"{clean.changed:,} changed"
    )
    for what, text in _CHANGES.items():
        if count := clean.merged.get(what, 0):
            console.print(f"- {counted(count, 'cell')} {text}")
    for name, count in clean.differing.items():
        if count:
            console.print(
                f"- {name}: the rows of {counted(count, 'molecule')} differ, and the first is kept",
                style="yellow",
            )
    if clean.changes:
        console.print(f"{removed}: these rows as they were, with the reason")


def _print_sets(sets: Iterable[ListedSet]) -> None:
    console = make_console()
    headings = ["name", ">molecules", ">tasks", "kind", "metric", "raw files"]
    if console.width >= _WIDE:
        headings.append("what")
    rows = []
    for each in sets:
        about, raw = each.about, "" if each.raw == "missing" else each.raw
        molecules = "" if about.molecules is None else f"{about.molecules:,}"
        kind = _KINDS[about.kind]
        cells = (each.name, molecules, f"{about.tasks:,}", kind, about.metric, raw, about.about)
        rows.append(cells[: len(headings)])
    console.print(make_table("Data sets", headings, rows, plain=True))
    console.print("Missing raw files are downloaded when a set is first used.")


def _targets(targets: Sequence[TargetSummary]) -> Table:
    from molsepnorm.tasks.metrics import four_digits

    bounded = any(target.bounds for target in targets)
    measured = any(target.mean is not None for target in targets)
    headings = ["target", "kind", ">labels", *[">bounds"] * bounded, ">missing", "distribution"]
    rows = []
    for target in targets[:_MAX_TARGETS]:
        ends = ("" if each is None else four_digits(each) for each in (target.min, target.max))
        counts = target.labels, *[target.bounds] * bounded, target.missing
        texts = (target.name, target.kind, *(f"{n:,}" for n in counts), target.distribution)
        rows.append([*texts, *(ends if measured else ())])
    return make_table("Targets", [*headings, *[">min", ">max"] * measured], rows)


def _line(group: Group) -> str:
    """Return what a group of rows has in common, their number, and the first of them."""
    rows = []
    for row in group.places[:_MAX_ROWS]:
        smiles = row.smiles.strip()
        if len(smiles) > _MAX_SMILES:
            smiles = smiles[: _MAX_SMILES - 1] + "…"
        rows.append(f"{row.where} {smiles}".strip())
    if len(group.places) > _MAX_ROWS:
        rows.append("…")
    number = f"{group.count:,}" if group.count > 1 else ""
    return ": ".join(filter(None, (group.what[: 2 * _MAX_SMILES], number, ", ".join(rows))))
