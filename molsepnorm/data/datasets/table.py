"""A table of your own: a column of SMILES and columns of labels, blank where one is missing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import parse_columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.duplicates import merge_and_split
from molsepnorm.data.datasets.encoded_rows import encoded_rows
from molsepnorm.data.datasets.labels import read_features, read_labels, read_weights
from molsepnorm.data.datasets.splits import assigns_splits, make_splits
from molsepnorm.data.datasets.times import describe_times
from molsepnorm.data.tables import (
    as_file,
    hold,
    is_stream,
    locate,
    positions,
    read_chunks,
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
    with as_file(path) as file:
        pieces = read_chunks(file, str(path), _ROWS, config.smiles_column, decimals=None)
        pieces = (p.assign(**dict.fromkeys({*blank} - {*p.columns}, "")) for p in pieces)
        table = parse_columns(pieces, config, np.float32)
    table.require(config.smiles_column)
    features = read_features(table, config, for_training)
    labels, weights = read_labels(table, config), read_weights(table, config)
    labels = labels.without_weight_0(weights)
    if config.column_of_split is not None:
        table.require(config.column_of_split)
    index, smiles, column = table.index, table.smiles, table.splits or None
    identifiers = table.identifiers
    unused = [name for name, words in table.split_columns.items() if assigns_splits(words)]
    del table  # its numbers, which the labels are a copy of

    store, standard = encoded_rows(smiles, config, encoding, lambda row: locate(path, index[row]))
    if not len(store):
        raise DataError(f"{path} has no molecule that can be read: {store.rejected[0].reason}")
    name = str(path) if is_stream(path) else path.name
    dataset = merge_and_split(
        replace(
            labels.dataset(name, store, weights, standard, features),
            written=smiles,
            identifiers={n: each for n, each in identifiers.items() if n not in labels.names},
            positions=positions(path, index),
        ),
        config,
        lambda rows, molecules, strata: make_splits(
            config, rows, molecules, standard, column, path, index, strata
        ),
        lambda row: locate(path, index[row]),
        named=config.names_rows,
    )
    if config.time_column is not None and column is not None and dataset.splits:
        parts = {split: store.rows[part] for split, part in dataset.splits.items()}
        line = describe_times(parts, column, config.time_column)
        dataset = replace(dataset, warnings=(*dataset.warnings, line))
    if unused and for_training:
        dataset = replace(dataset, warnings=(*dataset.warnings, _about_unused(unused)))
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
    with as_file(config.table) as file:
        for piece in read_chunks(file, str(config.table), _ROWS, config.smiles_column):
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
