"""SDF files: a structure and named properties per record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables.formats import ReadOptions, open_text, pieces_of
from molsepnorm.errors import DataError, warn_of_data

_TITLE = "name"
_PROPERTY = re.compile(r"^>(?=[ \t<])[^\n]*?<(.*)>[^>\n]*$", re.MULTILINE)  # not a value >10
_END = "M  END"


def read_sdf(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield an SDF in pieces; the index of a row is the number of its record, from 1.

    The columns are the structures as SMILES, under `options.smiles_column`, the titles, under
    `name`, and the properties of all records, for which the file is read twice. A record that RDKit
    cannot read is a row too. A file without structures is a `DataError`.
    """
    smiles_column, has_structure = options.smiles_column, False
    properties: dict[str, None] = {}
    with open_text(path, name, options, newline=None) as text:
        for structure, values in _records(text):
            has_structure |= _END in structure
            properties.update(dict.fromkeys(values))
    if not has_structure:
        raise DataError(f"{name} has no structures: in an SDF each ends with a line '{_END}'")
    if smiles_column in properties:
        warn_of_data(
            f"{name}: the SMILES are those of the structures; the property '{smiles_column}' is "
            "not read"
        )
    columns = list(dict.fromkeys((smiles_column, _TITLE, *properties)))
    with open_text(path, name, options, newline=None) as text:
        yield from pieces_of(_rows(text, smiles_column, columns), columns, rows)


def _rows(text: TextIO, smiles_column: str, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    from molsepnorm.molecules.featurize.sdf import smiles_of

    for number, (structure, values) in enumerate(_records(text), 1):
        title = values.get(_TITLE) or structure.partition("\n")[0].strip()
        row = {**values, _TITLE: title, smiles_column: smiles_of(structure)}
        yield number, [row.get(column, "") for column in columns]


def _records(text: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the structure and the properties of each record."""
    lines: list[str] = []
    for line in text:
        if line.startswith("$$$$"):
            yield _parsed("".join(lines))
            lines = []
        else:
            lines.append(line)
    if rest := "".join(lines).rstrip():  # the last record may lack its end mark
        yield _parsed(rest)


def _parsed(record: str) -> tuple[str, dict[str, str]]:
    """Return the structure and the properties; the values of a repeated one are lines of a cell."""
    end = record.find(f"\n{_END}")
    end = record.find("\n", end + 1) if end >= 0 else record.find("\n>")
    if end < 0:
        return record, {}
    _, *parts = _PROPERTY.split(record[end + 1 :])
    values: dict[str, str] = {}
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        value = value.strip("\n")
        values[name] = f"{values[name]}\n{value}" if name in values else value
    return record[: end + 1], values
