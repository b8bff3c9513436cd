"""`check_table`: find problems in a table before training."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from molsepnorm.data.checking.report import Finding, Group, Location, TableReport, TargetSummary
from molsepnorm.data.checking.scan import Scan, location, scan_table
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.splits import WORDS
from molsepnorm.data.datasets.times import describe_times

__all__ = ["check_table", "report_of"]

_ATOM = re.compile(r"\[[^\]]*\]|Br?|Cl?|[NOPSFI*bcnops]")


def check_table(config: DataConfig) -> TableReport:
    """Check `config.table`; nothing is written but standardised SMILES, which the cache keeps.

    Two rows are the same molecule if their canonical SMILES without isotopes and atom-map numbers
    are equal, after structures are standardised, since a model reads the same graph. Labels of a
    molecule conflict if classes differ, or numbers differ by more than a millionth of their
    column's standard deviation.

    >>> from pathlib import Path
    >>> report = check_table(DataConfig(table=Path("data/demo.csv")))
    >>> report.rows == report.readable, [finding.kind for finding in report.problems]
    (True, [])

    Raises an error of `scan_table` if the file is not a table of the columns in the settings.
    """
    return report_of(scan_table(config))


def report_of(scan: Scan) -> TableReport:
    """Return the report of a scanned table."""
    sizes = np.array([len(_ATOM.findall(text or "")) for text in scan.canonical])
    return TableReport(
        source=str(scan.config.table),
        rows=len(scan.canonical),
        readable=len(scan.readable),
        molecules=int(scan.molecules.max()) + 1,
        atoms=int(sizes.sum()),
        warnings=(*scan.labels.warnings, *_times(scan)),
        targets=tuple(_summaries(scan)),
        splits={name: len(rows) for name, rows in scan.parts.items()},
        findings=tuple(find(scan, sizes)),
    )


def _times(scan: Scan) -> Iterator[str]:
    if scan.parts and (name := scan.config.time_column) is not None:
        yield describe_times(scan.parts, scan.table[name].tolist(), name)


def _summaries(scan: Scan) -> Iterator[TargetSummary]:
    labels = scan.labels
    for i, (name, kind, classes, column) in enumerate(
        zip(labels.names, labels.kinds, labels.classes, scan.columns, strict=True)
    ):
        present = column[~np.isnan(column)]
        bounds = int(np.count_nonzero(scan.bounds[scan.readable, i]))
        measured = kind == "regression" and len(present) > 0
        names = {"regression": (), "binary": ("0", "1"), "multiclass": classes}[kind]
        yield TargetSummary(
            name,
            kind,
            labels=len(present) + bounds,
            bounds=bounds,
            missing=len(column) - len(present) - bounds,
            mean=float(present.mean()) if measured else None,
            sd=float(present.std()) if measured else None,
            median=float(np.median(present)) if measured else None,
            min=float(present.min()) if measured else None,
            max=float(present.max()) if measured else None,
            classes={each: int((present == i).sum()) for i, each in enumerate(names)},
        )


_PLACES = 5  # rows listed for each group
_GROUPS = 10  # groups listed for each finding
_LARGEST = 3  # molecules listed
_OUTLIER = 6.0  # robust standard deviations from the median
_USUAL = {"H", "B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I"}

_QUOTED = re.compile(
    r"""^('[^']*'(?= in ['"]))"""  # an invalid character, which is preserved
    r"""|(?: in |RDKit cannot read (?:its canonical form )?)?(?:'[^']*['…]|"[^"]*["…])(?:;.*|:?)"""
)
_BRACKET = re.compile(r"\[\d*(se|as|te|si|[A-Z][a-z]?|[bcnops*])")
_CLEARED = {"isotopes": re.compile(r"\[\d"), "atom-map numbers": re.compile(r":\d+\]")}


def find(scan: Scan, sizes: np.ndarray) -> Iterator[Finding]:
    """Yield all findings, the most serious first.

    Args:
        scan: the table.
        sizes: number of atoms of each row's molecule.
    """
    yield from _unreadable(scan)
    yield from _cells(scan)
    yield from _conflicts(scan)
    yield from _duplicates(scan)
    yield from _leaks(scan)
    yield from _constants(scan)
    yield from _outliers(scan)
    yield from _molecules(scan)
    yield from _sizes(scan, sizes)
    yield from _unused(scan)


def _unreadable(scan: Scan) -> Iterator[Finding]:
    """Group by reason; reasons that differ only in numbers, such as positions, are one."""
    rows: dict[str, list[int]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for entry in scan.rejected:
        reason = " ".join(_QUOTED.sub(r"\1", entry.reason).split())
        key = re.sub(r"\d+", "0", reason)
        reasons.setdefault(key, reason)
        rows[key].append(entry.row)
    groups = [_group(scan, reasons[key], rows[key]) for key in rows]
    count = len(scan.rejected)
    text = f"cannot be read: {_n(count, 'row')}; training leaves them out"
    yield from _found("unreadable", True, count, text, groups)


def _cells(scan: Scan) -> Iterator[Finding]:
    for refusal in scan.refusals:
        yield Finding(refusal.what, True, 1, f"training would stop: {refusal.reason}")
    for kind, cells, text in (
        ("invalid-labels", scan.invalid_labels, "invalid labels: {}; training would stop there"),
        (
            "nearly-numbers",
            scan.nearly,
            "not numbers: {} of columns that would otherwise be targets",
        ),
    ):
        groups = [
            _group(scan, f"{name}: {_some(scan.table[name].iloc[rows])}", rows)
            for name, rows in cells.items()
        ]
        count = sum(map(len, cells.values()))
        yield from _found(kind, True, count, text.format(_n(count, "cell")), groups)


def _conflicts(scan: Scan) -> Iterator[Finding]:
    """Show for each target the molecule whose labels differ most."""
    labels, groups = scan.labels, []
    for i in np.flatnonzero(scan.conflicting.any(axis=0)).tolist():
        worst = int(np.nanargmax(scan.spread[:, i]))
        rows = scan.repeated[worst]
        rows = rows[~np.isnan(scan.exact[rows, i])]
        what = f"{labels.names[i]}, such as {_some(scan.table[labels.names[i]].iloc[rows])}"
        if labels.kinds[i] == "regression":
            what += f", {scan.spread[worst, i] / scan.sd[i]:.2g} sd apart"
        groups.append(_group(scan, what, rows, int(scan.conflicting[:, i].sum())))
    count = int(scan.conflicting.any(axis=1).sum())
    text = f"conflicting labels: {_n(count, 'molecule')} with different labels in several rows"
    kept = scan.config.duplicates == "keep"
    yield from _found("conflicts", kept, count, text, groups)


def _duplicates(scan: Scan) -> Iterator[Finding]:
    largest = sorted(scan.repeated, key=len, reverse=True)[:_GROUPS]
    groups = [_group(scan, str(scan.canonical[rows[0]]), rows) for rows in largest]
    count = len(scan.repeated)
    unlike = sum(len({scan.smiles[row].strip() for row in rows}) > 1 for rows in scan.repeated)
    text = (
        f"repeated: {_n(count, 'molecule')} in {sum(map(len, scan.repeated)):,} rows, "
        f"{unlike:,} of them written in several ways"
    )
    if not (kept := scan.config.duplicates == "keep"):
        text += "; training merges them (--duplicates mean)"
    yield from _found("duplicates", kept, count, text, groups)


def _leaks(scan: Scan) -> Iterator[Finding]:
    inside = {name: np.unique(scan.molecules[rows]) for name, rows in scan.parts.items()}
    groups, shared = [], set()
    for one, other in combinations(inside, 2):
        both = np.intersect1d(inside[one], inside[other])
        if len(both):
            rows = np.union1d(scan.parts[one], scan.parts[other])
            rows = rows[scan.molecules[rows] == both[0]]
            groups.append(_group(scan, f"{one} and {other}", rows, len(both)))
            shared.update(both.tolist())
    text = (
        f"in more than one split ({_how(scan.config)}): {_n(len(shared), 'molecule')}; "
        "their scores are too optimistic"
    )
    yield from _found("leak", True, len(shared), text, groups)


def _constants(scan: Scan) -> Iterator[Finding]:
    """Find targets whose labels are all equal or missing, in the table or in a split."""
    constant, unscored = [], []
    for i, (name, kind) in enumerate(zip(scan.labels.names, scan.labels.kinds, strict=True)):
        if what := _constant(scan.columns[i]):
            constant.append(Group(f"{name}: {what}", 1, ()))
            continue
        for part, rows in scan.parts.items():
            column = scan.exact[rows, i]
            if what := _constant(column):
                group = Group(f"{name}: {what} in {part}", 1, ())
                if part == "train":
                    constant.append(group)
                elif kind != "regression" or np.isnan(column).all():
                    unscored.append(group)
    text = f"nothing to learn: {_n(len(constant), 'target')}; training would stop, leave them out"
    yield from _found("constant", True, len(constant), text, constant)
    text = (
        "labels all equal or missing in a split, so that a score is undefined: "
        f"{_n(len(unscored), 'case')}"
    )
    yield from _found("unscored", False, len(unscored), text, unscored)


def _outliers(scan: Scan) -> Iterator[Finding]:
    groups = []
    for i, (name, kind) in enumerate(zip(scan.labels.names, scan.labels.kinds, strict=True)):
        column = scan.columns[i]
        if kind != "regression" or np.isnan(column).all():
            continue
        away = np.abs(column - np.nanmedian(column))
        low, high = np.nanpercentile(column, (5, 95))
        robust = (high - low) / 3.29  # the standard deviation of normal labels
        if robust and (far := np.flatnonzero(away > _OUTLIER * robust)).size:
            far = far[np.argsort(-away[far], kind="stable")]
            values = ", ".join(f"{value:.4g}" for value in column[far[:3]])
            what = f"{name}: {values}{', …' * (len(far) > 3)} (median {np.nanmedian(column):.4g})"
            groups.append(_group(scan, what, scan.readable[far]))
    count = sum(group.count for group in groups)
    text = f"far from the others, by more than {_OUTLIER:g} robust sd: {_n(count, 'label')}"
    yield from _found("outliers", False, count, text, groups)


def _molecules(scan: Scan) -> Iterator[Finding]:
    fragments, elements, cleared = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in scan.readable.tolist():
        text, written = scan.canonical[row] or "", scan.smiles[row]
        if "." in text:
            fragments[f"{text.count('.') + 1} fragments"].append(row)
        if "[" in text or "*" in text:
            found = {element.capitalize() for element in _BRACKET.findall(text)}
            for element in sorted((found | {"*"} & set(text)) - _USUAL):
                elements[element].append(row)
        if "[" in written:
            for what, pattern in _CLEARED.items():
                if pattern.search(written):
                    cleared[what].append(row)
    for kind, text, members in (
        (
            "mixtures",
            "salts and mixtures, which --standardize salts reduces to the largest part",
            fragments,
        ),
        ("elements", "elements that are rare in organic molecules (* is any)", elements),
        ("cleared", "isotopes or atom-map numbers, which are cleared", cleared),
    ):
        count = len({row for rows in members.values() for row in rows})
        groups = [_group(scan, what, rows) for what, rows in members.items()]
        yield from _found(kind, False, count, f"{text}: {_n(count, 'row')}", groups)
    if scan.labels.names:
        bare = scan.readable[np.isnan(scan.labels.values[scan.readable]).all(axis=1)]
        text = f"without any label: {_n(len(bare), 'row')}; nothing is learned from them"
        yield from _found("unlabelled", False, len(bare), text, [_group(scan, "", bare)])


def _sizes(scan: Scan, sizes: np.ndarray) -> Iterator[Finding]:
    single = np.flatnonzero(sizes == 1)
    text = f"single atoms: {_n(len(single), 'row')}"
    yield from _found("single-atoms", False, len(single), text, [_group(scan, "", single)])
    if not len(scan.readable):
        return
    _, firsts = np.unique(scan.molecules[scan.readable], return_index=True)
    rows = scan.readable[firsts]
    rows = rows[np.argsort(-sizes[rows], kind="stable")][:_LARGEST]
    groups = tuple(_group(scan, _n(int(sizes[row]), "atom"), [row], 1) for row in rows)
    text = f"atoms: median {np.median(sizes[scan.readable]):g}, at most {sizes[rows[0]]}"
    yield Finding("largest", False, len(groups), text, groups)


def _unused(scan: Scan) -> Iterator[Finding]:
    """Find columns that name splits and are not used."""
    if scan.config.splits_column is None and scan.config.splits_file is None:
        groups = []
        for name, column in scan.table.items():
            words = set(column.str.strip().str.lower().unique()) - {""}
            if {WORDS.get(word) for word in words} >= {"train", "test"} and words <= set(WORDS):
                groups.append(Group(f"{name}: --splits-column {name}", 1, ()))
        text = f"names train and test rows, but is not used: {_n(len(groups), 'column')}"
        yield from _found("unused-split", False, len(groups), text, groups)


def _found(
    kind: str, problem: bool, count: int, text: str, groups: list[Group]
) -> Iterator[Finding]:
    """Yield the finding if the count is not 0."""
    if count:
        groups = sorted(groups, key=lambda group: -group.count)[:_GROUPS]
        yield Finding(kind, problem, count, text, tuple(groups))


def _group(
    scan: Scan, what: str, rows: Sequence[int] | np.ndarray, count: int | None = None
) -> Group:
    """Return a group of these rows, or of `count` things, with the rows as an example."""
    first = [int(row) for row in rows[:_PLACES]]
    places = tuple(Location(row, location(scan, row), scan.smiles[row]) for row in first)
    return Group(what, len(rows) if count is None else count, places)


def _constant(column: np.ndarray) -> str | None:
    """Describe labels that are all equal or missing; None for others."""
    present = column[~np.isnan(column)]
    if not len(present):
        return "no label"
    return f"all {len(present):,} labels equal" if (present == present[0]).all() else None


def _how(config: DataConfig) -> str:
    """Describe how the molecules are split."""
    if config.splits_column is not None:
        return f"column '{config.splits_column}'"
    if config.splits_file is not None:
        return f"{config.splits_file}, entry {config.fold}"
    if config.time_column is not None:
        return f"time, column '{config.time_column}'"
    fold = f", fold {config.fold}" if config.folds or config.fold else ""
    return f"{config.split_type}, seed {config.split_seed}{fold}, as in training"


def _some(cells: Iterable[str]) -> str:
    """Return the first few distinct cells."""
    distinct = list(dict.fromkeys(cell.strip() for cell in cells))
    return ", ".join(f"'{cell}'" for cell in distinct[:3]) + ", …" * (len(distinct) > 3)


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
