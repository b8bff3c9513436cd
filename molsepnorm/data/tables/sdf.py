"""SDF files: a structure and named properties per record."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from molsepnorm.data.tables.formats import ReadOptions, open_decompressed
from molsepnorm.errors import DataError, warn_of_data

_TITLE = "name"
_PROPERTY = re.compile(r"^>(?=[ \t<])[^\n]*?<(.*)>[^>\n]*$", re.MULTILINE)  # not a value >10
_END = "M  END"


def read_sdf(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield an SDF in pieces; the index of a row is the number of its record, from 1.

    The columns are the structures as SMILES, under `options.smiles_column`; the titles, under
    `name`; and every property of any record. The file is read twice, since later records may have
    properties that the first lacks. A property that a record has twice becomes two columns of one
    name. The structure replaces a property called `smiles_column`; titles fill the blanks of one
    called `name`.

    A record that RDKit cannot read is a row too, see `molecules.featurize.sdf`. Text is UTF-8, or
    otherwise Windows-1252.

    Raises:
        DataError: no record has a structure.
    """
    from molsepnorm.molecules.featurize.sdf import smiles_of

    smiles_column = options.smiles_column
    with open_decompressed(path, name) as file:
        found = _properties(file)
    if smiles_column in found:
        warn_of_data(
            f"{name}: the SMILES are those of the structures; the property '{smiles_column}' is "
            "not read"
        )
    properties = {smiles_column: 1, _TITLE: 1} | found | {smiles_column: 1}
    columns = [name for name, times in properties.items() for _ in range(times)]
    with open_decompressed(path, name) as file:
        records = _records(file)
        start = 1
        while batch := list(islice(records, rows)):
            if start == 1 and not any(_END in record for record in batch):
                raise DataError(
                    f"{name} is not an SDF: it has no structure, which ends with a line '{_END}'"
                )
            cells = []
            for record in batch:
                block, values = _parsed(record)
                title, *more = values.get(_TITLE, [""])
                values[_TITLE] = [title or _decoded(block.partition("\n")[0].strip()), *more]
                values[smiles_column] = [smiles_of(block)]
                row: list[str] = []
                for column, times in properties.items():
                    own = values.get(column, [])
                    row += [*own, *[""] * (times - len(own))]
                cells.append(row)
            index = range(start, start + len(batch))
            yield pd.DataFrame(cells, index=index, columns=columns, dtype=object)
            start += len(batch)


def _lines(file: BinaryIO) -> io.TextIOWrapper:
    """Return lines ended by "\\n", one character per byte; `_decoded` decodes them."""
    if file.peek(3)[:3] == b"\xef\xbb\xbf":  # type: ignore[attr-defined]
        file.read(3)
    return io.TextIOWrapper(file, encoding="latin-1", newline=None)


def _records(file: BinaryIO) -> Iterator[str]:
    lines: list[str] = []
    for line in _lines(file):
        if line.startswith("$$$$"):
            yield "".join(lines)
            lines = []
        else:
            lines.append(line)
    if rest := "".join(lines).rstrip():  # the last record may lack its end mark
        yield rest


def _properties(file: BinaryIO) -> dict[str, int]:
    """Return the names of all properties, and how often one record has each at most."""
    names: dict[str, str | None] = {}  # by the line
    max_counts: dict[str, int] = {}
    here: Counter[str] = Counter()
    for line in _lines(file):
        if line.startswith("$$$$"):
            here.clear()
        elif line.startswith(">"):
            if line not in names:
                found = _PROPERTY.match(line.rstrip("\n"))
                names[line] = _decoded(found[1]) if found else None
            if (name := names[line]) is not None:
                here[name] += 1
                max_counts[name] = max(max_counts.get(name, 0), here[name])
    return max_counts


def _parsed(record: str) -> tuple[str, dict[str, list[str]]]:
    """Return the structure, and the values of each property.

    A value ends at the header of the next property, so that it may have blank lines.
    """
    end = record.find(f"\n{_END}")
    end = record.find("\n", end + 1) if end >= 0 else record.find("\n>")
    if end < 0:
        return record, {}
    _, *parts = _PROPERTY.split(record[end + 1 :])
    values: dict[str, list[str]] = {}
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        values.setdefault(_decoded(name), []).append(_value(value))
    return record[: end + 1], values


def _value(text: str) -> str:
    """Return a value without the blank lines around it."""
    lines = text.lstrip("\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return _decoded("\n".join(lines))


def _decoded(text: str) -> str:
    if text.isascii():
        return text
    raw = text.encode("latin-1")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")
