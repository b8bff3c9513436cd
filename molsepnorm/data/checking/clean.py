"""`clean_table` and `write_clean`: a copy of a table without what `check_table` calls a problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.checking.scan import Scan, place, scan_table
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import clear_errors, csv_writer, replacing

__all__ = ["Change", "CleanTable", "clean_scan", "clean_table", "removed_path", "write_clean"]

_MENDED = 0.5
"""Numbers within this share of their column's standard deviation become their median."""


class Change(NamedTuple):
    """A row of the source that is not, or not as it was, in the copy."""

    row: int
    """Counted from 0, as in `splits.json`."""
    where: str
    """In the source, such as "line 7"."""
    what: Literal["removed", "changed"]
    reason: str


@dataclass(frozen=True, eq=False)
class CleanTable:
    """A cleaned copy, and how it differs from its source."""

    source: pd.DataFrame
    """As it stands, every cell as text."""
    table: pd.DataFrame
    """The same columns; the rows that remain, in their order."""
    changes: tuple[Change, ...]
    """In the order of the source's rows."""

    @property
    def removed(self) -> int:
        """How many rows of the source are not in the copy."""
        return len(self.source) - len(self.table)

    @property
    def changed(self) -> int:
        """How many rows are in the copy with other cells."""
        return sum(change.what == "changed" for change in self.changes)


def clean_table(config: DataConfig) -> CleanTable:
    """A cleaned copy of `config.table`; see `clean_scan`.

    Raises:
        ConfigError: as `clean_scan`, or a column or file named in the settings is missing.
        DataError: the file is no table.
        StorageError: it cannot be read.
    """
    return clean_scan(scan_table(config))


def clean_scan(scan: Scan) -> CleanTable:
    """A cleaned copy of a table that was scanned.

    - Rows whose SMILES cannot be read are removed.
    - Cells of named targets that are no label, such as ">10", are blanked: a missing label.
    - The rows of one molecule become one, in the place of the first. Its cells stay, its blank
      ones are filled from the next row that has them. Labels that agree stay. Numbers that
      contradict each other become their median where they lie within half a standard deviation
      of their column, as repeated measurements do; further apart at least one of them is wrong,
      no one knows which, and the cell is blanked. So are contradicting classes and yes/no.

    All columns, their order and the order of rows stay. A row without labels stays.

    Raises:
        ConfigError: a file says the split by numbers of rows, which the copy would not follow.
    """
    if scan.config.splits_file is not None:
        raise ConfigError(
            f"{scan.config.splits_file} names rows by their number, and rows of a cleaned copy "
            "are numbered anew. Clean the table without it and split the copy, or keep the split "
            "in a column: --splits-column"
        )
    source = scan.table
    names = list(source.columns)  # several may be the same, but none of a target
    cells = [source.iloc[:, place].to_numpy(dtype=object, copy=True) for place in range(len(names))]
    notes: dict[int, list[str]] = {}
    for name, rows in scan.invalid_labels.items():
        column = cells[names.index(name)]
        for row in rows.tolist():
            notes.setdefault(row, []).append(f"{name}: '{column[row]}' is no label: blanked")
            column[row] = ""
    gone = {entry.row: entry.reason for entry in scan.rejected}
    for number, rows in enumerate(scan.repeated):
        first = int(rows[0])
        for row in rows[1:].tolist():
            gone[row] = f"the same molecule as {place(scan, first)}{_unlike(scan, first, row)}"
        if merged := _merge(scan, cells, number):
            others = ", ".join(place(scan, row) for row in rows[1:])
            notes.setdefault(first, []).append(f"merged with {others}: {'; '.join(merged)}")
    changes = [
        Change(row, place(scan, row), "removed", "; ".join([gone[row], *notes.get(row, [])]))
        if row in gone
        else Change(row, place(scan, row), "changed", "; ".join(notes[row]))
        for row in sorted({*gone, *notes})
    ]
    kept = np.setdiff1d(np.arange(len(source)), list(gone))
    table = pd.DataFrame({place: column[kept] for place, column in enumerate(cells)})
    table.columns = source.columns
    return CleanTable(source, table, tuple(changes))


def write_clean(clean: CleanTable, output: Path, source: Path) -> Path:
    """Write the copy, and beside it `<name>.removed.csv`: every row that was removed or changed,
    as it stood in the source, with its place there and the reason.

    Args:
        clean: of `clean_table`.
        output: a CSV file, replaced where there is one.
        source: the file that was cleaned, which is never replaced.

    Returns:
        The second file's path.

    Raises:
        ConfigError: `output` is no name of a CSV file, or one of both files is the source itself.
        StorageError: a file cannot be written.
    """
    removed = removed_path(output, source)
    columns = list(clean.source.columns)
    before = clean.source.to_numpy(dtype=object)
    rows = [[*change, *before[change.row]] for change in clean.changes]
    with replacing(removed) as beside, replacing(output) as scratch:
        _write(beside, [*Change._fields, *columns], rows)
        _write(scratch, columns, clean.table.itertuples(index=False, name=None))
    return removed


def removed_path(output: Path, source: Path) -> Path:
    """Where `write_clean` lists what it removed and changed, if it may write there.

    Raises:
        ConfigError: as `write_clean`.
    """
    if output.suffix.lower() != ".csv":
        raise ConfigError(f"the cleaned copy is a CSV file; '{output}' should end in .csv")
    removed = output.with_suffix(".removed.csv")
    for path in (output, removed):
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(
                f"{path} is the table that is cleaned, and a copy never takes its place: choose "
                "another name"
            )
    return removed


def _write(path: Path, header: list[str], rows: Iterable[Iterable[object]]) -> None:
    with clear_errors(path, "write"), open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _merge(scan: Scan, cells: list[np.ndarray], number: int) -> list[str]:
    """Put what the rows of one molecule say into its first; what was changed there."""
    rows = scan.repeated[number]
    first, changed = int(rows[0]), []
    targets = {name: i for i, name in enumerate(scan.labels.names)}
    for name, column in zip(scan.table.columns, cells, strict=True):
        if name == scan.config.smiles_column:
            continue
        if (i := targets.get(name)) is None:
            full = [row for row in rows.tolist() if column[row].strip()]
        elif scan.conflicting[number, i]:
            column[first], how = _settle(scan, column, rows, i)
            changed.append(f"{name}: {how}")
            continue
        else:
            full = rows[~np.isnan(scan.labels.values[rows, i])].tolist()
        if full and full[0] != first:
            column[first] = column[full[0]]
            changed.append(f"{name}: from {place(scan, full[0])}")
    return changed


def _settle(scan: Scan, column: np.ndarray, rows: np.ndarray, target: int) -> tuple[str, str]:
    """The cell for contradicting labels, and how it came about."""
    labels = scan.labels
    rows = rows[~np.isnan(labels.values[rows, target])]
    values = labels.values[rows, target]
    said = ", ".join(column[row].strip() for row in rows)
    if labels.kinds[target] != "regression":
        return "", f"{said} contradict each other: blanked"
    if np.ptp(values) > _MENDED * scan.sd[target]:
        return "", f"{said} are too far apart ({np.ptp(values) / scan.sd[target]:.2g} sd): blanked"
    median = f"{np.median(values):.10g}"
    return median, f"median {median} of {said}"


def _unlike(scan: Scan, first: int, row: int) -> str:
    """How the two are written, where that differs."""
    if scan.smiles[first].strip() == scan.smiles[row].strip():
        return ""
    return f", {scan.smiles[first].strip()}, written in another way"
