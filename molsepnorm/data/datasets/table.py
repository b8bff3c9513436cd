"""A table of one's own: a column of SMILES, columns of labels, blanks where one is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import gather
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset, LabelledGraph, Rejected, cached_store
from molsepnorm.data.datasets.labels import Labels, read_labels, read_weights
from molsepnorm.data.datasets.splits import make_splits
from molsepnorm.data.store import REMEDY, GraphStore
from molsepnorm.data.tables import as_file, is_stream, locate, read_chunks, require_column
from molsepnorm.data.tables.formats import format_of
from molsepnorm.errors import DataError, StorageError
from molsepnorm.files.writing import fingerprint
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encode import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["load_table"]

_ROWS = 4096  # of a table, read together


def load_table(config: DataConfig, encoding: EncodingSpec, labelled: bool = True) -> Dataset:
    """Load `config.table`, split as the configuration says; arguments as of `datasets.load`.

    A stream, such as a pipe, is read once, and what was read is what is loaded.

    Raises:
        ConfigError: a column is missing, or one that is needed is there several times.
        DataError: the file is empty, a cell does not fit its column, or too few molecules can be
            read.
    """
    assert config.table is not None
    with as_file(config.table) as file:
        return _load(file, config, encoding, labelled)


def _load(file: Path, config: DataConfig, encoding: EncodingSpec, labelled: bool) -> Dataset:
    assert config.table is not None
    pieces = read_chunks(file, str(config.table), _ROWS, config.smiles_column)
    blank = [] if labelled else config.targets or []
    table = gather((_filled(piece, blank) for piece in pieces), config, np.float32)
    require_column(table.names, config.smiles_column, config.table)
    labels, weights = read_labels(table, config), read_weights(table, config)
    if config.splits_column is not None:
        require_column(table.names, config.splits_column, config.table)
    index, smiles, column = table.index, table.smiles, table.splits or None
    del table  # its numbers, which the labels are a copy of

    rejected: list[Rejected] = []
    kind = format_of(config.table).kind  # the same bytes have other rows as .smi and as .tsv
    about = json.dumps([kind, config.smiles_column, labels.names, labels.kinds, labels.classes])
    key = fingerprint(file, about)
    molecules = _molecules(index, smiles, labels, config, rejected)
    notes = {"rejected": rejected}
    store = cached_store(key, config.featurizer, encoding, labels.names, molecules, notes)
    rejected = _rejected(store, len(smiles))
    if rejected and config.on_invalid == "fail":  # from the cache, where they had been skipped
        raise DataError(_refusal(rejected[0], index, config))
    if not len(store):
        raise DataError(f"{config.table} has no molecule that can be read: {rejected[0].reason}")
    return Dataset(
        name=str(config.table) if is_stream(config.table) else config.table.name,
        store=store,
        kinds=labels.kinds,
        classes=labels.classes,
        splits=make_splits(config, store.rows, smiles, column, config.table, index),
        weights=None if weights is None else weights[store.rows].astype(np.float32),
        rejected=tuple(rejected),
        smiles=smiles,
        remarks=labels.remarks,
    )


def _rejected(store: GraphStore, num_rows: int) -> list[Rejected]:
    """The rows that did not become molecules.

    Raises:
        StorageError: these and the molecules' rows are not the rows of the table.
    """
    try:
        rejected = [Rejected(*entry) for entry in store.notes["rejected"]]
        rows = [*store.rows.tolist(), *(entry.row for entry in rejected)]
        if sorted(rows) != list(range(num_rows)):
            raise ValueError(f"its rows are not the {num_rows} of the table")
    except (ValueError, TypeError, LookupError) as error:
        raise StorageError(f"{store.path} is damaged: {error}; {REMEDY}") from error
    return rejected


def _filled(piece: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """With blank columns of these names where it has none."""
    return piece.assign(**dict.fromkeys({*names} - {*piece.columns}, ""))


def _molecules(
    index: np.ndarray,
    smiles: Sequence[str],
    labels: Labels,
    config: DataConfig,
    rejected: list[Rejected],
) -> Iterator[LabelledGraph]:
    featurizer = featurize.get(config.featurizer)
    for row, (text, graph) in enumerate(zip(smiles, featurizer.stream(smiles), strict=True)):
        if isinstance(graph, MolGraph):
            yield LabelledGraph(row, graph, labels.values[row])
            continue
        entry = Rejected(row, text, str(graph))
        if config.on_invalid == "fail":
            raise DataError(_refusal(entry, index, config))
        rejected.append(entry)


def _refusal(entry: Rejected, index: np.ndarray, config: DataConfig) -> str:
    assert config.table is not None
    return (
        f"{locate(config.table, index[entry.row])}: {entry.reason}. Mend the row, or use "
        "--on-invalid skip to leave such rows out and list them in rejected.csv"
    )
