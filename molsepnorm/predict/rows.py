"""`predict_rows`: a table with predictions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.tables import check_output
from molsepnorm.molecules.featurize.cxsmiles import announce_losses
from molsepnorm.predict.arguments import require_feature_columns
from molsepnorm.predict.output import open_table
from molsepnorm.predict.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "pd.DataFrame | Mapping[Any, Sequence[Any]]"

ERROR = "error"
"""Name of the column with the reasons why rows failed."""

_ALL_DIGITS = 9  # which identify every float32


def predict_rows(
    predictor: Predictor,
    chunks: Iterable[Rows],
    out: Path | TextIO,
    *,
    smiles_column: str,
    source: str,
    on_invalid: Literal["keep", "fail"] = "keep",
    digits: int | None = None,
    overwrite: bool = False,
) -> tuple[int, int]:
    """Write a table with predictions, keeping its rows, their order and all columns.

    The new columns are <target>_pred for each target, its value on the scale that is learned for a
    target with a transform (such as <target>_pic50_pred), <target>_prob_<class> for each class of a
    multi-class target, <target>_spread if the model has several networks (see `Prediction`), those
    of `uncertainty_columns` and `domain_columns` if the predictor has them, and `error`, the reason
    why a row failed.

    Args:
        predictor: the predictor.
        chunks: parts of the table, as DataFrames such as those of `tables.read_chunks`, or as
            mappings from a column's name to its cells. They are read as they are needed. Cells are
            written as text, and missing ones are empty.
        out: the file, whose name chooses the format (see `output.open_table`), or an open text file
            for CSV.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        on_invalid: keep a row that fails, or raise an error.
        digits: significant digits of numbers; by default six, or more for a target whose values
            differ little for their size (`Target.digits`), and in Parquet nine, which are all
            digits of float32.
        overwrite: replace columns of the table that have the name of a new column.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: the model was pre-trained without targets; there is no such column, or several;
            a feature column of the model is missing; the table has one of the new columns and
            `overwrite` is False; or `out` cannot be written in the format of its name.
        DataError: a row failed and `on_invalid` is fail.
        StorageError: `out` cannot be written.
    """
    predictor.model.require_targets()
    names = predictor.model.inputs.names
    table = TableRows(chunks, smiles_column, source, on_invalid, names)
    if table.columns is None:
        return 0, 0
    columns = predictor.columns
    added = [*columns, ERROR]
    table.check(added, overwrite)
    numbers = {name for name, dtype in columns.items() if dtype.kind == "f"}
    place = table.columns.index(smiles_column)
    if digits is None:
        is_parquet = isinstance(out, Path) and check_output(out) == ".parquet"
        digits = _ALL_DIGITS if is_parquet else predictor.model.task.digits
    with open_table(out, [*table.header, *added], numbers, place) as write:
        for outcome in predictor.outcomes(*table.read()):
            tables = [columns.values() for columns in predictor.tables(outcome)]
            every = chain.from_iterable(tables)
            predicted = [cells(each, outcome.errors, digits) for each in every]
            for error, *new in zip(outcome.errors, *predicted, strict=True):
                write([*table.take(error), *new, error or ""])
    return table.rows, table.failed


class TableRows:
    """The rows of a table, kept until their results are there.

    Args:
        chunks: see `predict_rows`.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        on_invalid: keep a row that fails, or raise an error.
        features: the feature columns of the model.
    """

    def __init__(
        self,
        chunks: Iterable[Rows],
        smiles_column: str,
        source: str,
        on_invalid: Literal["keep", "fail"],
        features: Sequence[str] = (),
    ) -> None:
        chunks = iter(chunks)
        first = next(chunks, None)
        self.columns = None if first is None else [str(name) for name in first]
        """Names of the columns; None if there are no chunks."""
        self.header = self.columns or []
        """Names of the columns in the file, where that of SMILES may have another."""
        if first is not None and not isinstance(first, Mapping):
            from molsepnorm.data.tables import names_in_file

            self.header = names_in_file(first)
        self.rows = self.failed = 0
        """Number of rows taken so far, and of those that failed."""
        self._chunks = chunks if first is None else chain([first], chunks)
        self._smiles_column, self._source, self._on_invalid = smiles_column, source, on_invalid
        self._features = features
        self._kept = list(range(len(self.header)))  # indices of the columns that stay
        self._pending: deque[tuple[Any, tuple[str, ...]]] = deque()  # label and cells of each row

    def check(self, added: Sequence[str], overwrite: bool | None = None) -> None:
        """Check that there are the columns of SMILES and of features, and none to be added.

        Args:
            added: names of the columns to be added.
            overwrite: leave those out that the table has already; None if that cannot be chosen.

        Raises:
            ConfigError: there is no such column, or several, or one is to be added.
        """
        columns = self.columns or []
        for name in (self._smiles_column, *self._features):
            if columns.count(name) > 1 or (name == self._smiles_column and name not in columns):
                from molsepnorm.data.tables import require_column

                require_column(columns, name, self._source)
        if self._features:
            require_feature_columns(self._features, columns, self._source)
        taken = [name for name in added if name in columns]
        if taken and not overwrite:
            option = "" if overwrite is None else ", or replace it (--overwrite-columns)"
            raise ConfigError(
                f"{self._source} has a column '{taken[0]}' already, which a new column would "
                f"replace: rename or remove it{option}"
            )
        self._kept = [number for number, name in enumerate(columns) if name not in taken]
        self.columns = [columns[number] for number in self._kept]
        self.header = [self.header[number] for number in self._kept]

    def read(self) -> tuple[Iterator[str], dict[str, Iterator[str]] | None]:
        """Return the SMILES and the feature columns; chunks are read as they are needed."""
        if not self._features:
            return _column(self._taken(), self._smiles_column), None
        names = (self._smiles_column, *self._features)
        smiles, *features = map(_column, tee(self._taken(), len(names)), names)
        return smiles, dict(zip(self._features, features, strict=True))

    def _taken(self) -> Iterator[Any]:
        """Yield the chunks, after their cells were kept for `take`."""
        said: set[str] = set()
        for chunk in self._chunks:
            if isinstance(chunk, Mapping):  # `read_chunks` announces those of files
                announce_losses(map(_text, chunk[self._smiles_column]), self._source, said)
            labels = repeat(None) if isinstance(chunk, Mapping) else chunk.index
            texts = (map(_text, column) for _, column in chunk.items())  # names may repeat
            cells = zip(*texts, strict=True)
            self._pending.extend(zip(labels, cells))  # noqa: B905 - `repeat` has no end
            yield chunk

    def take(self, error: str | None) -> tuple[str, ...]:
        """Return the cells of the next row, given the reason why it failed, or None.

        Raises:
            DataError: it failed and `on_invalid` is fail.
        """
        label, cells = self._pending.popleft()
        self.rows += 1
        if error is not None:
            self.failed += 1
            if self._on_invalid == "fail":
                raise DataError(f"{_location(self._source, label, self.rows)}: {error}")
        return tuple(cells[number] for number in self._kept)


def _text(cell: object) -> str:
    """Return a cell as text, empty for a missing value."""
    if isinstance(cell, str):
        return cell
    import pandas as pd

    return "" if pd.isna(cell) is True else str(cell)


def _column(chunks: Iterable[Any], name: str) -> Iterator[str]:
    for chunk in chunks:
        yield from chunk[name]


def _location(source: str, label: Any, line: int) -> str:
    """Return the location of a row for an error."""
    if not isinstance(label, int):
        return f"{source}, line {line}"
    from molsepnorm.data.tables import locate

    return locate(source, label)


def cells(values: np.ndarray, errors: Sequence[str | None], digits: int) -> list[str]:
    """Return cells: empty for rows that failed and for NaN, numbers with `digits` digits."""
    if values.dtype == object:
        cells = values.tolist()
    elif values.dtype == bool:
        cells = ["yes" if value else "no" for value in values.tolist()]
    else:
        cells = ["" if value != value else f"{value:.{digits}g}" for value in values.tolist()]
    return ["" if error is not None else cell for cell, error in zip(cells, errors, strict=True)]
