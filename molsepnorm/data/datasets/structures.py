"""Files of molecules without labels, for pre-training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cached import encoded_rows
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import make_splits, strata_of
from molsepnorm.data.tables import locate, read_chunks, require_column
from molsepnorm.errors import DataError
from molsepnorm.molecules.encodings.encoding import EncodingSpec


def load_structures(config: DataConfig, encoding: EncodingSpec) -> Dataset:
    """Load the SMILES of all `config.structures`, one file after the other, split at random.

    Rows are counted from 0 over all files; the reason of a rejected row names its file and line.

    Raises:
        ConfigError: a file has no column of SMILES.
        DataError: a file is empty, or too few molecules can be read. With `on_invalid` fail, an
            invalid SMILES.
    """
    smiles: list[str] = []
    index: list[tuple[Path, int]] = []  # file and position in it, of every row
    for path in config.structures:
        for chunk in read_chunks(path, options=config.reading):
            require_column(chunk.columns, config.smiles_column, path)
            smiles += chunk[config.smiles_column].tolist()
            index += [(path, number) for number in chunk.index]

    def location(row: int) -> str:
        return locate(*index[row])

    store, standard = encoded_rows(smiles, config, encoding, location)
    left_out = pd.DataFrame(
        [(location(row), text, reason) for row, text, reason in store.rejected],
        columns=["where", "smiles", "reason"],
    )
    found = tuple(e._replace(reason=f"{location(e.row)}: {e.reason}") for e in store.rejected)
    name = " + ".join(path.name for path in config.structures)
    if not len(store):
        raise DataError(f"no molecule can be read: {found[0].reason}")
    dataset = Dataset(
        name=name,
        store=store,
        labels=np.zeros((len(store), 0), dtype=np.float32),
        targets=(),
        splits={},
        rejected=found,
        left_out=left_out,
        smiles=standard,
        written=smiles,
    )
    numbers = dataset.molecule_ids
    strata = strata_of(config, dataset.targets, dataset.labels)
    splits = make_splits(config, store.rows, numbers, standard, None, name, location, strata)
    return replace(dataset, splits=splits)
