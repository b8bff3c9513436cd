"""`scan_table`: a table as training reads it, with what would stop training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import marked_number, plain_numbers
from molsepnorm.data.datasets.columns import Columns, configured_kind
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.duplicates import used_rows
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.data.datasets.qualifiers import Qualifiers
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD
from molsepnorm.data.datasets.summary import TargetSummary
from molsepnorm.data.datasets.table import Refusal, Rows, attempt, read_columns, with_splits
from molsepnorm.data.datasets.times import read_times
from molsepnorm.data.tables import locate
from molsepnorm.molecules.encodings.encoding import EncodingSpec

_SAME = 1e-6
"""Numbers that differ by no more than this share of their column's standard deviation agree."""


@dataclass(frozen=True, eq=False)
class Scan:
    """The R rows of a table as molecules and labels."""

    config: DataConfig
    table: pd.DataFrame
    """[R, columns]: every cell as text."""
    dataset: Dataset
    """The molecules that can be read, with splits if there are any."""
    labels: Labels
    """[R, T]; T is 0 if no target can be read. Invalid labels, and those of weight 0, are missing.
    Numbers are on the scale that is learned."""
    qualifiers: Qualifiers
    marked: dict[str, dict[int, str]]
    """Cells as they are in the file, by target and row, for which `table` has the number."""
    weights: np.ndarray | None
    """Weight of each row; None without such a column, or if training refuses it."""
    refusals: tuple[Refusal, ...]

    @cached_property
    def smiles(self) -> list[str]:
        """SMILES of each row, as in the file."""
        return self.table[self.config.smiles_column].tolist()

    @property
    def readable(self) -> np.ndarray:  # int64
        """Rows with a readable SMILES."""
        return self.dataset.store.rows

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Rows (int64) of train, val and test; empty if there is no split."""
        return {name: self.readable[each] for name, each in self.dataset.splits.items()}

    @cached_property
    def molecules(self) -> np.ndarray:  # int64 (R,)
        """Index of each row's molecule, in the order in which they first occur; -1 for none."""
        return self._of_rows(pd.factorize(self.dataset.molecule_ids)[0], -1)

    @cached_property
    def sizes(self) -> np.ndarray:  # int64 (R,)
        """Number of atoms of each row, 0 without a molecule."""
        return self._of_rows(self.dataset.store.sizes, 0)

    def _of_rows(self, values: np.ndarray, missing: int) -> np.ndarray:
        found = np.full(len(self.table), missing, dtype=np.int64)
        found[self.readable] = values
        return found

    @cached_property
    def conditions(self) -> np.ndarray:  # int64 (R,)
        """Index of each row's molecule with its feature columns and its time, numbered as
        `molecules`. Training refuses to merge rows of different times, see `data.duplicates`."""
        cells = [self.molecules]
        for name in self.config.features:
            numbers = plain_numbers(self.table[name], self.config.decimal)
            texts = self.table[name].str.strip().to_numpy(dtype=object)
            cells.append(np.where(np.isnan(numbers), texts, numbers.astype(str)))  # 25.0 is 25
        if self.config.time_column is not None:
            column = self.table[self.config.time_column]
            times, _ = read_times(column.tolist(), self.config.time_format)
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
        """Rows (int64, ascending) of each of the D `inputs` that occur more than once."""
        rows = self.readable[np.argsort(self.inputs[self.readable], kind="stable")]
        groups = np.split(rows, np.flatnonzero(np.diff(self.inputs[rows])) + 1)
        return [each for each in groups if len(each) > 1]

    @cached_property
    def merged(self) -> list[np.ndarray]:
        """The rows of each of `repeated` whose labels are merged, see `used_rows`."""
        is_labelled = ~np.isnan(self.labels.values).all(axis=1)
        return [used_rows(rows, is_labelled) for rows in self.repeated]

    @cached_property
    def exact(self) -> np.ndarray:  # float64 (R, T)
        """The labels without bounds, NaN where missing."""
        return np.where(self.labels.bound_signs, np.nan, self.labels.values)

    @cached_property
    def columns(self) -> np.ndarray:  # float64 (T, molecules)
        """Exact labels of the readable rows, by target."""
        return self.exact[self.readable].T

    @property
    def summaries(self) -> tuple[TargetSummary, ...]:
        """The labels of each target in the readable rows."""
        values = self.labels.values[self.readable].T
        return tuple(map(TargetSummary.of, self.labels.targets, values, self.columns))

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
        quantities = [target.kind == "regression" for target in self.labels.targets]
        return self.spread > np.where(quantities, _SAME * np.nan_to_num(self.sd), 0.0)

    def location(self, row: int) -> str:
        """Return the position of a row in its file, such as "line 7"."""
        where = locate(str(self.config.table), self.table.index[row])
        return where.removeprefix(f"{self.config.table}, ")


def scan_table(config: DataConfig, encoding: EncodingSpec, read_marked: bool = False) -> Scan:
    """Read every row of `config.table` as training does, but go on after errors.

    The encoded molecules are in the cache then, so that training starts at once.

    Args:
        config: the table and its settings.
        encoding: the encoding of the store.
        read_marked: read invalid labels such as 45* as numbers, see `marked_number`.

    Raises:
        ConfigError: a column or file named in the settings is missing.
        DataError: the file is not a table.
        StorageError: it cannot be read, or the cache cannot be written.
    """
    table = read_columns(config.model_copy(update={"on_invalid": "skip"}))
    marked = _without_marks(table) if read_marked else {}
    rows = Rows.read(table, np.float64)
    dataset, refusals = rows.encoded(encoding), rows.refusals
    if len(dataset.store):
        dataset = attempt(refusals, "split", lambda: with_splits(dataset, table), dataset)
    found = rows.labels, table.qualifiers, marked, rows.weights
    return Scan(table.config, table.frame, dataset, *found, tuple(refusals))


def _without_marks(table: Columns) -> dict[str, dict[int, str]]:
    """Replace marked numbers of the named regression targets in the table; return the cells as they
    were, by target and row."""
    found: dict[str, dict[int, str]] = {}
    for name in table.targets or ():
        quantity = configured_kind(name, table.config) in (None, "regression")
        if name not in table.names or not quantity or not table.column(name).has_numbers:
            continue
        place = table.names.index(name)
        for row in table.column(name).bad_rows.tolist():
            cell = str(table.frame.iat[row, place])
            if (number := marked_number(cell)) is not None:
                found.setdefault(name, {})[row] = cell
                table.frame.iat[row, place] = number
    return found
