"""`clean_table` and `write_clean`: a copy of a table without the problems of `check_table`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.checking.scan import Scan, location
from molsepnorm.data.datasets.cells import parse_cells
from molsepnorm.data.datasets.duplicates import used_labels
from molsepnorm.data.tables import names_in_file
from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import replacing, write_csv
from molsepnorm.tasks.transforms import transform_of

_MAX_RANGE = 0.5
"""Numbers within this share of their column's standard deviation are replaced by their median."""


class Change(NamedTuple):
    """A row of the source that was removed or changed."""

    row: int
    """Index counted from 0, as in `splits.json`."""
    where: str
    """Position in the source, such as "line 7"."""
    what: Literal["removed", "changed"]
    reason: str


@dataclass(frozen=True, eq=False)
class CleanTable:
    """A cleaned copy and its differences from the source."""

    source: pd.DataFrame
    """The source, every cell as text."""
    table: pd.DataFrame
    """The remaining rows, with the same columns and in the same order."""
    changes: tuple[Change, ...]
    """Removed and changed rows, in the order of the source."""
    merged: dict[str, int]
    """Number of cells that were filled from another row (filled), replaced by a median (medians),
    or emptied because labels conflict (conflicts) or are invalid (invalid)."""

    @property
    def removed(self) -> int:
        """Return the number of removed rows."""
        return len(self.source) - len(self.table)

    @property
    def changed(self) -> int:
        """Return the number of changed rows."""
        return sum(change.what == "changed" for change in self.changes)


def clean_table(scan: Scan) -> CleanTable:
    """Return a cleaned copy of a table that was scanned.

    - Rows with an invalid SMILES are removed.
    - Invalid labels of configured targets, such as "high", are emptied, that is, missing.
    - Duplicate rows of a molecule are merged into the first one, unless they differ in a feature
      column, in the time of a split by time or in the named split. Its blank cells are filled from
      the next row that has them. Conflicting numbers are replaced by their median if they are
      within half a standard deviation of their column, as repeated measurements are. If they are
      further apart, at least one is wrong, and the cell is emptied. Conflicting classes and yes/no
      are emptied too. Bounds, such as ">10", count only if a molecule has no other number; then
      the tightest one is used, and lower and upper bounds together are emptied. The weight is the
      mean of the rows that have labels. Labels of rows of weight 0 do not count.
    - Labelled rows of a named training or validation split are removed if the same molecule, with
      the same feature columns, has a label in a later split, that is validation or test.

    The order of columns and rows is preserved, and rows without labels remain.

    Raises:
        ConfigError: a file names the split by row numbers, which differ in the copy.
    """
    if scan.config.splits_file is not None:
        raise ConfigError(
            f"{scan.config.splits_file} names rows by their number, and rows of a cleaned copy "
            "are numbered anew. Clean the table without it and split the copy, or keep the split "
            "in a column: --splits-column"
        )
    source = scan.table
    names = list(source.columns)  # several may be the same, but none of a target
    cells = [source.iloc[:, i].to_numpy(dtype=object, copy=True) for i in range(len(names))]
    notes: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    for name, rows in scan.invalid_labels.items():
        column = cells[names.index(name)]
        for row in rows.tolist():
            notes.setdefault(row, []).append(f"{name}: '{column[row]}' is not a label: emptied")
            column[row] = ""
            counts["invalid"] += 1
    gone = {entry.row: entry.reason for entry in scan.rejected} | _in_a_later_split(scan)
    for number, rows in enumerate(scan.repeated):
        first = int(rows[0])
        if first in gone:
            continue
        for row in rows[1:].tolist():
            gone[row] = f"the same molecule as {location(scan, first)}{_unlike(scan, first, row)}"
        if merged := _merge(scan, cells, number, counts):
            others = ", ".join(location(scan, row) for row in rows[1:])
            notes.setdefault(first, []).append(f"merged with {others}: {'; '.join(merged)}")
    changes = [
        Change(row, location(scan, row), "removed", "; ".join([gone[row], *notes.get(row, [])]))
        if row in gone
        else Change(row, location(scan, row), "changed", "; ".join(notes[row]))
        for row in sorted({*gone, *notes})
    ]
    remaining = np.setdiff1d(np.arange(len(source)), list(gone))
    table = pd.DataFrame({number: column[remaining] for number, column in enumerate(cells)})
    table.columns = source.columns
    return CleanTable(source, table, tuple(changes), dict(counts))


def _in_a_later_split(scan: Scan) -> dict[int, str]:
    """Return the labelled rows of named splits whose molecule has a label in a later split, too,
    with the reason."""
    found: dict[int, str] = {}
    if scan.config.splits_column is None:
        return found
    known: dict[int, tuple[str, int]] = {}
    is_labelled = np.isfinite(scan.labels.values).any(axis=1)
    for name in reversed(scan.parts):
        for row in scan.parts[name][is_labelled[scan.parts[name]]].tolist():
            split, other = known.setdefault(int(scan.conditions[row]), (name, row))
            if split != name:
                found[row] = f"the same molecule as {location(scan, other)}, in the split {split}"
    return found


def write_clean(clean: CleanTable, output: Path, source: Path, force: bool = False) -> Path:
    """Write the copy, and `<name>.removed.csv` beside it.

    The second file lists the source rows that were removed or changed, with position and reason.

    Args:
        clean: the result of `clean_table`.
        output: a CSV file.
        source: the file that was cleaned, which is never replaced.
        force: replace existing files.

    Returns:
        The path of the second file.

    Raises:
        ConfigError: `output` does not end in .csv, or one of the two files is the source, or exists
            and `force` is False.
        StorageError: a file cannot be written.
    """
    removed = removed_path(output, source, force)
    columns = names_in_file(clean.source)
    before = clean.source.to_numpy(dtype=object)
    rows = [[*change, *before[change.row]] for change in clean.changes]
    with replacing(removed) as beside, replacing(output) as scratch:
        write_csv(beside, [*Change._fields, *columns], rows)
        write_csv(scratch, columns, clean.table.itertuples(index=False, name=None))
    return removed


def removed_path(output: Path, source: Path, force: bool = False) -> Path:
    """Return the path of the list that `write_clean` writes, after checking both paths.

    Raises:
        ConfigError: as `write_clean`.
    """
    if output.suffix.lower() != ".csv":
        raise ConfigError(f"the cleaned copy is a CSV file; '{output}' should end in .csv")
    removed = output.with_suffix(".removed.csv")
    for path in (output, removed):
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(
                f"{path} is the table that is cleaned, and it is never overwritten: choose another "
                "name"
            )
        if path.exists() and not force:
            raise ConfigError(f"{path} exists: choose another name, or replace it with --force")
    return removed


def _merge(scan: Scan, cells: list[np.ndarray], number: int, counts: Counter[str]) -> list[str]:
    """Merge the rows of one molecule into the first, and count the changes; return them as text."""
    rows, used = scan.repeated[number], scan.merged[number]
    first, changed = int(rows[0]), []
    weights = scan.weights
    gains_weight = weights is not None and weights[first] == 0 and weights[used].any()
    targets = {name: i for i, name in enumerate(scan.labels.names)}
    for name, column in zip(scan.table.columns, cells, strict=True):
        if name == scan.config.smiles_column:
            continue
        if name == scan.config.weight_column:
            weight, how = _weight(scan, column, used)
            if weight != column[first].strip():
                column[first] = weight
                changed.append(f"{name}: {how}")
            continue
        if (i := targets.get(name)) is None:
            full = [row for row in rows.tolist() if column[row].strip()]
        elif scan.conflicting[number, i]:
            column[first], how = _settle(scan, column, used, i)
            counts["medians" if column[first] else "conflicts"] += 1
            changed.append(f"{name}: {how}")
            continue
        else:
            values = scan.labels.values[used, i]
            full = used[used_labels(values, scan.bounds[used, i])].tolist()
            if not full and not np.isnan(values).all():
                shown = ", ".join(column[row].strip() for row in used[~np.isnan(values)])
                column[first] = ""
                counts["conflicts"] += 1
                changed.append(f"{name}: {shown} conflict: emptied")
            elif not full and gains_weight and column[first].strip():
                column[first] = ""
                changed.append(f"{name}: the weight of its row is 0: emptied")
        if full and full[0] != first:
            column[first] = column[full[0]]
            counts["filled"] += 1
            changed.append(f"{name}: from {location(scan, full[0])}")
    return changed


def _weight(scan: Scan, column: np.ndarray, used: np.ndarray) -> tuple[str, str]:
    """Return the mean weight of the rows that are merged, and how it was chosen."""
    texts = [text.strip() for text in column[used]]
    if len(set(texts)) == 1:
        return texts[0], f"from {location(scan, int(used[0]))}"
    weights = np.nan_to_num(parse_cells(pd.Series(texts)).numbers, nan=1.0)
    return f"{weights.mean():.10g}", f"mean of {', '.join(text or '1' for text in texts)}"


def _settle(scan: Scan, column: np.ndarray, rows: np.ndarray, target: int) -> tuple[str, str]:
    """Return the cell for conflicting labels, and how it was chosen."""
    labels = scan.labels
    rows = rows[~np.isnan(scan.exact[rows, target])]
    values = scan.exact[rows, target]
    shown = ", ".join(column[row].strip() for row in rows)
    if labels.kinds[target] != "regression":
        return "", f"{shown} conflict: emptied"
    if np.ptp(values) > _MAX_RANGE * scan.sd[target]:
        return "", f"{shown} are too far apart ({np.ptp(values) / scan.sd[target]:.2g} sd): emptied"
    middle = np.median(values)
    if labels.transforms:
        transform = transform_of(labels.transforms[target], labels.names[target])
        middle = middle if transform is None else transform.inverse(middle)
    median = f"{middle:.10g}"
    return median, f"median {median} of {shown}"


def _unlike(scan: Scan, first: int, row: int) -> str:
    """Return how the first is written, if that differs."""
    if scan.smiles[first].strip() == scan.smiles[row].strip():
        return ""
    return f", {scan.smiles[first].strip()}, written in another way"
