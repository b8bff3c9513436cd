"""A table of one's own: a column of SMILES, columns of labels, blanks where one is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from molsepnorm import featurize
from molsepnorm.datasets.config import DataConfig
from molsepnorm.datasets.dataset import Dataset, LabelledGraph, Rejected, cached_store
from molsepnorm.datasets.labels import Labels, read_labels, read_weights
from molsepnorm.datasets.splits import make_splits
from molsepnorm.encodings.encode import EncodingSpec
from molsepnorm.errors import DataError
from molsepnorm.files import fingerprint
from molsepnorm.molecule import MolGraph
from molsepnorm.tables import locate, read_table, require_column
from molsepnorm.tables.formats import format_of

__all__ = ["load_table"]


def load_table(config: DataConfig, encoding: EncodingSpec, labelled: bool = True) -> Dataset:
    """Load `config.table`, split as the configuration says; arguments as of `datasets.load`.

    Raises:
        ConfigError: a column is missing.
        DataError: the file is empty, a cell does not fit its column, or too few molecules can be
            read.
    """
    assert config.table is not None
    table = read_table(config.table, config.smiles_column)
    require_column(table.columns, config.smiles_column, config.table)
    if not labelled:
        for name in {*(config.targets or ())} - {*table.columns}:
            table[name] = ""
    labels, weights = read_labels(table, config), read_weights(table, config)
    column = None
    if config.splits_column is not None:
        require_column(table.columns, config.splits_column, config.table)
        column = table[config.splits_column].tolist()
    smiles = table[config.smiles_column].tolist()

    rejected: list[Rejected] = []
    kind = format_of(config.table).kind  # the same bytes have other rows as .smi and as .tsv
    about = json.dumps([kind, config.smiles_column, labels.names, labels.kinds, labels.classes])
    key = fingerprint(config.table, about)
    molecules = _molecules(table.index, smiles, labels, config, rejected)
    notes = {"rejected": rejected}
    store = cached_store(key, config.featurizer, encoding, labels.names, molecules, notes)
    rejected = [Rejected(*entry) for entry in store.notes["rejected"]]
    if rejected and config.on_invalid == "fail":  # from the cache, where they had been skipped
        raise DataError(_refusal(rejected[0], table.index, config))
    if not len(store):
        raise DataError(f"{config.table} has no molecule that can be read: {rejected[0].reason}")
    return Dataset(
        name=config.table.name,
        store=store,
        kinds=labels.kinds,
        classes=labels.classes,
        splits=make_splits(config, store.rows, smiles, column, config.table),
        weights=None if weights is None else weights[store.rows].astype(np.float32),
        rejected=tuple(rejected),
        smiles=smiles,
        remarks=labels.remarks,
    )


def _molecules(
    index: pd.Index,
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


def _refusal(entry: Rejected, index: pd.Index, config: DataConfig) -> str:
    assert config.table is not None
    return (
        f"{locate(config.table, index[entry.row])}: {entry.reason}. Mend the row, or use "
        "--on-invalid skip to leave such rows out and list them in rejected.csv"
    )
