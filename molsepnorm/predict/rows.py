"""`predict_rows`: a table with predictions."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.writing import csv_writer
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.work import Outcome

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["predict_rows"]

Rows: TypeAlias = "pd.DataFrame | Mapping[Any, Sequence[str]]"

_ERROR = "error"


def predict_rows(
    predictor: Predictor,
    chunks: Iterable[Rows],
    out: TextIO,
    *,
    smiles_column: str,
    source: str,
    on_invalid: Literal["keep", "fail"] = "keep",
) -> tuple[int, int]:
    """Write a table with predictions, keeping its rows, their order and all columns.

    The new columns are <target>_pred for each target, <target>_prob_<class> for each class of a
    multi-class target, and `error`, the reason why a row failed. Numbers have six digits.

    Args:
        predictor: the predictor.
        chunks: parts of the table, from `tables.read_chunks` or as mappings from a column's name to
            its cells. They are read as they are needed.
        out: the file to write the CSV to.
        smiles_column: name of the column of SMILES.
        source: name of the table in errors.
        on_invalid: keep a row that fails, or raise an error.

    Returns:
        The number of rows, and the number of rows that failed.

    Raises:
        ConfigError: there is no such column, or several, or the table has one of the new columns.
        DataError: a row failed and `on_invalid` is fail.
    """
    task = predictor.model.task
    empty = Outcome(np.empty((0, task.outputs)), [])
    added = [*chain.from_iterable(empty.columns(task)), _ERROR]
    writer = csv_writer(out, os.linesep)
    pending: deque[Rows] = deque()

    def smiles() -> Iterator[str]:
        for number, chunk in enumerate(chunks):
            if not number:
                _check([str(name) for name in chunk], smiles_column, added, source)
            pending.append(chunk)
            yield from chunk[smiles_column]

    rows = failed = 0
    for outcome in _as_long_as(pending, smiles_column, predictor.outcomes(smiles())):
        chunk = pending.popleft()
        if on_invalid == "fail":
            _fail(chunk, outcome.errors, source, rows)
        if not rows:
            writer.writerow([*chunk, *added])
        blank = np.array([error is not None for error in outcome.errors])
        predicted = [
            _cells(values, blank)
            for columns in outcome.columns(task)
            for values in columns.values()
        ]
        reasons = [error or "" for error in outcome.errors]
        cells = (column for _, column in chunk.items())  # names may repeat
        writer.writerows(zip(*cells, *predicted, reasons, strict=True))
        rows += len(blank)
        failed += int(blank.sum())
    return rows, failed


def _check(columns: list[str], smiles_column: str, added: list[str], source: str) -> None:
    if columns.count(smiles_column) != 1:
        from molsepnorm.data.tables import require_column

        require_column(columns, smiles_column, source)
    if taken := [name for name in added if name in columns]:
        raise ConfigError(
            f"{source} has a column '{taken[0]}' already, which a prediction would replace: "
            "rename or remove it"
        )


def _as_long_as(
    chunks: deque[Rows], smiles_column: str, outcomes: Iterable[Outcome]
) -> Iterator[Outcome]:
    """Join and cut outcomes, so that each belongs to the first chunk; the caller removes that."""
    errors: list[str | None] = []
    parts: list[np.ndarray] = []
    for outcome in outcomes:
        errors += outcome.errors
        parts.append(outcome.values)
        while chunks and len(errors) >= (length := len(chunks[0][smiles_column])):
            values = np.concatenate(parts)
            yield Outcome(values[:length], errors[:length])
            parts, errors = [values[length:]], errors[length:]


def _fail(chunk: Rows, errors: list[str | None], source: str, before: int) -> None:
    for row, error in enumerate(errors):
        if error is None:
            continue
        if isinstance(chunk, Mapping):
            raise DataError(f"{source}, line {before + row + 1}: {error}")
        from molsepnorm.data.tables import locate

        raise DataError(f"{locate(source, chunk.index[row])}: {error}")


def _cells(values: np.ndarray, blank: np.ndarray) -> list[str]:
    """Return cells, empty for rows that failed and for NaN."""
    if values.dtype == object:
        cells = values.tolist()
    else:
        cells = [f"{value:.6g}" for value in values.tolist()]
        blank = blank | np.isnan(values)
    for row in np.flatnonzero(blank):
        cells[row] = ""
    return cells
