"""`Scan`: the rows of a table as training reads them, with what would stop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import parse_cells
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Rejected
from molsepnorm.data.datasets.duplicates import used_rows
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD
from molsepnorm.data.datasets.summary import TargetSummary
from molsepnorm.data.datasets.times import read_times
from molsepnorm.data.tables import locate

_SAME = 1e-6
"""Numbers that differ by no more than this share of their column's standard deviation agree."""


class Refusal(NamedTuple):
    """An error that would stop training."""

    what: Literal["targets", "weights", "features", "split"]
    reason: str
    options: Mapping[str, str] = {}
    """Options that avoid it."""


@dataclass(frozen=True, eq=False)
class Scan:
    """The R rows of a table as molecules and labels."""

    config: DataConfig
    table: pd.DataFrame
    """[R, columns]: every cell as text."""
    labels: Labels
    """[R, T]; T is 0 if no target can be read. Invalid labels count as missing. Numbers are on the
    scale that is learned."""
    invalid_labels: dict[str, np.ndarray]
    """Rows (int64) with an invalid label, for each configured target that has some."""
    nearly: dict[str, np.ndarray]
    """Rows (int64) of cells that are not numbers, for each column of mostly numbers."""
    canonical: tuple[str | None, ...]
    """Canonical SMILES of each row, standardised if structures are; None if it cannot be read."""
    rejected: tuple[Rejected, ...]
    """Rows that cannot be read, in order."""
    weights: np.ndarray | None
    """Weight of each row; None without such a column, or if training refuses it."""
    parts: dict[str, np.ndarray]
    """Rows (int64) of train, val and test; empty if there is no split."""
    refusals: tuple[Refusal, ...]

    @cached_property
    def smiles(self) -> list[str]:
        """SMILES of each row, as in the file."""
        return self.table[self.config.smiles_column].tolist()

    @cached_property
    def readable(self) -> np.ndarray:  # int64
        """Rows with a readable SMILES."""
        return np.flatnonzero(self.molecules >= 0)

    @cached_property
    def molecules(self) -> np.ndarray:  # int64 (R,)
        """Index of each row's molecule, in the order in which they first occur; -1 for none."""
        return molecule_numbers(self.canonical)

    @cached_property
    def conditions(self) -> np.ndarray:  # int64 (R,)
        """Index of each row's molecule with its feature columns and its time, numbered as
        `molecules`. Training refuses to merge rows of different times, see `data.duplicates`."""
        cells = [self.molecules]
        for name in self.config.feature_columns:
            numbers, bounds, _ = parse_cells(self.table[name])
            plain = np.isfinite(numbers) & (bounds == 0)
            texts = self.table[name].str.strip().to_numpy(dtype=object)
            cells.append(np.where(plain, numbers.astype(str), texts))  # 25 and 25.0 are equal
        if self.config.time_column is not None:
            column = self.table[self.config.time_column]
            times, _ = read_times(column.tolist())
            texts = column.str.strip().to_numpy(dtype=object)
            cells.append(np.where(np.isnan(times), texts, times.astype(str)))  # 2021 is 2021-01-01
        return self._numbered(cells)

    @cached_property
    def inputs(self) -> np.ndarray:  # int64 (R,)
        """Index of each row's `conditions` with its named split. Training refuses to merge rows of
        different splits, too."""
        if self.config.splits_column is None:
            return self.conditions
        words = self.table[self.config.splits_column].str.strip().str.lower()
        splits = [SPLIT_OF_WORD.get(word, word) for word in words]
        return self._numbered([self.conditions, np.array(splits, dtype=object)])

    def _numbered(self, cells: list[np.ndarray]) -> np.ndarray:  # int64 (R,)
        """Return the index of each row's combination of cells, -1 where there is no molecule."""
        found = pd.factorize(pd.MultiIndex.from_arrays(cells))[0] if cells[1:] else cells[0]
        return np.where(self.molecules < 0, -1, found).astype(np.int64)

    @cached_property
    def repeated(self) -> list[np.ndarray]:
        """Rows (int64, ascending) of each of the D molecules that have several with the same
        feature columns, time and named split."""
        rows = self.readable
        rows = rows[np.bincount(self.inputs[rows])[self.inputs[rows]] > 1]
        if not len(rows):
            return []
        rows = rows[np.argsort(self.inputs[rows], kind="stable")]
        return np.split(rows, np.flatnonzero(np.diff(self.inputs[rows])) + 1)

    @cached_property
    def merged(self) -> list[np.ndarray]:
        """The rows of each of `repeated` whose labels are merged, see `used_rows`."""
        is_labelled = ~np.isnan(self.labels.values).all(axis=1)
        return [used_rows(rows, is_labelled) for rows in self.repeated]

    @cached_property
    def bounds(self) -> np.ndarray:  # int8 (R, T)
        """See `Labels.bound_signs`."""
        return self.labels.bound_signs

    @cached_property
    def exact(self) -> np.ndarray:  # float64 (R, T)
        """The labels without bounds, NaN where missing."""
        return np.where(self.bounds, np.nan, self.labels.values)

    @cached_property
    def columns(self) -> np.ndarray:  # float64 (T, molecules)
        """Exact labels of the readable rows, by target."""
        return self.exact[self.readable].T

    @property
    def summaries(self) -> tuple[TargetSummary, ...]:
        """The labels of each target in the readable rows."""
        of = self.labels
        values = of.values[self.readable].T
        return tuple(map(TargetSummary.of, of.names, of.kinds, of.classes, values, self.columns))

    @cached_property
    def sd(self) -> np.ndarray:  # float64 (T,)
        """Standard deviation of each target's exact labels, NaN if there are none."""
        present = [column[~np.isnan(column)] for column in self.columns]
        return np.array([column.std() if len(column) else np.nan for column in present])

    @cached_property
    def spread(self) -> np.ndarray:  # float64 (D, T)
        """Range of the exact labels of each of `merged`, NaN if it has none."""
        if not self.repeated or not self.labels.names:
            return np.zeros((len(self.repeated), len(self.labels.names)))
        rows = np.concatenate(self.merged)
        molecule = np.repeat(np.arange(len(self.merged)), list(map(len, self.merged)))
        groups = pd.DataFrame(self.exact[rows]).groupby(molecule)
        return groups.max().to_numpy() - groups.min().to_numpy()

    @cached_property
    def conflicting(self) -> np.ndarray:  # bool (D, T)
        """True where the labels of one of `repeated` conflict."""
        numbers = np.array([kind == "regression" for kind in self.labels.kinds], dtype=bool)
        return self.spread > np.where(numbers, _SAME * np.nan_to_num(self.sd), 0.0)


def location(scan: Scan, row: int) -> str:
    """Return the position of a row in its file, such as "line 7"."""
    assert scan.config.table is not None
    return locate(scan.config.table, scan.table.index[row]).removeprefix(f"{scan.config.table}, ")


def molecule_numbers(canonical: Sequence[str | None]) -> np.ndarray:  # int64 (R,)
    """Return the same number for rows of the same molecule, and -1 for rows without one."""
    return pd.factorize(np.array(canonical, dtype=object))[0].astype(np.int64)
