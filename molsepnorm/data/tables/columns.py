"""Columns of a table: their names, and numbers with decimal commas."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pandas as pd

from molsepnorm.data.tables.formats import DEFAULT_SMILES, locate
from molsepnorm.errors import ConfigError, DataError, did_you_mean, listed, warn_of_data

_NUMBER = re.compile(r"[\s<>≤≥=~]*[-+]?[\d.,]*\d[\d.,]*(e[-+]?\d+)?\s*", re.IGNORECASE)
_GROUPED = re.compile(r"[\s<>≤≥=~]*[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?\s*")
_SWAPPED = str.maketrans(",.", ".,")
_TITLE_ROWS = 20  # in which names of columns are searched for
SEPARATOR = "separator"
"""Attribute of a DataFrame: what separates the cells of its file."""
_FILE_NAME = "smiles column"
"""Attribute of a DataFrame: the name of the column of SMILES in the file, if it differs."""


def names_smiles(column: str) -> bool:
    return "smile" in column.lower()


def smiles_column_of(columns: Iterable[str], wanted: str, source: object) -> str:
    """Return the name of the column of SMILES: `wanted`, or for the default the only name that
    contains "smile"; a `ConfigError` if there are several.

    >>> smiles_column_of(["id", "Chromophore (SMILES)"], "smiles", "my.csv")
    'Chromophore (SMILES)'
    """
    columns = list(columns)
    if wanted in columns or wanted != DEFAULT_SMILES:
        return wanted
    named = [column for column in columns if names_smiles(column)]
    if len(named) > 1:
        quoted = listed([f"'{column}'" for column in named])
        raise ConfigError(
            f"{source} has no column '{wanted}', and {quoted} may be meant: choose one with "
            "--smiles-column"
        )
    return named[0] if named else wanted


def with_smiles(pieces: Iterable[pd.DataFrame], name: str, wanted: str) -> Iterator[pd.DataFrame]:
    """Yield pieces with the column of SMILES under the wanted name."""
    from molsepnorm.molecules.featurize.cxsmiles import announce_losses

    said: set[str] = set()
    in_file = None
    for piece in pieces:
        if in_file is None:
            in_file = smiles_column_of(piece.columns, wanted, name)
            if in_file not in piece.columns:
                _require_header(piece, name)
            if in_file != wanted:
                warn_of_data(f"{name}: the column '{in_file}' is read as the column of SMILES")
        if in_file != wanted:
            piece.columns = [wanted if each == in_file else each for each in piece.columns]
            piece.attrs[_FILE_NAME] = (in_file, wanted)
        if list(piece.columns).count(wanted) == 1:
            announce_losses(piece[wanted], name, said)
        yield piece


def names_in_file(table: pd.DataFrame) -> list[str]:
    """Return the names of the columns as in the file."""
    in_file, here = table.attrs.get(_FILE_NAME, ("", None))
    return [in_file if each == here else str(each) for each in table.columns]


def _require_header(piece: pd.DataFrame, name: str) -> None:
    """Raise an error if a later row has the names of the columns, or the header is a molecule."""
    for index, row in piece.head(_TITLE_ROWS).iterrows():
        if any(map(names_smiles, row)):
            raise ConfigError(
                f"{name}: the names of the columns are in a later line, below a title: "
                f"--header-row {index}"
            )
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    for cell in piece.columns:
        with suppress(DataError):
            if len(cell) > 2 and canonical_smiles(cell):
                raise ConfigError(
                    f"{name}: the first line holds the molecule '{cell}', and names of columns, "
                    "such as smiles, are expected: add a line with names"
                )


def require_column(
    columns: Iterable[str],
    wanted: str,
    source: Path | str,
    *,
    once: bool = True,
    in_file: Iterable[str] | None = None,
) -> None:
    """Raise a `ConfigError` unless there is a column of this name, and with `once` only one. Errors
    list the names `in_file`, see `names_in_file`."""
    columns = list(columns)
    if wanted not in columns:
        known = columns if in_file is None else list(in_file)
        hint = did_you_mean(wanted, known)
        raise ConfigError(f"{source} has no column '{wanted}'. {hint}{_advice(wanted, known)}")
    if once and columns.count(wanted) > 1:
        numbers = [str(number) for number, name in enumerate(columns, 1) if name == wanted]
        raise ConfigError(
            f"{source} has {len(numbers)} columns called '{wanted}' (columns {listed(numbers)}), "
            "and one is needed: rename or remove the others"
        )


def _advice(wanted: str, known: list[str]) -> str:
    advice = ""
    if wanted == DEFAULT_SMILES:
        advice = " Call the column of SMILES smiles, or name it (--smiles-column)."
    parted = [name for name in known if wanted in map(str.strip, name.split(","))]
    if parted:
        quoted = shlex.quote(f'"{parted[0]}"')
        advice += f" Commas separate names, so give one with a comma in quotes, as in {quoted}."
    return advice


def with_points(cells: pd.Series, decimal: Literal[".", ","] | None) -> pd.Series:
    """Return cells in which numbers have points as decimal marks.

    A point that does not group thousands becomes a comma, so that the cell is no number.

    >>> with_points(pd.Series(["0,5", ">1.234,5", "1.5", "2,4-dinitro"]), ",").tolist()
    ['0.5', '>1234.5', '1,5', '2,4-dinitro']
    """
    return cells.map(_with_point) if decimal == "," else cells


def _with_point(cell: str) -> str:
    if not _NUMBER.fullmatch(cell):
        return cell
    return (cell.replace(".", "") if _GROUPED.fullmatch(cell) else cell).translate(_SWAPPED)


def require_clear_points(
    table: pd.DataFrame, name: str, decimal: Literal[".", ","] | None, source: object
) -> None:
    """Raise a `DataError` if all points in a column of a table with semicolons may group thousands,
    as in 1.234."""
    if decimal is not None or table.attrs.get(SEPARATOR) != ";":
        return
    cells = table[name]
    numbers = cells.str.fullmatch(_NUMBER) & cells.str.contains(".", regex=False)
    grouped = numbers & cells.str.fullmatch(_GROUPED)
    if grouped.any() and not (numbers & ~grouped).any():
        cell, row = cells[grouped].iloc[0], cells.index[grouped.to_numpy().argmax()]
        raise DataError(
            f"{locate(str(source), row)}, column '{name}': '{cell}' may be {cell} or "
            f"{cell.replace('.', '')}, because tables with semicolons often have decimal commas: "
            "say which with --decimal . or --decimal ,"
        )
