"""Inputs beside the atoms and bonds: columns of the table, fingerprint counts and descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.tasks.rounding import offset_of, too_close

_MAX_WORDS = 1000
_MAX_NUMBER = 3.4e38
_MARGIN = 0.1  # share of the range of a column that a number may be outside of it
WITH_COMMA = r"[-+]?[\d.]*,\d[\d.,]*"
"""Pattern of a number with a decimal comma or groups of thousands."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.0+)?")
_TOO_LARGE = "is beyond single precision, about ±3.4e38: use another unit or its logarithm"
MISSING = ("", "nan", "NaN", "NAN", "NA", "na", "N/A", "n/a", "null", "NULL", "<NA>", "#N/A")
"""Cells that are missing values, in any column. "Na" (a counter-ion) and "none" (no additive) can
be words."""


def require_same_order(**arguments: Any) -> None:
    """Refuse pandas objects with one index in several orders, since rows are matched by position.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"smiles": ["C", "CC"], "pH": [7, 5]})
    >>> require_same_order(smiles=table["smiles"], columns=table.sort_values("pH"))
    Traceback (most recent call last):
    molsepnorm.errors.ConfigError: smiles and columns have the same index in different orders, ...

    Raises:
        ConfigError: the same index is in several orders.
    """
    parts = [
        (f"{name}['{key}']", part)
        for name, each in arguments.items()
        if isinstance(each, Mapping)
        for key, part in each.items()
    ]
    found = [(n, each.index) for n, each in [*arguments.items(), *parts] if hasattr(each, "iloc")]
    distinct: list[tuple[str, Any]] = []  # a name of each different index
    for other, second in found:
        for one, first in distinct:
            if first.equals(second):
                break
            if len(first) != len(second):
                continue
            try:
                same = first.sort_values().equals(second.sort_values())
            except TypeError:  # of several types, which have no order
                same = False
            if same:
                raise ConfigError(
                    f"{one} and {other} have the same index in different orders, and rows are "
                    f"matched by position: use {other}.loc[{one}.index]"
                )
        else:
            distinct.append((other, second))


def with_text_names(columns: Any) -> Any:
    """Return a DataFrame or a mapping of columns with their names as text: 0 becomes "0"."""
    if isinstance(columns, Mapping):
        return {str(name): cells for name, cells in columns.items()}
    return columns.rename(columns=str) if hasattr(columns, "columns") else columns


@dataclass(frozen=True)
class FeatureColumn:
    """A column of a table that is an input: numbers, or words, which are one-hot encoded."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    name: str
    words: tuple[str, ...] = ()
    """The words of the training rows, sorted; empty for a column of numbers."""
    low: float | None = field(default=None, compare=False)
    """Smallest number of the training rows; None for a column of words."""
    high: float | None = field(default=None, compare=False)
    """Largest number of the training rows; None for a column of words."""

    @property
    def width(self) -> int:
        """Number of inputs."""
        return len(self.words) or 1

    @staticmethod
    def fit(name: str, cells: Sequence[object], where: Callable[[int], str]) -> FeatureColumn:
        """Return the column with the kind, and the words or the range, of its cells.

        A missing value is an error. Its mean would be a guess about the experiment.

        Args:
            name: name of the column.
            cells: texts or numbers.
            where: returns the location of a row for an error.

        Raises:
            DataError: a cell is empty, the cells are numbers and words, all cells are the same, or
                there are so many different words that they look like names.
        """
        texts = [_text(cell) for cell in cells]
        if "" in texts:
            raise DataError(
                f"{where(texts.index(''))}: the cell is empty ({texts.count(''):,} of "
                f"{len(texts):,} are). An input needs a value in every row: fill it in, or remove "
                "the row"
            )
        values = [_number(text) for text in texts]
        for row, value in enumerate(values):
            if value is not None and not abs(value) < _MAX_NUMBER:
                raise DataError(f"{where(row)}: '{texts[row]}' {_TOO_LARGE}")
        is_number = [value is not None for value in values]
        numbers = sum(is_number)
        if 0 < numbers < len(texts):
            few, many = ("a", "words") if numbers <= len(texts) / 2 else ("not a", "numbers")
            row = is_number.index(few == "a")
            raise DataError(
                f"{where(row)}: '{texts[row]}' is {few} number, and most other cells are {many}. A "
                "feature column holds either numbers or words"
            )
        commas = [row for row, text in enumerate(texts) if re.fullmatch(WITH_COMMA, text)]
        if len(commas) > len(texts) / 2:
            raise DataError(
                f"{where(commas[0])}: '{texts[commas[0]]}' has a decimal comma or groups of "
                "thousands: if the comma is a decimal mark, --decimal ,"
            )
        words = tuple(sorted(set(texts)))
        if len({*values} if numbers else words) < 2:
            raise DataError(
                f"{where(0)}: every row has '{words[0]}', so it cannot be an input: leave it out"
            )
        if not numbers and len(words) > min(_MAX_WORDS, max(10, len(texts) // 2)):
            raise DataError(
                f"{where(0)}: the column has {len(words):,} different words, such as '{words[0]}', "
                "which look like names. A column of words has a few words that many rows share, at "
                f"most {_MAX_WORDS:,}; numbers are written with a decimal point"
            )
        if not numbers:
            return FeatureColumn(name, words)
        found = np.array(values, dtype=np.float64)
        low, high = float(found.min()), float(found.max())
        rounding = float(np.abs(found - found.astype(np.float32)).max())
        if (offset := offset_of(low, high, rounding)) is not None:
            raise DataError(f"{where(0)}: {too_close('numbers', f'{offset:.12g}')}")
        return FeatureColumn(name, low=low, high=high)

    @staticmethod
    def joined(columns: Sequence[FeatureColumn]) -> FeatureColumn:
        """Return equal columns of several models as one, with the range of all of them."""
        lows = [each.low for each in columns if each.low is not None]
        highs = [each.high for each in columns if each.high is not None]
        if len(lows) < len(columns) or len(highs) < len(columns):
            return replace(columns[0], low=None, high=None)
        return replace(columns[0], low=min(lows), high=max(highs))

    def encode(self, cells: Sequence[object]) -> tuple[np.ndarray, list[str | None]]:
        """Return the inputs of some rows, float32 (n, width), and why a row has none, or None."""
        values = np.zeros((len(cells), self.width), dtype=np.float32)
        errors: list[str | None] = [None] * len(cells)
        index = {_text(word): column for column, word in enumerate(self.words)}
        for row, cell in enumerate(cells):
            text = _text(cell)
            number = _number(text)
            if not text:
                errors[row] = f"the model needs a value in column '{self.name}', which is empty"
            elif text in index:
                values[row, index[text]] = 1
            elif self.words:
                errors[row] = (
                    f"'{text}' in column '{self.name}' is not a word that the model was trained "
                    f"with: {', '.join(self.words)}"
                )
            elif number is None:
                errors[row] = f"'{text}' in column '{self.name}' is not a number"
            elif not abs(number) < _MAX_NUMBER:
                errors[row] = f"'{text}' in column '{self.name}' {_TOO_LARGE}"
            else:
                values[row, 0] = number
        return values, errors


@dataclass(frozen=True)
class ExtraInputs:
    """The inputs of a model beside the features of its featuriser, in their order."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    columns: tuple[FeatureColumn, ...] = ()
    """Columns of the table."""
    morgan: int = 0
    """Number of Morgan counts; 0 for none."""
    descriptors: tuple[str, ...] = ()
    """Names of RDKit's descriptors."""
    pairs: int = 0
    """Number of atom-pair counts; 0 for none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def column_widths(self) -> tuple[int, ...]:
        """Number of inputs of each column."""
        return tuple(column.width for column in self.columns)

    @property
    def width(self) -> int:
        """Number of inputs."""
        return sum(self.column_widths) + self.morgan + len(self.descriptors) + self.pairs

    def is_start_of(self, other: ExtraInputs) -> bool:
        """Return whether these are the first of the other inputs, in the same order."""
        own, every = (
            [*each.columns, *["morgan"] * each.morgan, *each.descriptors, *["pair"] * each.pairs]
            for each in (self, other)
        )
        return own == every[: len(own)]

    def encode_columns(
        self, cells: Sequence[Sequence[object]], rows: int
    ) -> tuple[np.ndarray, list[str | None]]:
        """Return the inputs from each column's cells, float32 (rows, w), and why a row has none."""
        values = [np.zeros((rows, 0), dtype=np.float32)]
        errors: list[str | None] = [None] * rows
        for column, its in zip(self.columns, cells, strict=True):
            of_column, wrong = column.encode(its)
            values.append(of_column)
            errors = [first or other for first, other in zip(errors, wrong, strict=True)]
        return np.concatenate(values, axis=1), errors

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Return for each column which rows have a number outside the range of the training rows,
        by more than a tenth of the range.

        Returns:
            bool (rows, columns), False for columns of words.
        """
        found = np.zeros((len(values), len(self.columns)), dtype=bool)
        starts = np.cumsum([0, *self.column_widths])
        for index, (column, start) in enumerate(zip(self.columns, starts, strict=False)):
            if column.low is not None and column.high is not None:
                low, high = column.low, column.high
                margin = _MARGIN * (high - low)
                own = values[:, start]
                found[:, index] = (own < low - margin) | (own > high + margin)
        return found


NO_INPUTS = ExtraInputs()
"""The inputs of a model that reads nothing but the features of its featuriser."""


def _text(cell: object) -> str:
    """Return the text of a cell without outer spaces, empty for a missing value.

    Booleans and times have one spelling, whatever the format of the table.

    >>> _text(True), _text("TRUE"), _text("2024-01-05T00:00:00.000"), _text("2024-01-05 09:30")
    ('true', 'true', '2024-01-05', '2024-01-05 09:30:00')
    """
    text = "" if cell is None else str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if time := _TIME.fullmatch(text):
        return f"{time[1]} {time[2]}{time[3] or ':00'}".removesuffix(" 00:00:00")
    return "" if text in MISSING else text


def _number(text: str) -> float | None:
    """Return the number that a text is; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if "_" in text or np.isnan(number) else number
