"""From a task to a part of the results, a Parquet file."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from molsepnorm.data.tables import positions
from molsepnorm.files.writing import replacing
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.screening.best import Ranking
from molsepnorm.predict.screening.filters import Filter
from molsepnorm.predict.screening.plan import Library, ScreenTask

if TYPE_CHECKING:
    import pandas as pd

PARTS, REJECTED = "parts", "rejected"
"""Folders of the results and of the rows that failed."""

_FILE, _ROW, _ERROR = ADDED = ("source_file", "source_row", "error")
"""Columns that are added: where a row comes from, and for a rejected row the reason."""

_KEY = b"molsepnorm"
"""Key of the counts of a part in the metadata of its file."""


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
        table = task.read(library.smiles_column, library.columns)
        columns, errors = self._predicted(table)
        carried = {name: table[name].to_numpy(dtype=object) for name in library.carried}
        numbers = {name: self._numbers(name, carried[name], errors) for name in library.numbers}
        _, position = positions(task.source.path, table.index.to_numpy(dtype=np.int64))
        origin = {_FILE: np.full(len(table), task.source.name, object), _ROW: position}
        keep = np.array([error is None for error in errors], dtype=bool)
        failed = np.flatnonzero(~keep)
        if self.chosen is not None:
            keep &= self.chosen({**carried, **numbers, **columns})
        rows, scores = np.flatnonzero(keep), None
        if self.ranking is not None:
            scores = self.ranking.scores(columns[self.ranking.column][rows])
            chosen = self.ranking.best(np.where(scores >= least, scores, np.nan))
            rows, scores = rows[chosen], scores[chosen]
        if len(failed):
            reasons = {_ERROR: np.array(errors, dtype=object)}
            self._write(REJECTED, task, {**carried, **origin, **reasons}, failed, {})
        counts = {"rows": len(table), "kept": len(rows), "rejected": len(failed)}
        self._write(PARTS, task, {**carried, **origin, **columns}, rows, counts)
        return Done(task.name, **counts, scores=scores)

    def _predicted(self, table: pd.DataFrame) -> tuple[dict[str, np.ndarray], list[str | None]]:
        """Return the columns of the predictor, and the reasons of rows that failed."""
        features = {name: table[name].tolist() for name in self.library.features} or None
        smiles = table[self.library.smiles_column].tolist()
        if not smiles:
            kinds = self.predictor.columns
            return {name: np.empty(0, kind) for name, kind in kinds.items()}, []
        outcomes = list(self.predictor.outcomes(smiles, features))
        tables = [
            {name: values for each in self.predictor.tables(one) for name, values in each.items()}
            for one in outcomes
        ]
        columns = {name: np.concatenate([each[name] for each in tables]) for name in tables[0]}
        return columns, list(chain.from_iterable(one.errors for one in outcomes))

    @staticmethod
    def _numbers(name: str, cells: np.ndarray, errors: list[str | None]) -> np.ndarray:
        """Return cells as numbers, with NaN for blanks; add the errors of other texts."""
        import pandas as pd

        values = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(dtype=np.float64)
        for row in np.flatnonzero(np.isnan(values)):
            if cells[row].strip():
                errors[row] = errors[row] or f"the filter needs a number in {name}: '{cells[row]}'"
        return values

    def _write(
        self,
        kind: str,
        task: ScreenTask,
        columns: Mapping[str, np.ndarray],
        rows: np.ndarray,
        counts: Mapping[str, int],
    ) -> None:
        _write_part(part_path(self.folder, kind, task.name), columns, rows, counts)


def part_path(folder: Path, kind: str, name: str) -> Path:
    """Return the file of a task in the folder of the parts or of the rejected rows."""
    return folder / kind / f"{name}.parquet"


def _write_part(
    path: Path, columns: Mapping[str, np.ndarray], rows: np.ndarray, counts: Mapping[str, int]
) -> None:
    """Write some rows of columns, with counts in the metadata of the file.

    Numbers are float64, or int64 for positions; NaN is null. Texts are never null.
    """
    arrow = importlib.import_module("pyarrow")
    arrays = {}
    for name, values in columns.items():
        chosen = values[rows]
        if values.dtype == object:
            arrays[name] = arrow.array(chosen, arrow.string())
        elif values.dtype.kind == "f":
            arrays[name] = arrow.array(chosen.astype(np.float64), from_pandas=True)
        else:
            arrays[name] = arrow.array(chosen)
    metadata = {_KEY: json.dumps(counts).encode()}
    table = arrow.table(arrays).replace_schema_metadata(metadata)
    sink = arrow.BufferOutputStream()
    importlib.import_module("pyarrow.parquet").write_table(table, sink)
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
                scores = ranking.scores(values.to_numpy())
        return Done(path.stem, counts["rows"], counts["kept"], counts["rejected"], scores)
    except (arrow.ArrowException, OSError, LookupError, TypeError, ValueError):
        return None
