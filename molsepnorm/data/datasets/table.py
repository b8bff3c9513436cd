"""A table of your own: a column of SMILES and columns of labels, blank where one is missing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cached import encoded_rows
from molsepnorm.data.datasets.columns import Columns, parse_columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.duplicates import merge_and_split
from molsepnorm.data.datasets.labels import Labels, read_features, read_labels, read_weights
from molsepnorm.data.datasets.splits import assigns_splits, make_splits
from molsepnorm.data.datasets.times import describe_times
from molsepnorm.data.tables import (
    hold,
    is_stream,
    locate,
    read_chunks,
    row_word,
)
from molsepnorm.errors import DataError
from molsepnorm.files.tables import free_name
from molsepnorm.molecules.encodings.encoding import EncodingSpec

_ROWS = 4096  # of a table, read together


def load_table(
    config: DataConfig, encoding: EncodingSpec, labelled: bool = True, for_training: bool = True
) -> Dataset:
    """Load `config.table`, split as the configuration says; arguments as for `datasets.load`.

    A stream, such as a pipe, is read once. The store depends on the SMILES only, so that other
    targets of the same table, or another table of the same molecules, use the same store.

    Raises:
        ConfigError: a column is missing, or one that is needed is there several times.
        DataError: the file is empty, a cell does not fit its column, or too few molecules can be
            read.
    """
    assert config.table is not None
    with hold(config.table):
        dataset = _load(config, encoding, labelled, for_training)
        return replace(dataset, left_out=_left_out(dataset, config)) if for_training else dataset


def _load(
    config: DataConfig, encoding: EncodingSpec, labelled: bool, for_training: bool
) -> Dataset:
    path = config.table
    assert path is not None
    blank = [] if labelled else config.targets or []
    pieces = read_chunks(path, rows=_ROWS, options=config.reading)
    pieces = (p.assign(**dict.fromkeys({*blank} - {*p.columns}, "")) for p in pieces)
    table = parse_columns(pieces, config, np.float32)
    table.require(config.smiles_column)
    features, lines = read_features(table, config, for_training)
    weights = read_weights(table, config)
    labels = read_labels(table, config).without_issues().without_weight_0(weights)
    if config.column_of_split is not None:
        table.require(config.column_of_split)
    table.parsed.clear()  # numbers, which the labels are a copy of
    labels = replace(labels, warnings=(*labels.warnings, *lines))
    dataset = without_splits(table, labels, weights, features, config, encoding)
    if not len(dataset.store):
        reason = dataset.rejected[0].reason
        raise DataError(f"{path} has no molecule that can be read: {reason}")
    dataset = with_splits(dataset, table, config)
    named = config.column_of_split or config.splits_file or config.folds or config.split is None
    unused = [n for n, words in table.words.items() if assigns_splits(words)]
    if unused and for_training and not named:
        dataset = replace(dataset, warnings=(*dataset.warnings, _about_unused(unused)))
    return dataset


def without_splits(
    table: Columns,
    labels: Labels,
    weights: np.ndarray | None,  # (rows,)
    features: Mapping[str, Sequence[str]],
    config: DataConfig,
    encoding: EncodingSpec,
) -> Dataset:
    """Return the molecules of a table with their labels, before duplicates are merged.

    Raises:
        DataError: a molecule cannot be read, and `on_invalid` is fail.
        StorageError: the cache cannot be written.
    """
    path = config.table
    assert path is not None
    smiles = table.cells[config.smiles_column]
    store, standard = encoded_rows(
        smiles, config, encoding, lambda row: locate(path, table.index[row])
    )
    name = str(path) if is_stream(path) else path.name
    return replace(
        labels.dataset(name, store, weights, standard, features),
        written=smiles,
        identifiers={n: table.cells[n] for n in table.identifiers if n not in labels.names},
        positions=(row_word(path), table.index),
    )


def with_splits(dataset: Dataset, table: Columns, config: DataConfig) -> Dataset:
    """Return the data set with its duplicates merged and its splits, see `merge_and_split`."""
    path, index, column = config.table, table.index, table.cells.get(config.column_of_split or "")
    assert path is not None and dataset.smiles is not None
    smiles = dataset.smiles
    dataset = merge_and_split(
        dataset,
        config,
        lambda rows, molecules, strata: make_splits(
            config, rows, molecules, smiles, column, path, index, strata
        ),
        lambda row: locate(path, index[row]),
        named=config.names_rows,
    )
    if config.time_column is not None and column is not None and dataset.splits:
        parts = {split: dataset.store.rows[part] for split, part in dataset.splits.items()}
        line = describe_times(parts, column, config.time_column, config.time_format)
        dataset = replace(dataset, warnings=(*dataset.warnings, line))
    return dataset


def _about_unused(columns: Sequence[str]) -> str:
    """Return the warning about columns that could assign rows to splits."""
    named = ", ".join(f"'{name}'" for name in columns)
    return (
        f"The split is drawn, although {named} could assign the rows to training, validation and "
        f"test: --splits-column {shlex.quote(columns[0])}"
    )


def _left_out(dataset: Dataset, config: DataConfig) -> pd.DataFrame:
    """Read the rows of the table that were rejected or merged, with all their cells."""
    assert config.table is not None
    reasons = {each.row: each.reason for each in dataset.rejected}
    reasons |= {each.row: each.reason for each in dataset.merged}
    rows = np.array(sorted(reasons), dtype=np.int64)
    found: list[tuple[str, ...]] = []
    header: list[str] = []
    start = 0
    for piece in read_chunks(config.table, rows=_ROWS, options=config.reading):
        own = rows[(rows >= start) & (rows < start + len(piece))] - start
        header, start = [*piece.columns], start + len(piece)
        found += piece.iloc[own].itertuples(index=False, name=None)
        if len(found) == len(rows):
            break
    word, numbers = dataset.position(rows)
    first, last = (free_name(name, header, "_") for name in (word, "reason"))
    table = [
        (number, *cells, reasons[row])
        for number, cells, row in zip(numbers.tolist(), found, rows.tolist(), strict=True)
    ]
    return pd.DataFrame(table, columns=[first, *header, last])
