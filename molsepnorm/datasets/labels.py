"""Columns of text to labels: which columns are targets, what kind each is, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.datasets.cells import (
    BLANKS,
    all_numbers,
    kind_of,
    look_like_classes,
    looks_like_numbering,
    mostly_numbers,
    parse_numbers,
)
from molsepnorm.datasets.config import DataConfig
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.metrics import Kind
from molsepnorm.tables import locate, require_column

__all__ = ["MAX_CLASSES", "Labels", "read_labels", "read_weights"]

MAX_CLASSES = 100
"""More distinct words in a column are taken for names or remarks, not for classes."""


@dataclass(frozen=True)
class Labels:
    """What is to be predicted of each row."""

    names: tuple[str, ...]
    """T targets, by their columns."""
    kinds: tuple[Kind, ...]
    """For each target."""
    classes: tuple[tuple[str, ...], ...]
    """For each target the names of its classes; empty unless it is multi-class."""
    values: np.ndarray
    """float64 [rows, T]: numbers, 0 or 1, or the index of a class; NaN where missing."""
    remarks: tuple[str, ...] = ()
    """What was guessed, for a person."""


def read_labels(table: pd.DataFrame, config: DataConfig) -> Labels:
    """The labels of a table of text, as the configuration asks or as they look.

    Raises:
        ConfigError: a column is missing, named twice, or there is none of numbers.
        DataError: a cell does not fit its target.
    """
    assert config.table is not None
    names, remarks = _choose(table, config)
    asked = _asked_kinds(names, config)
    columns = [_column(table, name, asked[name], config) for name in names]
    few = [
        name
        for name, column in zip(names, columns, strict=True)
        if asked[name] is None and _few_whole_numbers(column)
    ]
    if few:
        remarks.append(
            f"{', '.join(few)}: few whole numbers, taken for quantities. If they stand for "
            f"classes: --task-type {few[0]}=multiclass"
        )
    return Labels(
        names,
        tuple(column.kind for column in columns),
        tuple(column.classes for column in columns),
        np.stack([column.values for column in columns], axis=1),
        tuple(remarks),
    )


def read_weights(table: pd.DataFrame, config: DataConfig) -> np.ndarray | None:  # (rows,)
    """How much each row counts in the loss, 1 where the cell is blank; None without such a column.

    Raises:
        ConfigError: the column is missing.
        DataError: a weight is no number, or negative, or all are 0.
    """
    name, path = config.weight_column, config.table
    if name is None:
        return None
    assert path is not None
    require_column(table.columns, name, path)
    weights = np.nan_to_num(
        _numbers(table, name, path, "weights are numbers, or blank for 1"), nan=1
    )
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise DataError(
            f"{locate(path, table.index[row])}, column '{name}': the weight {weights[row]:g} is "
            "negative; weights are 0 or more"
        )
    if not weights.any():
        raise DataError(f"{path}, column '{name}': all weights are 0, so no row would count")
    return weights


@dataclass(frozen=True)
class _Column:
    kind: Kind
    values: np.ndarray
    classes: tuple[str, ...] = ()


def _choose(table: pd.DataFrame, config: DataConfig) -> tuple[tuple[str, ...], list[str]]:
    """The targets, and what to say of them where they were guessed."""
    assert config.table is not None
    for name in config.ignore_columns:
        require_column(table.columns, name, config.table)
    taken = (config.smiles_column, config.weight_column, config.splits_column)
    if config.targets:
        for name in config.targets:
            require_column(table.columns, name, config.table)
            if name in (*taken, *config.ignore_columns):
                raise ConfigError(f"column '{name}' cannot be a target and something else as well")
        if len(set(config.targets)) < len(config.targets):
            raise ConfigError(f"a target is named twice: {', '.join(config.targets)}")
        return tuple(config.targets), []
    candidates = [name for name in table.columns if name not in (*taken, *config.ignore_columns)]
    asked = {*config.classes, *(config.task_type if isinstance(config.task_type, dict) else ())}
    numeric = [name for name in candidates if name in asked or all_numbers(table[name])]
    numbering = [
        name for name in numeric if name not in asked and looks_like_numbering(name, table[name])
    ]
    names = [name for name in numeric if name not in numbering]
    nearly = [name for name in candidates if name not in numeric and mostly_numbers(table[name])]
    left_out = []
    if numbering:
        left_out.append(
            f"Not taken for targets: {', '.join(numbering)} (they look like numbering)."
        )
    if nearly:
        _, bad = parse_numbers(table[nearly[0]])
        left_out.append(
            f"Not taken for targets: {', '.join(nearly)} (some cells are no numbers, such as "
            f"'{table.loc[bad, nearly[0]].iloc[0]}')."
        )
    if not names:
        raise ConfigError(
            f"{config.table} has no column of numbers to predict beside "
            f"'{config.smiles_column}'. Columns: {', '.join(table.columns)}. Name one with "
            + " ".join(["--targets.", *left_out]).rstrip(".")
        )
    remark = "The targets are all columns of numbers; name others with --targets."
    return tuple(names), [remark, *left_out]


def _asked_kinds(names: Sequence[str], config: DataConfig) -> dict[str, Kind | None]:
    asked = config.task_type
    for option, keys in (
        ("task_type", asked if isinstance(asked, dict) else {}),
        ("classes", config.classes),
    ):
        for name in keys:
            if name not in names:
                raise ConfigError(
                    f"data.{option} names '{name}', which is no target. {did_you_mean(name, names)}"
                )
    kinds = {name: asked.get(name) if isinstance(asked, dict) else asked for name in names}
    for name in config.classes:
        if kinds[name] not in (None, "multiclass"):
            raise ConfigError(
                f"data.classes names those of '{name}', which data.task_type calls {kinds[name]}: "
                "keep one"
            )
    return kinds


def _column(table: pd.DataFrame, name: str, kind: Kind | None, config: DataConfig) -> _Column:
    assert config.table is not None
    if kind is None:
        words = name in config.classes or look_like_classes(table[name])
        kind = "multiclass" if words else kind_of(table[name])
    if kind == "multiclass":
        return _classes(table, name, config)
    expected = (
        "labels are numbers, yes/no, a few words that stand for classes, or blank where missing. "
        f"If these are classes: --task-type {name}=multiclass"
    )
    values = _numbers(table, name, config.table, expected)
    odd = ~np.isnan(values) & (values != 0) & (values != 1)
    if kind == "binary" and odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise DataError(
            f"{locate(config.table, table.index[row])}, column '{name}': "
            f"'{table[name].iloc[row]}' is neither 0 nor 1, neither yes nor no, as a yes/no target "
            "must be"
        )
    return _Column(kind, values)


def _classes(table: pd.DataFrame, name: str, config: DataConfig) -> _Column:
    assert config.table is not None
    # 1.0 is 1, as pandas writes whole numbers among blanks
    text = table[name].str.strip().str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
    blank = text.str.lower().isin(BLANKS).to_numpy()
    found = text[~blank].unique().tolist()
    classes = tuple(config.classes.get(name) or sorted(found, key=_number_or_word(found)))
    if len(classes) > MAX_CLASSES:
        raise DataError(
            f"{config.table}, column '{name}': {len(classes):,} different values, such as "
            f"'{classes[0]}'; a multi-class target has at most {MAX_CLASSES} classes"
        )
    if len(classes) < 2:
        raise DataError(
            f"{config.table}, column '{name}': a multi-class target needs two classes or more, "
            f"found {', '.join(classes) or 'none'}"
        )
    unknown = text[~blank & ~text.isin(classes).to_numpy()]
    if len(unknown):
        raise DataError(
            f"{locate(config.table, unknown.index[0])}, column '{name}': '{unknown.iloc[0]}' is "
            f"none of its classes: {', '.join(classes)}"
        )
    index = {each: float(i) for i, each in enumerate(classes)}
    return _Column("multiclass", text.map(index).to_numpy(dtype=np.float64), classes)


def _number_or_word(values: Sequence[str]) -> Callable[[str], float | str]:
    """How to sort classes: by value where all are numbers, otherwise as words."""
    try:
        [float(value) for value in values]
    except ValueError:
        return str
    return float


def _few_whole_numbers(column: _Column) -> bool:
    values = np.unique(column.values[~np.isnan(column.values)])
    whole = bool((values == np.rint(values)).all())
    return column.kind == "regression" and whole and len(values) <= 10


def _numbers(table: pd.DataFrame, name: str, path: Path, expected: str) -> np.ndarray:
    numbers, bad = parse_numbers(table[name])
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{locate(path, table.index[row])}, column '{name}': '{table[name].iloc[row]}' is not "
            f"a number. {int(bad.sum())} such cell(s) in this column; {expected}"
        )
    return numbers
