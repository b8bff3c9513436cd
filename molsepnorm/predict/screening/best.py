"""The best rows of a screen."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.predict.output import open_table
from molsepnorm.predict.rows import cells

TOP = "top"
"""Name of the files of the best rows, without its end."""

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

    def scores(self, values: np.ndarray) -> np.ndarray:  # float64 (n,)
        """Return numbers that are larger for better rows, and NaN where the value is missing."""
        values = values.astype(np.float64)
        return -values if self.ascending else values

    def best(self, scores: np.ndarray) -> np.ndarray:  # int64 (k,)
        """Return the indices of the best rows in their order; of equal rows, the first are kept."""
        rows = np.flatnonzero(~np.isnan(scores))
        if len(rows) > self.count:
            best_first = np.argsort(-scores[rows], kind="stable")
            rows = np.sort(rows[best_first[: self.count]])
        return rows


class Best:
    """The scores of the best rows so far.

    Once there are as many as the ranking keeps, a row with a lower score than all of them is never
    among the best, and is left out of its part.
    """

    def __init__(self, ranking: Ranking | None) -> None:
        self._count = ranking.count if ranking else 0
        self._scores = np.empty(0)

    def add(self, scores: np.ndarray | None) -> None:
        """Add the scores of a part, float64 [n]; None without a ranking."""
        if scores is not None and len(scores):
            self._scores = np.sort(np.concatenate([self._scores, scores]))[-self._count :]

    @property
    def least(self) -> float:
        """The score below which no row can be among the best."""
        return float(self._scores[0]) if 0 < self._count <= len(self._scores) else -math.inf


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
    arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    gathered: list[Any] = []
    for path in parts:
        with clear_errors(path, "read"), open(path, "rb") as file:
            gathered.append(parquet.read_table(file, use_threads=False))
        if sum(map(len, gathered)) > ranking.count + _ROWS:
            gathered = [_best_of(arrow.concat_tables(gathered), ranking)]
    if not gathered:
        return 0
    table = _best_of(arrow.concat_tables(gathered), ranking).replace_schema_metadata(None)
    scores = _scores(table, ranking)
    table = table.take(np.argsort(-scores, kind="stable"))
    with replacing(folder / f"{TOP}.parquet") as scratch, open(scratch, "wb") as file:
        parquet.write_table(table, file)
    frame = table.to_pandas()
    numbers = {name for name, column in frame.items() if column.dtype.kind in "fi"}
    failures = [None] * len(frame)
    texts = [
        map(str, column) if column.dtype.kind == "i" else cells(_plain(column), failures, digits)
        for _, column in frame.items()
    ]
    place = frame.columns.get_loc(smiles_column)
    with open_table(folder / f"{TOP}.csv", [*frame.columns], numbers, place) as write:
        for row in zip(*texts, strict=True):
            write(row)
    return len(table)


def _plain(column: Any) -> np.ndarray:
    """Return a column of numbers, texts or booleans as an array for `cells`."""
    return column.to_numpy(dtype=column.dtype if column.dtype.kind in "fb" else object)


def _best_of(table: Any, ranking: Ranking) -> Any:
    return table.take(ranking.best(_scores(table, ranking)))


def _scores(table: Any, ranking: Ranking) -> np.ndarray:
    return ranking.scores(table.column(ranking.column).to_numpy())
