"""A table of your own: a column of SMILES and columns of labels, blank where one is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cached import cached_standard, cached_store, with_reasons
from molsepnorm.data.datasets.columns import parse_columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset, Rejected
from molsepnorm.data.datasets.duplicates import merge_and_split
from molsepnorm.data.datasets.labels import read_features, read_labels, read_weights
from molsepnorm.data.datasets.splits import make_splits
from molsepnorm.data.datasets.times import describe_times
from molsepnorm.data.tables import (
    as_file,
    hold,
    is_stream,
    locate,
    positions,
    read_chunks,
    require_column,
)
from molsepnorm.errors import DataError
from molsepnorm.files.writing import fingerprint
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["load_table", "molecules_key", "read_molecules", "refusal"]

_ROWS = 4096  # of a table, read together


def load_table(
    config: DataConfig, encoding: EncodingSpec, labelled: bool = True, for_training: bool = True
) -> Dataset:
    """Load `config.table`, split as the configuration says; arguments as of `datasets.load`.

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
    require_column(table.names, config.smiles_column, path)
    features = read_features(table, config, for_training)
    labels, weights = read_labels(table, config), read_weights(table, config)
    if config.column_of_split is not None:
        require_column(table.names, config.column_of_split, path)
    index, smiles, column = table.index, table.smiles, table.splits or None
    identifiers = table.identifiers
    del table  # its numbers, which the labels are a copy of

    rejected: list[Rejected] = []
    standard = cached_standard(smiles, config.standardize)
    store = cached_store(
        molecules_key(smiles, standard),
        config.featurizer,
        encoding,
        read_molecules(smiles, standard, config, rejected, lambda row: locate(path, index[row])),
        rejected,
        len(smiles),
    )
    if store.rejected and config.on_invalid == "fail":  # they were skipped when it was made
        entry = store.rejected[0]
        raise refusal(entry, locate(path, index[entry.row]))
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
        lambda rows: make_splits(config, rows, standard, column, path, index),
        lambda row: locate(path, index[row]),
        named=config.splits_column is not None or config.splits_file is not None,
    )
    if config.time_column is not None and column is not None and dataset.splits:
        parts = {split: store.rows[part] for split, part in dataset.splits.items()}
        line = describe_times(parts, column, config.time_column)
        dataset = replace(dataset, warnings=(*dataset.warnings, line))
    return dataset


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
    first, last = (_free(name, header) for name in (word, "reason"))
    table = [
        (number, *cells, reasons[row])
        for number, cells, row in zip(numbers.tolist(), found, rows.tolist(), strict=True)
    ]
    return pd.DataFrame(table, columns=[first, *header, last])


def _free(name: str, header: Sequence[str]) -> str:
    """Return the name, with underscores until no column has it."""
    while name in header:
        name += "_"
    return name


def molecules_key(smiles: Sequence[str], standard: Sequence[str]) -> str:
    """Return the key of a store: a digest of the SMILES, of their standard forms if any, of the
    reasons of rows without a SMILES, and of the version of RDKit, which reads them.
    """
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    texts = [smiles] if standard is smiles else [smiles, standard]
    return fingerprint(json.dumps(list(map(with_reasons, texts))), RDKIT_VERSION)


def read_molecules(
    smiles: Sequence[str],
    standard: Sequence[str],
    config: DataConfig,
    rejected: list[Rejected],
    location: Callable[[int], str],
) -> Iterator[tuple[int, MolGraph]]:
    """Yield the molecules of all rows with their rows.

    Args:
        smiles: SMILES of every row.
        standard: their standard forms, which are read.
        config: the featuriser, and what is done with an invalid SMILES.
        rejected: receives the rows that cannot be read.
        location: returns the file and the position of a row.

    Raises:
        DataError: a row cannot be read and `on_invalid` is fail.
    """
    featurizer = featurize.get(config.featurizer)
    for row, (text, graph) in enumerate(zip(smiles, featurizer.stream(standard), strict=True)):
        if isinstance(graph, MolGraph):
            yield row, graph
            continue
        entry = Rejected(row, text, str(graph))
        if config.on_invalid == "fail":
            raise refusal(entry, location(row))
        rejected.append(entry)


def refusal(entry: Rejected, location: str) -> DataError:
    """Return the error for a row that cannot be read."""
    return DataError(
        f"{location}: {entry.reason}. Fix the row, or use --on-invalid skip to leave such rows out "
        "and list them in rejected.csv"
    )
