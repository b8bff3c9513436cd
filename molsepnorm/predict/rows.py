"""`predict_rows`: a table, and the same table with predictions."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    Added are <target>_pred for each target, <target>_prob_<class> for each class of a multi-class
    one, and `error`, the reason where a row failed. Numbers have six digits.

    Args:
        predictor: what predicts.
        chunks: the table in pieces, such as `tables.read_chunks` gives; or, where it
            is no file, columns of cells by their names. They are read as they are needed.
        out: where the CSV goes.
        smiles_column: name of the column of SMILES.
        source: the table's name in errors.
        on_invalid: keep a row that cannot be read, or fail at it.

    Returns:
        How many rows there were, and how many of them failed.

    Raises:
        ConfigError: no such column, or several, or the table has a column of a name to be added.
        DataError: a row cannot be read and `on_invalid` says fail.
    """
    task = predictor.model.task
    new = [name for table in task.tables(np.empty((0, task.outputs))) for name in table]
    added = [*new, _ERROR]
    writer = csv_writer(out, os.linesep)
    under_way: deque[Rows] = deque()

    def smiles() -> Iterator[str]:
        for number, chunk in enumerate(chunks):
            if not number:
                _check([str(name) for name in chunk], smiles_column, added, source)
            under_way.append(chunk)
            yield from chunk[smiles_column]

    rows = failed = 0
    for outcome in _as_long_as(under_way, smiles_column, predictor.outcomes(smiles())):
        chunk = under_way.popleft()
        if on_invalid == "fail":
            _fail(chunk, outcome.errors, source, rows)
        if not rows:
            writer.writerow([*chunk, *added])
        blank = np.array([error is not None for error in outcome.errors])
        predicted = [
            _cells(values, blank)
            for table in task.tables(outcome.values)
            for values in table.values()
        ]
        reasons = [error or "" for error in outcome.errors]
        cells = (column for _, column in chunk.items())  # several may have the same name
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
    """Outcomes put together, or cut, so that each is that of the first chunk, which the caller
    then takes away."""
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
    """As text; blank where a row failed, or where the network gave no number."""
    if values.dtype == object:
        cells = values.tolist()
    else:
        cells = [f"{value:.6g}" for value in values.tolist()]
        blank = blank | np.isnan(values)
    for row in np.flatnonzero(blank):
        cells[row] = ""
    return cells
