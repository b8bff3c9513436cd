"""A CSV file of one's own: a column of SMILES, columns of labels, blanks where one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm import featurize
from molsepnorm.datasets.config import DataConfig
from molsepnorm.datasets.dataset import (
    SPLITS,
    Dataset,
    LabelledGraph,
    Rejected,
    cached_store,
)
from molsepnorm.encodings.encode import EncodingSpec
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule
from molsepnorm.files import fingerprint
from molsepnorm.tables import line_of, read_csv, require_column
from molsepnorm.tasks import Kind

__all__ = ["load_table", "random_split"]

_YES_NO = {"yes": "1", "no": "0", "true": "1", "false": "0"}
_BLANK = ("", "nan", "na", "n/a", "none", "null")


def load_table(config: DataConfig, encoding: EncodingSpec) -> Dataset:
    """Load `config.table` with a random split.

    Raises:
        ConfigError: a column is missing.
        DataError: the file is empty, a label is no number, or too few molecules can be read.
    """
    assert config.table is not None
    table = read_csv(config.table)
    require_column(table.columns, config.smiles_column, config.table)
    targets = _choose_targets(table, config)
    labels = np.stack([_numbers(table, name, config.table) for name in targets], axis=1)
    kinds = tuple(_kind(labels[:, i]) for i in range(len(targets)))
    smiles = table[config.smiles_column].tolist()

    rejected: list[Rejected] = []
    key = fingerprint(config.table, config.smiles_column, *targets)
    molecules = _molecules(table, labels, config, rejected)
    notes = {"rejected": rejected}
    store = cached_store(key, config.featurizer, encoding, targets, molecules, notes)
    rejected = [Rejected(*entry) for entry in store.notes["rejected"]]
    if rejected and config.on_invalid == "fail":  # from the cache, where they had been skipped
        raise DataError(_refusal(rejected[0], table, config))
    splits = {}
    if config.split is not None:
        splits = random_split(len(store), config.split, config.split_seed, config.table)
    elif not len(store):
        raise DataError(f"{config.table} has no molecule that can be read: {rejected[0].reason}")
    return Dataset(config.table.name, store, kinds, splits, tuple(rejected), smiles)


def random_split(
    num_graphs: int, shares: Sequence[float], seed: int, path: Path | str
) -> dict[str, np.ndarray]:
    """Random train, validation and test indices in these shares, none of them empty.

    Raises:
        DataError: there are too few molecules for that.
    """
    order = np.random.default_rng(seed).permutation(num_graphs)
    ends = np.rint(np.cumsum(shares) * num_graphs).astype(int)[:-1]
    parts = np.split(order, ends)
    if not all(len(part) for part in parts) or len(parts[0]) < 2:
        raise DataError(
            f"{path} has {num_graphs} readable molecules: too few for a split into "
            f"{' / '.join(f'{share:g}' for share in shares)} with at least 2, 1 and 1"
        )
    return {name: np.sort(part) for name, part in zip(SPLITS, parts, strict=True)}


def _choose_targets(table: pd.DataFrame, config: DataConfig) -> tuple[str, ...]:
    if config.targets:
        for name in config.targets:
            require_column(table.columns, name, str(config.table))
        if len(set(config.targets)) < len(config.targets):
            raise ConfigError(f"a target is named twice: {', '.join(config.targets)}")
        return tuple(config.targets)
    candidates = [name for name in table.columns if name != config.smiles_column]
    numeric = tuple(name for name in candidates if _all_numbers(table[name]))
    if not numeric:
        raise ConfigError(
            f"{config.table} has no column of numbers to predict beside '{config.smiles_column}'. "
            f"Columns: {', '.join(table.columns)}. Name one with --targets"
        )
    return numeric


def _parse(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column (NaN for blanks), and where there is neither number nor blank."""
    text = column.str.strip().str.lower()
    parsed = pd.to_numeric(text.map(lambda cell: _YES_NO.get(cell, cell)), errors="coerce")
    numbers = parsed.to_numpy(dtype=np.float64)
    with np.errstate(over="ignore"):  # a label is kept as a float32
        return numbers, ~np.isfinite(numbers.astype(np.float32)) & ~text.isin(_BLANK).to_numpy()


def _all_numbers(column: pd.Series) -> bool:
    numbers, bad = _parse(column)
    return not bad.any() and not np.isnan(numbers).all()


def _numbers(table: pd.DataFrame, name: str, path: Path) -> np.ndarray:
    numbers, bad = _parse(table[name])
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{path}, line {line_of(table.index[row])}, column '{name}': "
            f"'{table[name].iloc[row]}' is not a number. "
            f"{int(bad.sum())} such cell(s) in this column; labels are numbers, yes/no, or blank "
            "where missing"
        )
    return numbers


def _kind(labels: np.ndarray) -> Kind:
    values = set(np.unique(labels[~np.isnan(labels)]).tolist())
    return "binary" if values <= {0.0, 1.0} else "regression"


def _molecules(
    table: pd.DataFrame, labels: np.ndarray, config: DataConfig, rejected: list[Rejected]
) -> Iterator[LabelledGraph]:
    featurizer = featurize.get(config.featurizer)
    for row, text in enumerate(table[config.smiles_column]):
        try:
            graph = featurizer(text)
        except InvalidMolecule as error:
            entry = Rejected(row, text, str(error))
            if config.on_invalid == "fail":
                raise DataError(_refusal(entry, table, config)) from None
            rejected.append(entry)
            continue
        yield LabelledGraph(row, graph, labels[row])


def _refusal(entry: Rejected, table: pd.DataFrame, config: DataConfig) -> str:
    line = line_of(table.index[entry.row])
    return (
        f"{config.table}, line {line}: {entry.reason}. Mend the row, or use "
        "--on-invalid skip to leave such rows out and list them in rejected.csv"
    )
