"""`clean_table` and `write_clean`: a copy of a table without the problems of `check_table`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.checking.check import Scan
from molsepnorm.data.datasets.duplicates import merged_label
from molsepnorm.data.tables.columns import names_in_file
from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import replacing, write_csv

_MARKED = re.compile(
    r"(?:([<>≤≥]=?)|[~≈=])?\s*([-+\u2212]?(?:\d{1,3}(?: \d{3})+|\d*\.?\d+)(?:e[-+]?\d+)?)\s*"
    r"(?:(?:±|\+/?-).*|[*†‡]+|[a-d])?"
)
"""A number or bound with a mark, an error, or spaces: 45*, ~50, 12.3 ± 0.4, >10 000, >1000a."""


class Change(NamedTuple):
    """A row of the source that was removed or changed."""

    row: int
    """Index counted from 0, as in `splits.json`."""
    where: str
    what: Literal["removed", "changed"]
    reason: str


_Edits = list[tuple[int, str, str]]  # row of a changed cell, key of `CleanTable.merged`, note


@dataclass(frozen=True, eq=False)
class CleanTable:
    """A cleaned copy and its differences from the source."""

    source: pd.DataFrame
    """Text, as are the cells of `table`."""
    table: pd.DataFrame
    """The remaining rows, in the same order."""
    changes: tuple[Change, ...]
    """Removed and changed rows, in the order of the source."""
    merged: dict[str, int]
    """Number of cells that were filled from another row (filled), replaced by a mean (means),
    emptied because labels conflict (conflicts) or are invalid (invalid), or read without marks
    (marked), and of molecules whose rows were merged (merged)."""
    differing: dict[str, int]
    """Number of molecules whose rows differ, by column that is no target."""

    @property
    def removed(self) -> int:
        return len(self.source) - len(self.table)

    @property
    def changed(self) -> int:
        return sum(change.what == "changed" for change in self.changes)


def clean_table(scan: Scan) -> CleanTable:
    """Return a cleaned copy of a table.

    - Rows with an invalid SMILES are removed.
    - Marked numbers such as 45* become numbers; other invalid labels of the targets are emptied.
    - Duplicate rows of a molecule are merged into the first one by `merged_label`, unless they
      differ in a feature column, in the time of a split by time or in the named split. The weight
      is the mean of the rows that have labels. Blank cells of other columns are filled from the
      next row that has them.
    - Labelled rows of a named split are removed if the same molecule, with the same feature
      columns, has a label in a later split.

    A file that names the split by row numbers, which differ in the copy, is a `ConfigError`, and so
    are errors of labels that would be merged.
    """
    if scan.config.splits_file is not None:
        raise ConfigError(
            f"{scan.config.splits_file} names rows by their numbers, which differ in a cleaned "
            "copy. Clean the table without it and split the copy, or keep the split in a column: "
            "--splits-column"
        )
    if scan.config.errors and scan.repeated:
        raise ConfigError(
            "a cleaned copy has one row for each molecule, and the errors of merged labels are not "
            "written (data.error_column): train with --duplicates mean, which merges both"
        )
    source = scan.frame
    names = list(source.columns)  # several may be the same, but none of a target
    differing = Counter[str]()
    frame, edits = _marked(scan)
    if edits:
        table = replace(scan.rows.table, frame=frame)
        scan = Scan.of(table, scan.dataset.store.encoding)
    cells = [column.to_numpy(dtype=object, copy=True) for _, column in scan.frame.items()]
    for issue in scan.labels.issues:
        column = cells[names.index(issue.column)]
        for row in issue.rows.tolist():
            note = f"{issue.column}: '{column[row]}' is not a label: emptied"
            edits.append((row, "invalid", note))
            column[row] = ""
    gone = {entry.row: entry.reason for entry in scan.dataset.rejected} | _in_a_later_split(scan)
    for rows, used in zip(scan.repeated, scan.merged, strict=True):
        first = int(rows[0])
        if first in gone:
            continue
        text = scan.smiles[first].strip()
        for row in rows[1:].tolist():
            unlike = scan.smiles[row].strip() != text
            gone[row] = f"the same molecule as {scan.location(first)}"
            gone[row] += f", {text}, written in another way" * unlike
        if merged := _merge(scan, cells, rows, used, differing):
            others = ", ".join(scan.location(row) for row in rows[1:])
            edits += [(first, "merged", f"merged with {others}"), *merged]
    notes = {row: [reason] for row, reason in gone.items()}
    for row, _, note in edits:
        notes.setdefault(row, []).append(note)
    changes = [
        Change(row, scan.location(row), "removed" if row in gone else "changed", "; ".join(lines))
        for row, lines in sorted(notes.items())
    ]
    remaining = np.setdiff1d(np.arange(len(source)), list(gone))
    table = pd.DataFrame({number: column[remaining] for number, column in enumerate(cells)})
    table.columns = source.columns
    counts = Counter(what for _, what, _ in edits)
    return CleanTable(source, table, tuple(changes), dict(counts), dict(differing))


def _marked(scan: Scan) -> tuple[pd.DataFrame, _Edits]:
    """Return the table with the numbers of the invalid labels that match `_MARKED`."""
    frame, edits = scan.frame.copy(), _Edits()
    for name in [target.name for target in scan.labels.targets if not target.classes]:
        column, place = scan.rows.table.column(name), list(frame.columns).index(name)
        for row in column.bad_rows.tolist():
            if match := _MARKED.fullmatch(column.text(row)):
                number = f"{match[1] or ''}{match[2]}".replace(" ", "").replace("\u2212", "-")
                note = f"{name}: '{frame.iat[row, place]}' is read as {number}"
                edits.append((row, "marked", note))
                frame.iat[row, place] = number
    return frame, edits


def _in_a_later_split(scan: Scan) -> dict[int, str]:
    """Return a reason for each labelled row of a named split whose molecule has a label in a later
    split."""
    reasons: dict[int, str] = {}
    known: dict[int, tuple[str, int]] = {}
    is_labelled = np.isfinite(scan.labels.values).any(axis=1)
    for name in reversed(scan.parts) if scan.config.splits_column is not None else ():
        for row in scan.parts[name][is_labelled[scan.parts[name]]].tolist():
            split, other = known.setdefault(int(scan.conditions.at[row]), (name, row))
            if split != name:
                reasons[row] = f"the same molecule as {scan.location(other)}, in the split {split}"
    return reasons


def write_clean(clean: CleanTable, output: Path, removed: Path) -> None:
    """Write the copy as a CSV file, and the removed and changed rows of the source, with position
    and reason, to the path that `removed_path` returned."""
    columns = names_in_file(clean.source)
    before = clean.source.to_numpy(dtype=object)
    rows = [[*change, *before[change.row]] for change in clean.changes]
    with replacing(removed) as beside, replacing(output) as scratch:
        write_csv(beside, [*Change._fields, *columns], rows)
        write_csv(scratch, columns, clean.table.itertuples(index=False, name=None))


def removed_path(output: Path, source: Path, force: bool = False) -> Path:
    """Return the path of the list that `write_clean` writes. It is a `ConfigError` if `output` does
    not end in .csv, or one of the two files is the source, or exists and `force` is False."""
    if output.suffix.lower() != ".csv":
        raise ConfigError(f"the cleaned copy is a CSV file; '{output}' should end in .csv")
    removed = output.with_suffix(".removed.csv")
    for path in (output, removed):
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(
                f"{path} is the table to clean, which is never overwritten: choose another name"
            )
        if path.exists() and not force:
            raise ConfigError(f"{path} exists: choose another name, or replace it with --force")
    return removed


def _merge(
    scan: Scan,
    cells: list[np.ndarray],
    rows: np.ndarray,
    used: np.ndarray,
    differing: Counter[str],
) -> _Edits:
    """Merge the rows of a molecule, with the labels of those `used`, into the first."""
    first, edits = int(rows[0]), _Edits()
    is_labelled = not np.isnan(scan.labels.values[used]).all()
    weights, qualifiers = scan.rows.weights, scan.rows.table.qualifiers
    gains_weight = weights is not None and weights[first] == 0 < weights[used].max()
    labels = {
        name: _merged_label(scan, column, used, scan.labels.names.index(name))
        for name, column in zip(scan.frame.columns, cells, strict=True)
        if name in scan.labels.names and is_labelled
    }
    for name, column in zip(scan.frame.columns, cells, strict=True):
        if name == scan.config.smiles_column:
            continue
        full = [str(column[row]) for row in rows if column[row].strip()]
        if name in labels:
            cell, what, _ = labels[name]
        elif name in scan.labels.names:
            cell, what = str(column[first]) * (not gains_weight), "conflicts"
        elif name in qualifiers and labels:  # of the only target
            ((_, what, source),) = labels.values()
            is_mean = name == qualifiers.relation and what == "means"
            cell, what = "=" if is_mean else str(column[source]), "filled"
        elif name == scan.config.weight_column and weights is not None:
            mean, what = weights[used].mean(), "means"
            cell = str(column[first]) if weights[first] == mean else _written(scan, mean)
        else:
            cell, what = next(iter(full), ""), "filled"
            differing[name] += len({*map(str.strip, full)}) > 1
        if cell.strip() != column[first].strip():
            shown = ", ".join(map(str.strip, full))
            edits.append((first, what, f"{name}: {cell.strip() or 'emptied'} ({shown})"))
            column[first] = cell
    return edits


def _merged_label(
    scan: Scan, column: np.ndarray, used: np.ndarray, target: int
) -> tuple[str, str, int]:
    """Return the cell of a target for merged rows, the key of `CleanTable.merged` for a change, and
    the row whose relation and unit it has."""
    labels = scan.labels
    kind, transform = labels.targets[target].kind, labels.targets[target].transformation
    values, bounds = labels.values[used, target], labels.bounds[used, target]
    weights = np.ones(len(used)) if scan.rows.weights is None else scan.rows.weights[used]
    value, bound = merged_label(values, bounds, weights, kind == "regression")
    if np.isnan(value):
        return "", "conflicts", int(used[0])
    same = (bounds == bound) & np.isclose(values, value, rtol=1e-9, atol=0)
    if same.any():
        source = int(used[same.argmax()])
        return str(column[source]).strip(), "filled", source
    if transform is not None:
        value = float(transform.inverse(np.array(value)))
    if labels.factors is not None:
        value /= labels.factors[used[0]]
    return _written(scan, value), "means", int(used[0])


def _written(scan: Scan, number: float) -> str:
    return f"{number:.10g}".replace(".", scan.config.decimal or ".")
