"""Columns of text to labels: which columns are targets, what kind each is, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns, asked_kind, gather
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.parsing import BLANKS
from molsepnorm.data.tables import locate, require_column
from molsepnorm.errors import ConfigError, DataError, did_you_mean
from molsepnorm.tasks.metrics import Kind

__all__ = ["MAX_CLASSES", "Labels", "read_labels", "read_weights"]

MAX_CLASSES = 100
"""More distinct words in a column are taken for names or warnings, not for classes."""


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
    """float64 or float32 [rows, T]: numbers, 0 or 1, or the index of a class; NaN if missing."""
    warnings: tuple[str, ...] = ()
    """What was guessed, for a person."""


def read_labels(table: pd.DataFrame | Columns, config: DataConfig) -> Labels:
    """The labels of a table of text, as the configuration asks or as they look.

    Args:
        table: all of it, or what `gather` has kept of it.
        config: says what the columns are.

    Raises:
        ConfigError: a column is missing, named twice, or there is none of numbers.
        DataError: a cell does not fit its target.
    """
    if isinstance(table, pd.DataFrame):
        table = gather([table], config)
    names, warnings = _choose(table, config)
    asked = _asked_kinds(names, config)
    kinds: list[Kind] = []
    classes: list[tuple[str, ...]] = []
    values = np.empty((len(table.index), len(names)), dtype=table.dtype)
    few = []
    for place, name in enumerate(names):
        column = _column(table, name, asked[name], config)
        kinds.append(column.kind)
        classes.append(column.classes)
        values[:, place] = column.values
        if asked[name] is None and column.kind == "regression":
            few += [name] * table.cells(name).are_few_whole_numbers()
    if few:
        warnings.append(
            f"{', '.join(few)}: few whole numbers, taken for quantities. If they stand for "
            f"classes: --task-type {few[0]}=multiclass"
        )
    return Labels(names, tuple(kinds), tuple(classes), values, tuple(warnings))


def read_weights(table: pd.DataFrame | Columns, config: DataConfig) -> np.ndarray | None:  # (rows,)
    """How much each row counts in the loss, 1 where the cell is blank; None without such a column.

    Raises:
        ConfigError: the column is missing.
        DataError: a weight is no number, or negative, or all are 0.
    """
    name, path = config.weight_column, config.table
    if name is None:
        return None
    assert path is not None
    if isinstance(table, pd.DataFrame):
        table = gather([table], config)
    require_column(table.names, name, path)
    weights = np.nan_to_num(
        _numbers(table, name, config, "weights are numbers, or blank for 1"), nan=1
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


def _choose(table: Columns, config: DataConfig) -> tuple[tuple[str, ...], list[str]]:
    """The targets, and what to say of them where they were guessed."""
    assert config.table is not None
    for name in config.ignore_columns:
        require_column(table.names, name, config.table, once=False)
    taken = (config.smiles_column, config.weight_column, config.splits_column)
    if config.targets:
        for name in config.targets:
            require_column(table.names, name, config.table)
            if name in (*taken, *config.ignore_columns):
                raise ConfigError(f"column '{name}' cannot be a target and something else as well")
        if len(set(config.targets)) < len(config.targets):
            raise ConfigError(f"a target is named twice: {', '.join(config.targets)}")
        return tuple(config.targets), []
    candidates = [table.kept[place] for place in sorted(table.kept)]
    candidates = [each for each in candidates if each.name not in taken]
    asked = {*config.classes, *(config.task_type if isinstance(config.task_type, dict) else ())}
    numeric = [each for each in candidates if each.name in asked or each.all_numbers()]
    for each in numeric:
        require_column(table.names, each.name, config.table)
    numbering = [
        each.name for each in numeric if each.name not in asked and each.look_like_numbering()
    ]
    names = [each.name for each in numeric if each.name not in numbering]
    nearly = [each for each in candidates if each not in numeric and each.mostly_numbers()]
    left_out = []
    if numbering:
        left_out.append(
            f"Not taken for targets: {', '.join(numbering)} (they look like numbering)."
        )
    if nearly:
        assert nearly[0].first_bad is not None
        left_out.append(
            f"Not taken for targets: {', '.join(each.name for each in nearly)} (some cells are no "
            f"numbers, such as '{nearly[0].first_bad[1]}')."
        )
    if not names:
        raise ConfigError(
            f"{config.table} has no column of numbers to predict beside "
            f"'{config.smiles_column}'. Columns: {', '.join(table.names)}. Name one with "
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
    kinds = {name: asked_kind(name, config) for name in names}
    for name in config.classes:
        if kinds[name] not in (None, "multiclass"):
            raise ConfigError(
                f"data.classes names those of '{name}', which data.task_type calls {kinds[name]}: "
                "keep one"
            )
    return kinds


def _column(table: Columns, name: str, kind: Kind | None, config: DataConfig) -> _Column:
    assert config.table is not None
    cells = table.cells(name)
    if kind is None and (name in config.classes or cells.look_like_classes()):
        kind = "multiclass"
    if kind is None:
        kind = "binary" if cells.are_yes_no() else "regression"
    if kind == "multiclass":
        return _classes(table, name, config)
    expected = (
        "labels are numbers, yes/no, a few words that stand for classes, or blank where missing. "
        f"If these are classes: --task-type {name}=multiclass"
    )
    values = _numbers(table, name, config, expected)
    if kind == "binary" and cells.first_odd is not None:
        row, text = cells.first_odd
        raise DataError(
            f"{locate(config.table, table.index[row])}, column '{name}': '{text}' is neither 0 nor "
            "1, neither yes nor no, as a yes/no target must be"
        )
    return _Column(kind, values)


def _classes(table: Columns, name: str, config: DataConfig) -> _Column:
    assert config.table is not None
    codes, text = table.cells(name).texts()
    # 1.0 is 1, as pandas writes whole numbers among blanks
    text = text.str.strip().str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
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
    unknown = np.flatnonzero(~blank & ~text.isin(classes).to_numpy())
    if len(unknown):  # the text that occurs first
        row = int(np.flatnonzero(codes == unknown[0])[0])
        raise DataError(
            f"{locate(config.table, table.index[row])}, column '{name}': '{text[unknown[0]]}' is "
            f"none of its classes: {', '.join(classes)}"
        )
    index = {each: float(i) for i, each in enumerate(classes)}
    return _Column("multiclass", text.map(index).to_numpy(dtype=np.float64)[codes], classes)


def _number_or_word(values: Sequence[str]) -> Callable[[str], float | str]:
    """How to sort classes: by value where all are numbers, otherwise as words."""
    try:
        [float(value) for value in values]
    except ValueError:
        return str
    return float


def _numbers(table: Columns, name: str, config: DataConfig, expected: str) -> np.ndarray:
    assert config.table is not None
    cells = table.cells(name)
    if cells.first_bad is not None:
        row, text = cells.first_bad
        raise DataError(
            f"{locate(config.table, table.index[row])}, column '{name}': '{text}' is not a number. "
            f"{cells.bad} such cell(s) in this column; {expected}"
        )
    return cells.numbers()
