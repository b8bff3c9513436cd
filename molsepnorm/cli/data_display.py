"""Output of `molsepnorm data`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from molsepnorm.cli.console import make_console, make_table
from molsepnorm.data.checking.check import Group, TableReport
from molsepnorm.data.checking.clean import CleanTable
from molsepnorm.data.datasets import ListedSet
from molsepnorm.data.datasets.dataset import TargetSummary
from molsepnorm.errors import counted
from molsepnorm.files.tables import name_of_copy
from molsepnorm.molecules.featurize.standardize import LEVELS
from molsepnorm.tasks.metrics import four_digits

_MAX_TARGETS = 30  # maximum number of targets that are listed
_MAX_ROWS = 3  # maximum number of rows listed for each group
_MAX_GROUPS = 5  # maximum number of groups listed for each finding
_MAX_SMILES = 50  # characters
_WIDE = 120  # terminal columns from which the descriptions of data sets are shown
_KINDS = {"regression": "number", "binary": "yes/no", "multiclass": "classes"}
_FIXED = ("unreadable", "invalid-labels", "conflicts", "duplicates")
_STOPS = ("targets", "weights", "features", "split", "constant")


def print_report(report: TableReport) -> None:
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
        if len(report.targets) > _MAX_TARGETS:
            console.print(
                f"{len(report.targets) - _MAX_TARGETS:,} more targets are in the output of --json"
            )
    for heading, findings in (
        ("Problems", report.problems),
        ("For information", report.information),
    ):
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


def print_commands(report: TableReport, given: Mapping[str, str], copy: Path | None) -> None:
    """Print the commands that clean the table and train with the recommended options.

    Args:
        given: the options of the data that the user gave, such as {"--targets": "y"}.
        copy: the cleaned copy, if it was written.
    """
    console = make_console()
    source, options, recommended = report.source, dict(given), dict(given)
    for finding in report.information:
        for option, value in finding.options.items():
            if option == "--standardize":
                value = max(value, recommended.get(option, value), key=LEVELS.index)
            elif option in given:
                value = f"{given[option]},{value}"
            recommended[option] = value
    kinds = {each.kind for each in report.problems}
    fixable = not kinds.isdisjoint(_FIXED)
    fixable |= "leak" in kinds and "--splits-column" in options  # of equal feature columns
    pairs = recommended.get("--transform", "").split(",")
    if any(pairs):  # the distance of conflicting numbers depends on the scale
        options["--transform"] = ",".join(pairs)
    fixable &= "targets" not in kinds  # unread labels would not be merged, but the first one kept
    # names with commas need --set, which this command does not have
    if fixable and copy is None and options.keys().isdisjoint(("--splits-file", "--set")):
        copy = Path(name_of_copy(source))
        words = ["molsepnorm", "data", "check", source, *_words(options), "--fix", str(copy)]
        console.print(f"Clean it: {shlex.join(words)}")
    if recommended != {**given} and not any(each.kind in _STOPS for each in report.problems):
        words = ["molsepnorm", "train", "--data", str(copy or source), *_words(recommended)]
        console.print(f"Train with the recommended options: {shlex.join(words)}")


def _words(options: Mapping[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


def print_clean(clean: CleanTable, copy: str, removed: str) -> None:
    console = make_console()
    console.print(
        f"{copy}: {counted(len(clean.table), 'row')}; {clean.removed:,} removed, "
        f"{clean.changed:,} changed"
    )
    for what, text in (
        ("marked", "with a marked number, such as 45*, replaced by the number"),
        ("invalid", "with an invalid label emptied"),
        ("filled", "filled from another row of the molecule"),
        ("means", "with different numbers replaced by their mean"),
        ("conflicts", "emptied, because classes, or lower and upper bounds, conflict"),
    ):
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


def print_sets(sets: Iterable[ListedSet]) -> None:
    console = make_console()
    headings = ["name", ">molecules", ">tasks", "kind", "metric", "raw files"]
    if console.width >= _WIDE:
        headings.append("what")
    table = make_table("Data sets", *headings)
    table.box = None
    if console.width >= _WIDE:
        table.columns[-1].no_wrap = False
    for each in sets:
        about = each.about
        cells = (
            each.name,
            "" if about.molecules is None else f"{about.molecules:,}",
            f"{about.tasks:,}",
            _KINDS[about.kind],
            about.metric,
            "" if each.raw == "missing" else each.raw,
            about.about,
        )
        table.add_row(*cells[: len(table.columns)])
    console.print(table)
    console.print("Missing raw files are downloaded when a set is first used.")


def _targets(targets: Sequence[TargetSummary]) -> Table:
    bounded = any(target.bounds for target in targets)
    measured = any(target.mean is not None for target in targets)
    headings = ["target", "kind", ">labels", *[">bounds"] * bounded, ">missing", "distribution"]
    table = make_table("Targets", *headings, *((">min", ">max") if measured else ()))
    table.columns[len(headings) - 1].no_wrap = False
    for target in targets[:_MAX_TARGETS]:
        ends = ("" if each is None else four_digits(each) for each in (target.min, target.max))
        counts = [f"{target.labels:,}", f"{target.missing:,}"]
        if bounded:
            counts.insert(1, f"{target.bounds:,}")
        table.add_row(
            target.name, target.kind, *counts, target.distribution, *(ends if measured else ())
        )
    return table


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
