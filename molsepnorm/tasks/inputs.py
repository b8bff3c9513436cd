"""Inputs beside the atoms and bonds: columns of the table, fingerprint counts and descriptors."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from typing import Any, Literal

import numpy as np

from molsepnorm.errors import ConfigError, DataError, counted, first_of

_MAX_WORDS = 1000
_MAX_NUMBER = 3.4e38
_MAX_ROUNDING = 1e-3  # of the numbers of a column, as a share of their range
_MARGIN = 0.1  # share of the range of a column that a number may be outside of it
WITH_COMMA = r"[-+]?[\d.]*,\d[\d.,]*"
"""Pattern of a number with a decimal comma or groups of thousands."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:\.0+)?")
_TOO_LARGE = "is beyond single precision, about ±3.4e38: use another unit or its logarithm"
MISSING = ("", "nan", "NaN", "NAN", "NA", "na", "N/A", "n/a", "null", "NULL", "<NA>", "#N/A")
"""Cells that are missing values, in any column. "Na" (a counter-ion) and "none" (no additive) can
be words."""
_MISSING_WORD = "missing"
_FEW_CODES = range(3, 21)
"""Numbers of different whole numbers that may be codes, such as those of assays."""
_WHOLE = re.compile(r"([+-]?\d+)(?:\.0+)?")
_CONSTANT = "{}: every row has '{}', so it cannot be an input: leave it out"

FeatureKind = Literal["number", "category", "molecule"]

MoleculeVectors = Callable[[str, Sequence[str]], tuple[np.ndarray, list[str | None]]]
"""Function from a column of molecules and its n cells to their vectors, float32 (n, w), and why a
cell has none."""
MAX_COMPONENTS = 32
"""Largest number of components of the vectors of a column of molecules."""


def require_same_order(**arguments: Any) -> None:
    """Raise a `ConfigError` if pandas objects have the same index in different orders, since rows
    are matched by position.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"smiles": ["C", "CC"], "pH": [7, 5]})
    >>> require_same_order(smiles=table["smiles"], columns=table.sort_values("pH"))
    Traceback (most recent call last):
    molsepnorm.errors.ConfigError: smiles and columns have the same index in different orders, ...
    """
    parts = [
        (f"{name}['{key}']", part)
        for name, argument in arguments.items()
        if isinstance(argument, Mapping)
        for key, part in argument.items()
    ]
    indices = [(n, a.index) for n, a in [*arguments.items(), *parts] if hasattr(a, "iloc")]
    for (one, first), (other, second) in combinations(indices, 2):
        if len(first) != len(second) or first.equals(second):
            continue
        with suppress(TypeError):  # labels of several types have no order
            if first.sort_values().equals(second.sort_values()):
                raise ConfigError(
                    f"{one} and {other} have the same index in different orders, and rows are "
                    f"matched by position: use {other}.loc[{one}.index]"
                )


def with_text_names(columns: Any) -> Any:
    """Return a DataFrame or a mapping of columns with names as text."""
    if isinstance(columns, Mapping):
        return {str(name): cells for name, cells in columns.items()}
    return columns.rename(columns=str) if hasattr(columns, "columns") else columns


def column_names(text: str) -> list[str]:
    """Return the columns that a text such as `solute,solvent` names; a name with a comma is quoted.

    >>> column_names("solute, solvent"), column_names('"SMILES, canonical"')
    (['solute', 'solvent'], ['SMILES, canonical'])
    """
    try:
        names = next(csv.reader([text], skipinitialspace=True), []) if "," in text else []
    except csv.Error:  # such as a line break in a name
        names = []
    return [name.strip() for name in names if name.strip()] or [text]


def names_text(names: Iterable[str]) -> str:
    """Return the text that `column_names` splits into these names.

    >>> names_text(["solute", "IC50, total"])
    'solute,"IC50, total"'
    """
    return ",".join(f'"{name}"' if "," in name else name for name in names)


def with_further_molecules(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of data with the columns after the first in `smiles_column`, a text or a
    list, as feature columns of molecules."""
    text, features = settings.get("smiles_column"), settings.get("feature_columns") or []
    names = column_names(text) if isinstance(text, str) else text
    if not isinstance(names, list | tuple) or not names:
        return settings
    further = [f"{name}:molecule" for name in names[1:]]
    if further and isinstance(features, list | tuple):
        features = [*features, *(name for name in further if name not in features)]
        settings = {**settings, "feature_columns": features}
    return {**settings, "smiles_column": names[0]}


@dataclass(frozen=True)
class FeatureColumn:
    """A column of a table that is an input: numbers, words, which are one-hot encoded, or SMILES of
    further molecules, whose vectors a model computes."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    name: str
    words: tuple[str, ...] = ()
    """The words of the training rows, sorted; empty for a column of numbers."""
    low: float | None = field(default=None, compare=False)
    """Smallest and largest number of the training rows; None for a column of words."""
    high: float | None = field(default=None, compare=False)
    fill: float | None = field(default=None, compare=False)
    """Mean of the training rows, for empty cells; None if none of these rows is empty. In a column
    of words the word "missing" stands for empty cells. In a column of molecules it is 1: the last
    component says that there is no molecule."""
    components: int = 0
    """Number of components of the vectors of a column of molecules; 0 for other columns."""

    @property
    def width(self) -> int:
        return self.components or len(self.words) or 1

    def __str__(self) -> str:
        if self.components:
            return "molecules"
        if self.words:
            return f"the words {first_of(self.words, 5)}"
        if self.low is None or self.high is None:
            return "numbers"
        return f"numbers from {self.low:g} to {self.high:g}"

    def about_missing(self, cells: Sequence[object]) -> str:
        """Return what empty cells are read as; "" if there are none."""
        if not (empty := sum(not cell_text(cell) for cell in cells)):
            return ""
        value = f"the word '{_MISSING_WORD}'" if self.words else "the mean of the training rows"
        value = "no molecule" if self.components else value
        return f"; {counted(empty, 'empty cell')} as {value}"

    @staticmethod
    def fit(
        name: str,
        cells: Sequence[object],
        where: Callable[[int], str],
        kind: FeatureKind | None = None,
    ) -> FeatureColumn:
        """Return the column of these cells, which are texts or numbers. Cells may be missing.

        Args:
            where: returns the location of a row for an error.
            kind: numbers, categories, which are words, or molecules; None if the cells decide.

        Raises:
            DataError: the cells are numbers and words, or whole numbers that may be codes; all are
                the same; or there are so many different words that they look like names.
        """
        filled = {row: text for row, cell in enumerate(cells) if (text := cell_text(cell))}
        missing = len(filled) < len(cells)
        if not filled:
            raise DataError(f"{where(0)}: all cells are empty, so it cannot be an input")
        if kind == "molecule":
            texts = {*filled.values()}
            if len(texts) + missing < 2:
                raise DataError(_CONSTANT.format(where(next(iter(filled))), *texts))
            count = max(1, min(MAX_COMPONENTS, len(texts) - 1)) + missing
            return FeatureColumn(name, fill=1.0 if missing else None, components=count)
        values = {row: None if kind == "category" else _number(t) for row, t in filled.items()}
        for row, value in values.items():
            if value is not None and not abs(value) < _MAX_NUMBER:
                raise DataError(f"{where(row)}: '{filled[row]}' {_TOO_LARGE}")
        numbers = [value for value in values.values() if value is not None]
        if kind == "number" or 0 < len(numbers) < len(filled):
            mostly_words = len(numbers) <= len(filled) / 2 and kind is None
            few, many = ("a", "words") if mostly_words else ("not a", "numbers")
            for row, value in values.items():
                if (value is None) != mostly_words:
                    raise DataError(
                        f"{where(row)}: '{filled[row]}' is {few} number, and most other cells are "
                        f"{many}. A feature column holds either numbers or words"
                    )
        commas = [row for row, text in filled.items() if re.fullmatch(WITH_COMMA, text)]
        if len(commas) > len(filled) / 2:
            raise DataError(
                f"{where(commas[0])}: '{filled[commas[0]]}' has a decimal comma or groups of "
                "thousands: if the comma is a decimal mark, --decimal ,"
            )
        first, texts = next(iter(filled)), {*filled.values()}
        words = {*map(_word, texts), *[_MISSING_WORD] * missing}
        if len({*numbers} or words) < 2:
            raise DataError(_CONSTANT.format(where(first), filled[first]))
        if not numbers and len(words) > min(_MAX_WORDS, max(10, len(filled) // 2)):
            raise DataError(
                f"{where(first)}: the column has {len(words):,} different words, such as "
                f"'{filled[first]}', which look like names. A column of words has at most "
                f"{_MAX_WORDS:,}, which many rows share; numbers have a decimal point"
            )
        if not numbers:
            return FeatureColumn(name, tuple(sorted(words)))
        codes = len(texts) in _FEW_CODES and 2 * len(texts) <= len(filled)
        if kind is None and codes and all(text.lstrip("+-").isdigit() for text in texts):
            raise DataError(
                f"{where(first)}: {len(texts)} different whole numbers may be quantities or codes, "
                f"such as those of assays: --feature-columns {name}:number or {name}:category"
            )
        every = np.array(numbers, dtype=np.float64)
        low, high = float(every.min()), float(every.max())
        rounding = float(np.abs(every - every.astype(np.float32)).max())
        if problem := too_close("numbers", low, high, rounding):
            raise DataError(f"{where(first)}: {problem}")
        fill = float(every.mean()) if missing else None
        return FeatureColumn(name, low=low, high=high, fill=fill)

    @staticmethod
    def joined(columns: Sequence[FeatureColumn]) -> FeatureColumn:
        """Return equal columns of several models as one, with their common range."""
        fills = [column.fill for column in columns if column.fill is not None]
        fill = sum(fills) / len(fills) if fills else None
        ends = [end for c in columns for end in (c.low, c.high) if end is not None]
        low, high = (min(ends), max(ends)) if len(ends) == 2 * len(columns) else (None, None)
        return replace(columns[0], low=low, high=high, fill=fill)

    def encode(self, cells: Sequence[object]) -> tuple[np.ndarray, list[str | None]]:
        """Return the inputs of rows, float32 (n, width), and why a row has none. The vectors of
        molecules, which `ExtraInputs.encode_columns` adds, are 0."""
        values = np.zeros((len(cells), self.width), dtype=np.float32)
        errors: list[str | None] = [None] * len(cells)
        index = {_word(cell_text(word)): column for column, word in enumerate(self.words)}
        for row, cell in enumerate(cells):
            text = cell_text(cell)
            number = _number(text)
            word = _word(text) if text else _MISSING_WORD
            if not text and self.fill is not None:
                values[row, -1] = self.fill
            elif word in index:
                values[row, index[word]] = 1
            elif not text:
                errors[row] = f"the model needs a value in column '{self.name}', which is empty"
            elif self.components:
                continue
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
    """The inputs of a model, or a part of it, beside the features of its featuriser."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    columns: tuple[FeatureColumn, ...] = ()
    morgan: int = 0
    """Number of Morgan counts; 0 for none."""
    descriptors: tuple[str, ...] = ()
    """Names of RDKit's descriptors."""
    pairs: int = 0
    """Number of atom-pair counts; 0 for none."""
    predicted: tuple[str, ...] = ()
    """Names of the predictions of auxiliary models: numbers that follow the feature columns, and
    are computed from the structures."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns that a table must have."""
        return tuple(column.name for column in self.columns)

    @property
    def declared(self) -> list[str]:
        """The feature columns as in the setting `data.feature_columns`."""
        return [f"{each.name}:molecule" if each.components else each.name for each in self.columns]

    @property
    def column_widths(self) -> tuple[int, ...]:
        """Number of inputs of each feature column, and 1 for each prediction."""
        return (*(column.width for column in self.columns), *[1] * len(self.predicted))

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Numbers of Morgan counts, descriptors, atom-pair counts, and inputs of columns with the
        predictions after them."""
        return self.morgan, len(self.descriptors), self.pairs, sum(self.column_widths)

    @property
    def width(self) -> int:
        return sum(self.widths)

    @staticmethod
    def joined(inputs: Sequence[ExtraInputs]) -> ExtraInputs:
        """Return everything that the parts of a model read. Different descriptors, feature columns
        or predictions are a `ConfigError`; a part may read the first of the columns only, unless
        predictions follow them."""
        columns = []
        predicted = {(each.predicted, each.names if each.predicted else ()) for each in inputs}
        if len(predicted) > 1:
            raise ConfigError("the auxiliary targets differ")
        for of_parts in zip_longest(*(part.columns for part in inputs)):
            same = [column for column in of_parts if column is not None]
            if any(column != same[0] for column in same):
                raise ConfigError("the feature columns differ in their names or words")
            columns.append(FeatureColumn.joined(same))
        descriptors = {each.descriptors for each in inputs} - {()}
        if len(descriptors) > 1:
            raise ConfigError("the descriptors differ")
        return ExtraInputs(
            tuple(columns),
            max((each.morgan for each in inputs), default=0),
            next(iter(descriptors), ()),
            max((each.pairs for each in inputs), default=0),
            next(iter(predicted), ((),))[0],
        )

    @property
    def of_molecules(self) -> np.ndarray:
        """bool (C,): which inputs of columns, with the predictions after them, are vectors of
        molecules. They are not standardised, since their lengths are a distance."""
        columns = [np.full(column.width, column.components > 0) for column in self.columns]
        return np.concatenate([*columns, np.zeros(len(self.predicted), dtype=bool)])

    def encode_columns(
        self,
        cells: Sequence[Sequence[object]],
        rows: int,
        vectors: MoleculeVectors | None = None,
    ) -> tuple[np.ndarray, list[str | None]]:
        """Return the inputs from each column's cells, float32 (rows, w), and why a row has none.
        Columns of molecules need their `vectors`."""
        values = [np.zeros((rows, 0), dtype=np.float32)]
        errors: list[str | None] = [None] * rows
        for column, of_column in zip(self.columns, cells, strict=True):
            encoded, wrong = column.encode(of_column)
            if column.components:
                assert vectors is not None
                filled = [i for i, cell in enumerate(of_column) if cell_text(cell)]
                texts = [cell_text(of_column[i]) for i in filled]
                encoded[filled], reasons = vectors(column.name, texts)
                for i, reason in zip(filled, reasons, strict=True):
                    wrong[i] = reason
            values.append(encoded)
            errors = [first or other for first, other in zip(errors, wrong, strict=True)]
        return np.concatenate(values, axis=1), errors

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Return bool (rows, columns): whether a number is outside the range of the training rows
        by more than a tenth of the range; False for words."""
        outside = np.zeros((len(values), len(self.columns)), dtype=bool)
        for i, column in enumerate(self.columns):
            if column.low is not None and column.high is not None:
                numbers = values[:, sum(self.column_widths[:i])]
                margin = _MARGIN * (column.high - column.low)
                outside[:, i] = (numbers < column.low - margin) | (numbers > column.high + margin)
        return outside


def too_close(what: str, low: float, high: float, rounding: float) -> str | None:
    """Return a message if single precision does not hold the differences of numbers, such as
    100000001 and 100000002."""
    if high <= low or rounding <= _MAX_ROUNDING * (high - low):
        return None
    return (
        f"the {what} are too large for their differences, which single precision does not hold. "
        f"Subtract a constant such as {(low + high) / 2:.12g} from all of them"
    )


NO_INPUTS = ExtraInputs()
"""The inputs of a model that reads only the features of its featuriser."""


def cell_text(cell: object) -> str:
    """Return the text of a cell without outer spaces, empty for a missing value.

    Booleans and times have one spelling, whatever the format of the table.

    >>> cell_text(True), cell_text("TRUE"), cell_text("2024-01-05T00:00:00.000")
    ('true', 'true', '2024-01-05')
    >>> cell_text("2024-01-05 09:30")
    '2024-01-05 09:30:00'
    """
    text = "" if cell is None else str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if time := _TIME.fullmatch(text):
        return f"{time[1]} {time[2]}{time[3] or ':00'}".removesuffix(" 00:00:00")
    return "" if text in MISSING else text


def _word(text: str) -> str:
    """Return the text of a category: 7 for 7.0, as pandas writes whole numbers among blanks."""
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if "_" in text or np.isnan(number) else number
