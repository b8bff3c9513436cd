"""From a task to a part of the results, and from all parts to the best rows."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.predict.output import open_table
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.screening.filters import Filter
from molsepnorm.predict.screening.library import Library, ScreenTask
from molsepnorm.predict.tables import ERROR, cells

PARTS, REJECTED, TOP = "parts", "rejected", "top"
"""Folders of the results and of the rows that failed, and name of the files of the best rows."""

_FILE, _ROW = "source_file", "source_row"
ADDED = (_FILE, _ROW, ERROR)
"""Columns that are added: where a row comes from, and for a rejected row the reason."""

_KEY = b"molsepnorm"  # of the counts of a part in the metadata of its file
_ROWS = 100_000  # rows that are gathered beside the best ones before the others are dropped


@dataclass(frozen=True)
class Ranking:
    """Keeps the best rows by a column of numbers."""

    column: str
    count: int
    ascending: bool = False
    """The smallest values are the best."""

    def __str__(self) -> str:
        return f"{self.column}, {'smallest' if self.ascending else 'largest'} first"

    def scores(self, values: pd.Series) -> np.ndarray:  # float64 (n,)
        """Return numbers that are larger for better rows, and NaN where the value is missing."""
        numbers = values.to_numpy(dtype=np.float64)
        return -numbers if self.ascending else numbers

    def best(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the best rows, the best first; of equal rows, the first are kept."""
        ordered = table.dropna(subset=[self.column]).sort_values(
            self.column, ascending=self.ascending, kind="stable"
        )
        return ordered.head(self.count)


@dataclass(frozen=True)
class Done:
    """A finished part."""

    name: str
    """Name of the task."""
    rows: int
    """Number of rows of the task."""
    kept: int
    """Number of rows of the part."""
    rejected: int
    """Number of rows that failed."""
    scores: np.ndarray | None = None
    """float64 [kept]: see `Ranking.scores`; None without a ranking."""


@dataclass(frozen=True)
class Work:
    """Predicts the rows of a task, and writes those that pass the filter and the ranking.

    The part is written last, and as a whole: where it exists, the task is finished.
    """

    predictor: Predictor
    library: Library
    folder: Path
    """The absolute path of the output."""
    chosen: Filter | None = None
    ranking: Ranking | None = None

    def __call__(self, job: tuple[ScreenTask, float]) -> Done:
        """Do a task.

        Args:
            job: the task, and the score below which no row can be among the best.
        """
        task, least = job
        library = self.library
        table = task.read(library)
        features = {name: table[name].tolist() for name in library.features} or None
        found = self.predictor.to_frame(table[library.smiles_column].tolist(), features)
        errors = found.pop(ERROR)
        rows = table.index.to_numpy(dtype=np.int64)
        table = table[[*library.carried]].reset_index(drop=True)
        table[_FILE], table[_ROW] = task.source.name, rows
        numbers = {}
        for name in self.chosen.numbers if self.chosen else ():
            numbers[name] = pd.to_numeric(table[name], errors="coerce").astype(np.float64)
            for row in np.flatnonzero(numbers[name].isna() & (table[name].str.strip() != "")):
                if errors[row] is None:
                    text = table[name][row]
                    errors[row] = f"the filter needs a number in {name}: '{text}'"
        valid = errors.isna()
        kept = pd.concat([table, found.drop(columns="smiles")], axis=1)[valid]
        if self.chosen is not None:
            kept = kept[self.chosen(kept.assign(**numbers))]
        scores = None
        if self.ranking is not None:
            kept = kept[self.ranking.scores(kept[self.ranking.column]) >= least]
            kept = self.ranking.best(kept).sort_index()
            scores = self.ranking.scores(kept[self.ranking.column])
        counts = {"rows": len(table), "kept": len(kept), "rejected": int((~valid).sum())}
        if counts["rejected"]:
            rejected = table.assign(**{ERROR: errors})[~valid]
            _write(part_path(self.folder, REJECTED, task.name), rejected, {})
        _write(part_path(self.folder, PARTS, task.name), kept, counts)
        return Done(task.name, **counts, scores=scores)


def part_path(folder: Path, kind: str, name: str) -> Path:
    """Return the file of a task in the folder of the parts or of the rejected rows."""
    return folder / kind / f"{name}.parquet"


def _write(path: Path, table: pd.DataFrame, counts: Mapping[str, int]) -> None:
    """Write a table as Parquet, with counts in the metadata of the file.

    Numbers are float64, or int64 for positions. Texts are never null.
    """
    arrow = importlib.import_module("pyarrow")
    kinds = {"f": arrow.float64(), "i": arrow.int64(), "b": arrow.bool_()}
    types = {name: kinds.get(column.dtype.kind, arrow.string()) for name, column in table.items()}
    texts = [name for name, kind in types.items() if kind == arrow.string()]
    table = table.assign(**{name: table[name].fillna("") for name in texts})
    content = arrow.Table.from_pandas(table, arrow.schema(types.items()), preserve_index=False)
    metadata = {_KEY: json.dumps(counts)} if counts else None
    sink = arrow.BufferOutputStream()
    write = importlib.import_module("pyarrow.parquet").write_table
    write(content.replace_schema_metadata(metadata), sink)
    with replacing(path) as scratch:
        scratch.write_bytes(sink.getvalue())


def read_counts(path: Path, ranking: Ranking | None) -> Done | None:
    """Return what a part says of its task; None if the file is damaged."""
    arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    try:
        with open(path, "rb") as opened:
            file = parquet.ParquetFile(opened)
            counts: dict[str, Any] = json.loads(file.schema_arrow.metadata[_KEY])
            scores = None
            if ranking is not None:
                values = file.read([ranking.column], use_threads=False).column(0)
                scores = ranking.scores(values.to_pandas())
        return Done(path.stem, counts["rows"], counts["kept"], counts["rejected"], scores)
    except (arrow.ArrowException, OSError, LookupError, TypeError, ValueError):
        return None


def write_best(
    parts: Iterable[Path], ranking: Ranking, folder: Path, smiles_column: str, digits: int
) -> int:
    """Write `top.parquet` and `top.csv`, the best rows of all parts with the best first.

    Of rows with the same value, those of the first parts come first. Memory holds the best rows and
    some more.

    Args:
        parts: files in the order of the library.
        ranking: the ranking.
        folder: the folder of the two files.
        smiles_column: name of the column of SMILES.
        digits: significant digits of numbers in `top.csv`.

    Returns:
        The number of rows.
    """
    gathered: list[pd.DataFrame] = []
    for path in parts:
        with clear_errors(path, "read"), open(path, "rb") as file:
            gathered.append(pd.read_parquet(file))
        if sum(map(len, gathered)) > ranking.count + _ROWS:
            gathered = [ranking.best(pd.concat(gathered, ignore_index=True)).sort_index()]
    if not gathered:
        return 0
    best = ranking.best(pd.concat(gathered, ignore_index=True))
    _write(folder / f"{TOP}.parquet", best, {})
    numbers = {name for name, column in best.items() if column.dtype.kind in "fi"}
    place = best.columns.get_loc(smiles_column)
    with open_table(folder / f"{TOP}.csv", [*best.columns], numbers, place) as write:
        for row in cells(best, digits):
            write(row)
    return len(best)
