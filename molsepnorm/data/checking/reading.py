"""`scan_table`: read a table as training does, but continue after errors."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import pandas as pd

from molsepnorm.data.checking.scan import Refusal, Scan, molecule_numbers
from molsepnorm.data.datasets.cached import cached_standard
from molsepnorm.data.datasets.cells import blank_classes, parse_cells
from molsepnorm.data.datasets.columns import (
    Columns,
    ParsedColumn,
    configured_kind,
    parse_columns,
)
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Rejected
from molsepnorm.data.datasets.duplicates import merged_label
from molsepnorm.data.datasets.labels import Labels, read_features, read_labels, read_weights
from molsepnorm.data.datasets.splits import (
    make_splits,
    split_labelled,
    strata_of,
    with_validation,
)
from molsepnorm.data.tables import names_in_file, read_table, require_clear, require_column
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, OpenChoice
from molsepnorm.molecules import featurize
from molsepnorm.tasks.transforms import NO_TRANSFORM

_T = TypeVar("_T")


def scan_table(config: DataConfig) -> Scan:
    """Read every row of `config.table`; no file is written but standardised SMILES, in the cache.

    The rows that cannot be read are those that training leaves out, except for a few impossible
    aromatic rings that are noticed only when a graph is made.

    Raises:
        ConfigError: a column or file named in the settings is missing.
        DataError: the file is not a table, or half the labels of a target, or numbers of a feature
            column, may have two meanings, such as 1,234.
        StorageError: it cannot be read.
    """
    assert config.table is not None
    table = read_table(config.table, config.smiles_column)
    in_file = names_in_file(table)
    needed = [config.smiles_column, *(config.targets or []), *config.feature_columns]
    needed += [config.time_column] if config.time_column is not None else []
    for name in (*needed, config.weight_column, config.column_of_split):
        if name is not None:
            require_column(table.columns, name, config.table, in_file=in_file)
    invalid_labels = _invalid_labels(table, config)
    _require_clear(table, needed, invalid_labels, config.table)
    for name in config.ignore_columns:
        require_column(table.columns, name, config.table, once=False, in_file=in_file)
    smiles = table[config.smiles_column].tolist()
    standard = cached_standard(smiles, config.standardize)
    canonical, rejected = _molecules(smiles, standard, config)

    refusals: list[Refusal] = []
    labels = _labels(_without(table, invalid_labels), config, refusals)
    weights = None
    if config.weight_column is not None:
        weights = _try(lambda: read_weights(_parsed(table, config), config), "weights", refusals)
    labels = labels.without_weight_0(weights)
    if config.feature_columns:
        _try(lambda: read_features(_parsed(table, config), config), "features", refusals)
    readable = np.array([row for row, text in enumerate(canonical) if text], dtype=np.int64)
    parts = (
        _try(
            lambda: _parts(table, labels, standard, readable, canonical, config), "split", refusals
        )
        or {}
    )
    nearly = _nearly(table, labels, config) if config.targets is None else {}
    return Scan(
        *(config, table, labels, invalid_labels, nearly),
        *(tuple(canonical), tuple(rejected), weights, parts, tuple(refusals)),
    )


def _require_clear(
    table: pd.DataFrame,
    names: Sequence[str],
    invalid_labels: Mapping[str, np.ndarray],
    source: Path,
) -> None:
    """Check that numbers have one meaning, except for a minority of cells that are invalid labels,
    such as 1,200 in a column of numbers with decimal points."""
    for name in names:
        try:
            require_clear(table, [name], source)
        except DataError:
            odd = invalid_labels.get(name)
            filled = int((table[name].str.strip() != "").sum())
            if odd is None or 2 * len(odd) >= filled:
                raise


def _molecules(
    smiles: Sequence[str], standard: Sequence[str], config: DataConfig
) -> tuple[list[str | None], list[Rejected]]:
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    # these have features for every atom and bond, so only reading can fail
    narrow = None if config.featurizer in ("ogb", "rich") else featurize.get(config.featurizer)
    canonical: list[str | None] = []
    rejected = []
    for row, (text, form) in enumerate(zip(smiles, standard, strict=True)):
        try:
            found = canonical_smiles(form)
            if narrow is not None and isinstance(made := narrow.many([form])[0], InvalidMolecule):
                raise made
            canonical.append(found)
        except InvalidMolecule as error:
            canonical.append(None)
            rejected.append(Rejected(row, text, str(error)))
    return canonical, rejected


def _try(
    read: Callable[[], _T],
    what: Literal["targets", "weights", "features", "split"],
    refusals: list[Refusal],
) -> _T | None:
    try:
        return read()
    except DataError as error:
        refusals.append(Refusal(what, str(error)))
        return None


def _parsed(table: pd.DataFrame, config: DataConfig) -> Columns:
    return parse_columns([table], config)


def _labels(table: pd.DataFrame, config: DataConfig, refusals: list[Refusal]) -> Labels:
    labels: Labels | None
    try:
        labels = _try(lambda: read_labels(_parsed(table, config), config), "targets", refusals)
    except OpenChoice as error:
        option, value = error.options[0]
        reason = f"{error}. Name the targets, such as {shlex.join([option, value])}"
        refusals.append(Refusal("targets", reason, {option: value}))
        labels = _try(
            lambda: read_labels(_parsed(table, config), config, strict=False), "targets", refusals
        )
    except ConfigError as error:
        if config.targets or config.task_type or config.classes or config.transform:
            raise
        labels = None  # the table has SMILES only
        refusals.append(Refusal("targets", str(error)))
    return labels or Labels((), (), (), np.zeros((len(table), 0)))


def _invalid_labels(table: pd.DataFrame, config: DataConfig) -> dict[str, np.ndarray]:
    """Return the rows of the cells that `read_labels` would refuse."""
    found = {}
    for name in config.targets or []:
        kind = configured_kind(name, config)
        numbers, bounds, odd = parse_cells(table[name], binary=kind == "binary")
        plain = ~np.isnan(numbers) & (bounds == 0)
        transformed = config.transform.get(name, NO_TRANSFORM) != NO_TRANSFORM
        if kind == "binary" or not (plain.any() or kind == "regression" or transformed):
            odd |= bounds != 0
        if transformed:
            odd |= numbers <= 0
        column = ParsedColumn(name, "words", binary=kind == "binary")
        column.add(table[name])
        words = kind is None and odd.any() and not plain.any()
        words |= kind != "regression" and column.look_like_classes()
        if kind == "multiclass" or name in config.classes or words:
            text = table[name].str.strip()
            known = text.isin(config.classes.get(name, text)) | blank_classes(text)
            odd = ~known.to_numpy()
        elif kind == "binary":
            odd |= ~np.isnan(numbers) & (numbers != 0) & (numbers != 1)
        if odd.any():
            found[name] = np.flatnonzero(odd)
    return found


def _without(table: pd.DataFrame, invalid_labels: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the table with these cells blank, so that all of its numbers have one meaning."""
    if not invalid_labels:
        return table
    columns = {}
    for name, rows in invalid_labels.items():
        columns[name] = table[name].copy()
        columns[name].iloc[rows] = ""
    cleaned = table.assign(**columns)
    cleaned.attrs = {}
    return cleaned


def _nearly(table: pd.DataFrame, labels: Labels, config: DataConfig) -> dict[str, np.ndarray]:
    """Return the columns of mostly numbers, and the rows of their other cells.

    Columns named like identifiers are left out, since a line below the table may be their only
    cell that is no number.
    """
    found = {}
    names = list(table.columns)
    used = {*config.columns_with_roles(but="targets"), *labels.names}
    for name in names:
        free = name not in used and names.count(name) == 1
        if free and not ParsedColumn(name).named_like_numbering:
            numbers, _, bad = parse_cells(table[name])
            if 0 < bad.sum() < (np.isfinite(numbers) & ~bad).sum():
                found[name] = np.flatnonzero(bad)
    return found


def _parts(
    table: pd.DataFrame,
    labels: Labels,
    smiles: Sequence[str],
    readable: np.ndarray,
    canonical: Sequence[str | None],
    config: DataConfig,
) -> dict[str, np.ndarray]:
    """Return the rows of each split; those of merged molecules are the first ones of the molecule,
    in each split if the table names the splits."""
    if config.split is None or not len(readable):
        return {}
    assert config.table is not None
    merges = config.duplicates == "mean"
    rows = _first_rows(readable, canonical) if merges and not config.names_rows else readable
    column = table[config.column_of_split].tolist() if config.column_of_split else None
    numbers, index = molecule_numbers(canonical), table.index.to_numpy()
    source = config.table
    # a row stands for all rows of its molecule if they are merged
    values = _merged_labels(labels, numbers) if merges else labels.values
    is_labelled = np.isfinite(values).any(axis=1)

    def split(chosen: np.ndarray) -> dict[str, np.ndarray]:
        strata = strata_of(config, labels.kinds, values[chosen])
        return make_splits(config, chosen, numbers[chosen], smiles, column, source, index, strata)

    splits = split_labelled(split, rows, is_labelled, config.names_rows)
    if merges:
        splits = {name: _first_rows(part, canonical) for name, part in splits.items()}
    return with_validation(splits, numbers, config)


def _merged_labels(labels: Labels, numbers: np.ndarray) -> np.ndarray:  # (R, T)
    """Return the labels in which all rows of a molecule have its merged label, numbers without
    regard to weights; NaN where it has none or they conflict."""
    values, bounds = labels.values.copy(), labels.bound_signs
    order = np.argsort(numbers, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        if len(rows) > 1 and numbers[rows[0]] >= 0:
            weights = np.ones(len(rows))
            for i, kind in enumerate(labels.kinds):
                label = merged_label(
                    values[rows, i], bounds[rows, i], weights, kind == "regression"
                )
                values[rows, i] = label.value
    return values


def _first_rows(rows: np.ndarray, canonical: Sequence[str | None]) -> np.ndarray:
    """Return the first of these rows of each molecule, in order."""
    _, first = np.unique([canonical[row] for row in rows], return_index=True)
    return rows[np.sort(first)]
