"""The columns of a table, gathered from its pieces: numbers as numbers, and only needed texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.parsing import Cells
from molsepnorm.tasks.metrics import Kind

__all__ = ["Columns", "asked_kind", "gather"]


@dataclass
class Columns:
    """As much of a table as a data set needs."""

    names: list[str]
    """Names of all columns, in their order; several may have the same name."""
    dtype: type[np.floating]
    """Type of the labels."""
    kept: dict[int, Cells] = field(default_factory=dict)
    """Possible targets and the weights, by the index of the column."""
    index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """For each row what `molsepnorm.data.tables.locate` needs."""
    smiles: list[str] = field(default_factory=list)
    """For each row its SMILES."""
    splits: list[str] = field(default_factory=list)
    """For each row its cell of `config.splits_column`."""

    def cells(self, name: str) -> Cells:
        """The first column of this name, which must be one of those kept."""
        return self.kept[self.names.index(name)]


def gather(
    pieces: Iterable[pd.DataFrame], config: DataConfig, dtype: type[np.floating] = np.float64
) -> Columns:
    """Read a table piece by piece, and keep what the configuration needs.

    Columns that are missing are missing in the result too.

    Args:
        pieces: of one table, as `molsepnorm.data.tables.read_chunks` gives them.
        config: says what the columns are.
        dtype: of labels.
    """
    table = None
    index = []
    for piece in pieces:
        if table is None:
            table = Columns(list(piece.columns), dtype)
            table.kept = {i: _cells(table.names[i], config, dtype) for i in _needed(table, config)}
        index.append(piece.index.to_numpy())
        for place, cells in table.kept.items():
            cells.add(piece.iloc[:, place])
        for name, texts in (
            (config.smiles_column, table.smiles),
            (config.splits_column, table.splits),
        ):
            if name in table.names:
                texts += piece.iloc[:, table.names.index(name)].tolist()
    assert table is not None
    table.index = np.concatenate(index)
    return table


def asked_kind(name: str, config: DataConfig) -> Kind | None:
    """The kind that the configuration gives to a target; None for one that is to be guessed."""
    asked = config.task_type
    return asked.get(name) if isinstance(asked, dict) else asked


def _needed(table: Columns, config: DataConfig) -> list[int]:
    if config.targets is None:
        others = {config.smiles_column, config.splits_column, *config.ignore_columns}
        needed = {config.weight_column, *table.names} - (others - {config.weight_column})
    else:
        needed = {config.weight_column, *config.targets}
    return [place for place, name in enumerate(table.names) if name in needed]


def _cells(name: str, config: DataConfig, dtype: type[np.floating]) -> Cells:
    if name == config.weight_column:
        return Cells(name)
    kind = asked_kind(name, config)
    named = name in (config.targets or ()) or name in config.classes
    named = named or (isinstance(config.task_type, dict) and name in config.task_type)
    if kind == "multiclass" or name in config.classes:
        return Cells(name, "all", dtype)
    return Cells(name, "words" if named and kind is None else "none", dtype)
