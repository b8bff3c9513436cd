"""The columns of a table that a data set needs, parsed piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.parsing import ParsedColumn
from molsepnorm.data.tables import locate
from molsepnorm.tasks.metrics import Kind

__all__ = ["Columns", "configured_kind", "parse_columns"]


@dataclass
class Columns:
    """The parts of a table that a data set needs."""

    source: Path | str
    """The file; "y" for labels in memory."""
    names: list[str]
    """Names of all columns, in their order; several may have the same name."""
    dtype: type[np.floating]
    """Type of the labels."""
    parsed: dict[int, ParsedColumn] = field(default_factory=dict)
    """Possible targets and the weights, by the index of the column."""
    index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Position of each row, see `molsepnorm.data.tables.locate`."""
    smiles: list[str] = field(default_factory=list)
    """SMILES of each row."""
    splits: list[str] = field(default_factory=list)
    """Cell of `config.splits_column` of each row."""

    def column(self, name: str) -> ParsedColumn:
        """Return the first column of this name, which must have been parsed."""
        return self.parsed[self.names.index(name)]

    def cell(self, row: int, name: str) -> str:
        """Return where a cell is, for an error message."""
        in_file = isinstance(self.source, Path)
        where = locate(self.source, self.index[row]) if in_file else f"molecule {self.index[row]}"
        return f"{where}, column '{name}'"


def parse_columns(
    pieces: Iterable[pd.DataFrame], config: DataConfig, dtype: type[np.floating] = np.float64
) -> Columns:
    """Read a table piece by piece, and parse what the configuration needs.

    Columns that are missing are missing in the result too.

    Args:
        pieces: of one table, as `molsepnorm.data.tables.read_chunks` yields them.
        config: the roles of the columns.
        dtype: type of the labels.
    """
    table = None
    index = []
    for piece in pieces:
        if table is None:
            table = Columns(config.table or "y", list(piece.columns), dtype)
            needed = _needed(table.names, config)
            table.parsed = {i: _parser(table.names[i], config, dtype) for i in needed}
        index.append(piece.index.to_numpy())
        for number, column in table.parsed.items():
            column.add(piece.iloc[:, number])
        for name, texts in (
            (config.smiles_column, table.smiles),
            (config.splits_column, table.splits),
        ):
            if name in table.names:
                texts += piece.iloc[:, table.names.index(name)].tolist()
    assert table is not None
    table.index = np.concatenate(index)
    return table


def configured_kind(name: str, config: DataConfig) -> Kind | None:
    """Return the kind of a target in the configuration; None if it is to be guessed."""
    kinds = config.task_type
    return kinds.get(name) if isinstance(kinds, dict) else kinds


def _needed(names: list[str], config: DataConfig) -> list[int]:
    if config.targets is None:
        others = {config.smiles_column, config.splits_column, *config.ignore_columns}
        needed = {config.weight_column, *names} - (others - {config.weight_column})
    else:
        needed = {config.weight_column, *config.targets}
    return [number for number, name in enumerate(names) if name in needed]


def _parser(name: str, config: DataConfig, dtype: type[np.floating]) -> ParsedColumn:
    if name == config.weight_column:
        return ParsedColumn(name)
    kind = configured_kind(name, config)
    named = name in (config.targets or ()) or name in config.classes
    named = named or (isinstance(config.task_type, dict) and name in config.task_type)
    if kind == "multiclass" or name in config.classes:
        return ParsedColumn(name, "all", dtype)
    return ParsedColumn(name, "words" if named and kind is None else "none", dtype)
