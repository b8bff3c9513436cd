"""Targets whose labels are words, or numbers that stand for classes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import YES_NO, Column, Columns, word_of
from molsepnorm.errors import DataError, first_of
from molsepnorm.tasks.metrics import Kind

MAX_CLASSES = 100
"""A column with more distinct words holds names or notes, not classes."""
_FEW = 5
"""A warning names the classes with fewer rows."""
_MAX_SHOWN = 5
"""Maximum number of classes that the warning names."""


class Classes(NamedTuple):
    """A column as classes."""

    kind: Kind
    names: tuple[str, ...]
    labels: np.ndarray
    """float64 (rows,): index of the class; NaN if missing or unknown."""
    unknown: np.ndarray
    """Rows, int64, of cells that are none of the classes that the settings list."""
    warnings: list[str]


def read_classes(
    table: Columns, column: Column, kind: Kind | None, listed: Sequence[str]
) -> Classes:
    """Return a column as classes: binary if there are two, unless its kind is given. `listed` are
    the classes of the settings. Fewer than two classes, too many, or two spellings of one are a
    `DataError`."""
    name = column.name
    where = f"{table.source}, column '{name}'"
    text = whole(pd.Series(column.texts, dtype=object)).mask(column.is_blank)
    found = text.dropna().unique().tolist()
    named = whole(pd.Series(listed, dtype=object)).tolist()
    classes = tuple(named or sorted(found, key=_sort_key(found)))
    if kind != "multiclass" and len(found) == 2 and not named:
        classes = _negative_first(*classes)
    if len(classes) > MAX_CLASSES:
        raise DataError(
            f"{where}: {len(classes):,} different values, such as '{classes[0]}'; a multi-class "
            f"target has at most {MAX_CLASSES} classes"
        )
    if kind is None:
        kind = "binary" if len(classes) == 2 else "multiclass"
    if kind == "binary" and len(classes) > 2:
        raise DataError(
            f"{where}: a binary target has two classes, found {first_of(classes, _MAX_SHOWN)}. If "
            f"all are classes: --task-type {name}=multiclass"
        )
    if len(classes) < 2:
        raise DataError(
            f"{where}: a multi-class target needs two classes or more, found "
            f"{', '.join(classes) or 'none'}"
        )
    if not named:
        _require_one_spelling(table, column, text, classes)
    index = {each: float(number) for number, each in enumerate(classes)}
    labels = text.map(index).to_numpy(dtype=np.float64)[column.codes]
    unknown = np.flatnonzero(np.isnan(labels) & ~column.is_blank[column.codes])
    warnings = [] if named else _rare_classes(name, labels, classes)
    if kind == "binary" and not named:
        negative, positive = classes
        warnings.append(
            f"{name} is predicted as the probability of '{positive}'. For that of '{negative}': "
            f"{option('classes', name, [positive, negative])}"
        )
    return Classes(kind, classes, labels, unknown, warnings)


def _require_one_spelling(
    table: Columns, column: Column, text: pd.Series, classes: Sequence[str]
) -> None:
    first: dict[str, str] = {}
    for code, each in text.dropna().items():
        if (other := first.setdefault(word_of(each), each)) != each:
            row = int((column.codes == code).argmax())
            raise DataError(
                f"{table.cell(row, column.name)}: '{each}' and '{other}' would be two classes, and "
                "look like one. Write each class in one way, or list the classes if all are "
                f"different: {option('classes', column.name, [*classes])}"
            )


def _negative_first(one: str, other: str) -> tuple[str, str]:
    """Return two classes in the order negative, positive.

    A word such as "active" is positive, and one that negates the other is negative. Otherwise the
    first in alphabetical order is negative.

    >>> _negative_first("active", "decoy"), _negative_first("stable", "unstable")
    (('decoy', 'active'), ('unstable', 'stable'))
    """
    words = word_of(one), word_of(other)
    known = [YES_NO.get(word, "") for word in words]
    swap = known[0] == "1" or known[1] == "0" or words[1].endswith(words[0])
    return (other, one) if swap else (one, other)


def option(setting: str, name: str, value: Any) -> str:
    """Return the command-line option for a setting of a target, such as `limits`: --set if the name
    has a comma, or the setting no option of its own."""
    if "," in name or not isinstance(value, str):
        pair = json.dumps({name: value}, ensure_ascii=False)
        return shlex.join(["--set", f"data.{setting}={pair}"])
    return shlex.join([f"--{setting.replace('_', '-')}", f"{name}={value}"])


def whole(text: pd.Series) -> pd.Series:
    """Return the texts with 1 in place of 1.0, as pandas writes whole numbers among blanks."""
    return text.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)


def _rare_classes(name: str, labels: np.ndarray, classes: Sequence[str]) -> list[str]:
    """Return a warning about the classes with few of the labels (rows,), if there are any."""
    counts = {each: int((labels == i).sum()) for i, each in enumerate(classes)}
    rare = [f"{each} ({count})" for each, count in counts.items() if count < _FEW]
    if not rare:
        return []
    return [
        f"{name}: classes with fewer than {_FEW} rows: {first_of(rare, _MAX_SHOWN)}. "
        "A model hardly learns them: correct wrong spellings, or merge classes."
    ]


def _sort_key(values: Sequence[str]) -> Callable[[str], float | str]:
    """Return the sort key of classes: by value if all are numbers, otherwise by text."""
    try:
        [float(value) for value in values]
    except ValueError:
        return str
    return float
