"""What `molsepnorm data` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from molsepnorm.cli.console import cell, make_console
from molsepnorm.data.checking.clean import CleanTable
from molsepnorm.data.checking.report import Finding, Group, TableReport, TargetSummary
from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.catalog import NamedSet

__all__ = ["print_clean", "print_report", "print_sets", "print_store"]

_TARGETS = 30  # described
_PLACES = 3  # named of each group
_GROUPS = 5  # named of each finding
_WIDTH = 50  # of a SMILES
_KINDS = {"regression": "number", "binary": "yes/no", "multiclass": "classes"}
_WIDE = 120  # columns of a terminal
_FIXED = ("unreadable", "invalid-labels", "conflicts", "duplicates")


def print_report(report: TableReport, fixing: bool = False) -> None:
    """What was found in a table.

    Args:
        report: of `check_table`.
        fixing: whether a cleaned copy is being written anyway.
    """
    console = make_console()
    console.print(
        f"{report.source}: {report.rows:,} rows, {report.readable:,} of them molecules, "
        f"{report.molecules:,} different ones"
    )
    for remark in report.warnings:
        console.print(remark)
    if report.splits:
        parts = ", ".join(f"{name} {count:,}" for name, count in report.splits.items())
        console.print(f"Split: {parts}")
    if report.targets:
        console.print(_targets(report.targets))
    _findings(console, "Problems", report.problems)
    _findings(console, "For information", report.information)
    if not report.problems:
        console.print("No problem found.", style="green")
    elif not fixing and any(finding.kind in _FIXED for finding in report.problems):
        console.print(f"A cleaned copy: molsepnorm data check {report.source} --fix clean.csv")


def print_clean(clean: CleanTable, copy: str, removed: str) -> None:
    """What a cleaned copy lacks and how it was changed."""
    console = make_console()
    counts = f"{clean.removed:,} removed, {clean.changed:,} changed"
    console.print(f"{copy}: {len(clean.table):,} rows; {counts}")
    if clean.changed:
        console.print(
            "Contradicting numbers became their median, or a blank where they lay more than half a "
            "standard deviation of their column apart; contradicting classes became a blank."
        )
    console.print(f"{removed}: each of these rows as it was, with the reason")


def print_sets(sets: Iterable[NamedSet]) -> None:
    """The data sets known by name."""
    console = make_console()
    table = Table(title="Data sets", box=None)
    headings = ["name", "molecules", "tasks", "kind", "metric", "raw files", "store"]
    for heading in headings:
        number = heading in ("molecules", "tasks")
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    if console.width >= _WIDE:
        table.add_column("what")
    for each in sets:
        molecules = "" if each.molecules is None else f"{each.molecules:,}"
        raw = "" if each.raw == "missing" else each.raw
        store = {0: "", 1: "ready"}.get(each.stores, f"{each.stores} ready")
        cells = [
            each.name,
            molecules,
            f"{each.tasks:,}",
            _KINDS[each.kind],
            each.metric,
            raw,
            store,
        ]
        table.add_row(*[*cells, each.about][: len(table.columns)])
    console.print(table)
    console.print(
        "Raw files that are not here are downloaded when a set is first used; those of zinc-rich "
        "are not."
    )


def print_store(dataset: Dataset, seconds: float, made: bool) -> None:
    """A store that was made, or was there."""
    console, store = make_console(), dataset.store
    console.print(f"Data: {dataset.name}")
    for remark in dataset.warnings:
        console.print(remark)
    if dataset.rejected:
        first = dataset.rejected[0]
        console.print(
            f"Left out: {len(dataset.rejected):,} row(s) that cannot be read, such as "
            f"'{first.smiles}': {first.reason}",
            style="yellow",
        )
    console.print(
        f"{len(store):,} molecules, {int(store.sizes.sum()):,} atoms, {len(store.paths):,} path "
        f"codes, {len(dataset.targets):,} target(s)"
    )
    assert store.path is not None
    size = store.path.stat().st_size / 1e6
    how = f"made in {seconds:.1f} s" if made else f"there already, read in {seconds:.1f} s"
    console.print(f"Store: {store.path}, {size:,.1f} MB, {how}")


def _targets(targets: Sequence[TargetSummary]) -> Table:
    table = Table(title="Targets")
    for heading in ("target", "kind", "labels", "missing", "distribution", "min", "max"):
        number = heading in ("labels", "missing", "min", "max")
        wide = heading == "distribution"
        table.add_column(heading, justify="right" if number else "left", no_wrap=not wide)
    for target in targets[:_TARGETS]:
        shape = low = high = ""
        if target.mean is not None:
            shape = f"{target.mean:.4g} ± {target.sd:.4g}"
            low, high = f"{target.min:.4g}", f"{target.max:.4g}"
        elif target.labels:
            shape = _shares(target)
        counts = (f"{target.labels:,}", f"{target.missing:,}")
        table.add_row(cell(target.name), target.kind, *counts, cell(shape), low, high)
    if len(targets) > _TARGETS:
        table.caption = f"and {len(targets) - _TARGETS:,} more: --json has all"
    return table


def _shares(target: TargetSummary) -> str:
    """The classes, the most common first."""
    if target.kind == "binary":
        return f"{target.classes['1']:,} yes ({target.classes['1'] / target.labels:.1%})"
    ordered = sorted(target.classes.items(), key=lambda item: -item[1])
    shown = [f"{name} {count / target.labels:.1%}" for name, count in ordered[:5]]
    return ", ".join(shown) + (", …" if len(ordered) > 5 else "")


def _findings(console: Console, heading: str, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    console.print(heading, style="bold")
    for finding in findings:
        console.print(f"- {finding.text}", style="yellow" if finding.problem else None)
        for group in finding.groups[:_GROUPS]:
            console.print(f"    {_line(group)}")
        if len(finding.groups) > _GROUPS:
            console.print("    …")


def _line(group: Group) -> str:
    """What the rows have in common, how many there are, and where the first of them stand."""
    what = [group.what[: 2 * _WIDTH]] if group.what else []
    if group.count > 1:
        what.append(f"{group.count:,}")
    places = [f"{place.where} {_short(place.smiles)}".strip() for place in group.places[:_PLACES]]
    if len(group.places) > _PLACES:
        places.append("…")
    return ": ".join([*what, *([", ".join(places)] if places else [])])


def _short(smiles: str) -> str:
    smiles = smiles.strip()
    return smiles if len(smiles) <= _WIDTH else smiles[: _WIDTH - 1] + "…"
