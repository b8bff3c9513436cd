"""Output of `molsepnorm data`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from molsepnorm.cli.console import make_console, make_table, print_dataset
from molsepnorm.data.checking.clean import CleanTable
from molsepnorm.data.checking.report import Group, TableReport, TargetSummary
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.catalog import NamedSet

_MAX_TARGETS = 30  # maximum number of targets that are listed
_MAX_ROWS = 3  # maximum number of rows listed for each group
_MAX_GROUPS = 5  # maximum number of groups listed for each finding
_MAX_SMILES = 50  # characters
_WIDE = 120  # terminal columns from which the descriptions of data sets are shown
_KINDS = {"regression": "number", "binary": "yes/no", "multiclass": "classes"}
_FIXED = ("unreadable", "invalid-labels", "conflicts", "duplicates")


def print_report(report: TableReport, fixing: bool = False) -> None:
    """Print the findings in a table; with `fixing`, without the hint at --fix."""
    console = make_console()
    console.print(
        f"{report.source}: {report.rows:,} rows, {report.readable:,} valid SMILES, "
        f"{report.molecules:,} different molecules"
    )
    for warning in report.warnings:
        console.print(warning)
    if report.splits:
        parts = ", ".join(f"{name} {count:,}" for name, count in report.splits.items())
        console.print(f"Split: {parts}")
    if report.targets:
        console.print(_targets(report.targets))
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
    elif not fixing and any(finding.kind in _FIXED for finding in report.problems):
        console.print(f"Clean it: molsepnorm data check {report.source} --fix clean.csv")


def print_clean(clean: CleanTable, copy: str, removed: str) -> None:
    """Print how many rows were removed and changed in a cleaned copy."""
    console = make_console()
    console.print(
        f"{copy}: {len(clean.table):,} rows; {clean.removed:,} removed, {clean.changed:,} changed"
    )
    if clean.changed:
        console.print(
            "Conflicting numbers were replaced by their median, or by an empty cell if they differ "
            "by more than half a standard deviation of their column; conflicting classes were "
            "replaced by an empty cell."
        )
    console.print(f"{removed}: these rows as they were, with the reason")


def print_sets(sets: Iterable[NamedSet]) -> None:
    """Print the named data sets."""
    console = make_console()
    headings = ["name", ">molecules", ">tasks", "kind", "metric", "raw files", "store"]
    if console.width >= _WIDE:
        headings.append("what")
    table = make_table("Data sets", *headings)
    table.box = None
    for column in table.columns[:7]:
        column.no_wrap = True
    for each in sets:
        cells = (
            each.name,
            "" if each.molecules is None else f"{each.molecules:,}",
            f"{each.tasks:,}",
            _KINDS[each.kind],
            each.metric,
            "" if each.raw == "missing" else each.raw,
            {0: "", 1: "ready"}.get(each.stores, f"{each.stores} ready"),
            each.about,
        )
        table.add_row(*cells[: len(table.columns)])
    console.print(table)
    console.print(
        "Missing raw files are downloaded when a set is first used, except those of zinc-rich."
    )


def print_store(dataset: Dataset, seconds: float, made: bool) -> None:
    """Print what a store holds, and whether it was made now or found in the cache."""
    console, store = make_console(), dataset.store
    console.print(f"Data: {dataset.name}")
    print_dataset(console, dataset)
    console.print(
        f"{len(store):,} molecules, {int(store.sizes.sum()):,} atoms, {len(store.paths):,} path "
        f"codes, {len(dataset.targets):,} target(s)"
    )
    assert store.path is not None
    size = store.path.stat().st_size / 1e6
    how = f"made in {seconds:.1f} s" if made else f"found in the cache, read in {seconds:.1f} s"
    console.print(f"Store: {store.path}, {size:,.1f} MB, {how}")


def _targets(targets: Sequence[TargetSummary]) -> Table:
    headings = ("target", "kind", ">labels", ">missing", "distribution", ">min", ">max")
    table = make_table("Targets", *headings)
    for column in table.columns:
        column.no_wrap = column.header != "distribution"
    for target in targets[:_MAX_TARGETS]:
        shape = _shares(target) if target.labels else ""
        ends = ["", ""]
        if target.mean is not None:
            shape = f"{target.mean:.4g} ± {target.sd:.4g}"
            ends = [f"{target.min:.4g}", f"{target.max:.4g}"]
        counts = (f"{target.labels:,}", f"{target.missing:,}")
        table.add_row(target.name, target.kind, *counts, shape, *ends)
    if len(targets) > _MAX_TARGETS:
        table.caption = f"and {len(targets) - _MAX_TARGETS:,} more: --json has all"
    return table


def _shares(target: TargetSummary) -> str:
    """Frequencies of the classes, the most common first."""
    if target.kind == "binary":
        return f"{target.classes['1']:,} yes ({target.classes['1'] / target.labels:.1%})"
    ordered = sorted(target.classes.items(), key=lambda item: -item[1])
    shown = [f"{name} {count / target.labels:.1%}" for name, count in ordered[:5]]
    return ", ".join(shown) + (", …" if len(ordered) > 5 else "")


def _line(group: Group) -> str:
    """Describe a group of rows: what they have in common, their number, and the first of them."""
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
