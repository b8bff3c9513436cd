"""`Scan`: a table as training reads it, with what would stop training, and its repeated rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns, plain_numbers
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.duplicates import used_rows
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD
from molsepnorm.data.datasets.splitters import read_times
from molsepnorm.data.datasets.table import Rows, attempt, read_columns
from molsepnorm.data.tables.formats import row_word
from molsepnorm.molecules.encodings.encoding import EncodingSpec


@dataclass(frozen=True, eq=False)
class Scan:
    """The R rows of a table as molecules and labels."""

    rows: Rows
    """Invalid labels are missing."""
    dataset: Dataset
    """The molecules that can be read, with splits if there are any."""

    @staticmethod
    def of(table: Columns, encoding: EncodingSpec) -> Scan:
        """Read every row as training does, and collect errors in `rows.refusals`."""
        rows = Rows.read(table, np.float64)
        dataset = rows.encoded(encoding)
        if len(dataset.store):
            split = partial(rows.split, dataset)
            dataset = attempt(rows.refusals, "split", split, dataset)
        return Scan(rows, dataset)

    @property
    def config(self) -> DataConfig:
        """The settings of the data."""
        return self.rows.table.config

    @property
    def frame(self) -> pd.DataFrame:
        """[R, columns]: every cell as text."""
        return self.rows.table.frame

    @property
    def labels(self) -> Labels:
        """[R, T], on the scale that is learned; T is 0 if no target can be read."""
        return self.rows.labels

    @cached_property
    def smiles(self) -> list[str]:
        """SMILES of each row, as in the file."""
        return self.rows.table.cells(self.config.smiles_column)

    @property
    def readable(self) -> np.ndarray:  # int64
        """Rows with a readable SMILES."""
        return self.dataset.store.rows

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Rows (int64) of train, val and test; empty if there is no split."""
        return {name: self.readable[each] for name, each in self.dataset.splits.items()}

    @cached_property
    def molecules(self) -> pd.Series:
        """Number of each readable row's molecule, in the order of their first rows."""
        return pd.Series(pd.factorize(self.dataset.molecule_ids)[0], index=self.readable)

    @cached_property
    def conditions(self) -> pd.Series:
        """Number of each readable row's molecule, feature columns and time; 25 equals 25.0."""
        config = self.config
        numbers = {
            name: plain_numbers(self.frame[name], config.decimal) for name in config.features
        }
        if (name := config.time_column) is not None:
            numbers[name] = read_times(self.frame[name].tolist(), config.time_format)[0]
        keys = [self.molecules]
        for name, found in numbers.items():
            cells = self.frame[name].str.strip().to_numpy(dtype=object)
            keys.append(self._of_readable(np.where(np.isnan(found), cells, found.astype(str))))
        return _numbered(keys)

    def _of_readable(self, cells: np.ndarray) -> pd.Series:
        return pd.Series(cells[self.readable], index=self.readable)

    @cached_property
    def repeated(self) -> list[np.ndarray]:
        """Rows (int64, ascending) of each of the `conditions` that occur more than once, by split
        if splits are named."""
        keys = [self.conditions]
        if self.config.splits_column is not None:
            words = self.frame[self.config.splits_column].str.strip().str.lower()
            words = words.map(lambda word: SPLIT_OF_WORD.get(word, word))
            keys.append(self._of_readable(words.to_numpy(dtype=object)))
        groups = pd.Series(self.readable).groupby(_numbered(keys).to_numpy())
        return [rows.to_numpy() for _, rows in groups if len(rows) > 1]

    @cached_property
    def merged(self) -> list[np.ndarray]:
        """The rows of each of `repeated` whose labels are merged, see `used_rows`."""
        is_labelled = ~np.isnan(self.labels.values).all(axis=1)
        return [used_rows(rows, is_labelled) for rows in self.repeated]

    @cached_property
    def exact(self) -> np.ndarray:  # float64 (R, T)
        """The labels without bounds, NaN where missing."""
        return np.where(self.labels.bounds, np.nan, self.labels.values)

    def location(self, row: int) -> str:
        """Return the position of a row in its file, such as "line 7"."""
        return f"{row_word(str(self.config.table))} {self.frame.index[row]}"


def _numbered(keys: list[pd.Series]) -> pd.Series:
    """Return the number of each row's combination of keys, in the order of first rows."""
    frame = pd.concat(keys, axis=1, keys=range(len(keys)))
    return frame.groupby(list(frame.columns), sort=False).ngroup()


def scan_table(config: DataConfig, encoding: EncodingSpec) -> Scan:
    """Return the scan of `config.table`. A missing column or file is a `ConfigError`, a file that
    is no table a `DataError`."""
    return Scan.of(read_columns(config.model_copy(update={"on_invalid": "skip"})), encoding)
