"""SMILES files: a SMILES and a name on every line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import pandas as pd

from molsepnorm.data.tables.formats import ReadOptions, as_text, not_decoded, open_decompressed
from molsepnorm.errors import DataError

_EXTENSION = re.compile(r"(\S+)[ \t]+(\|[^|]*\|)(?=\s|$)")  # CXSMILES


def read_smi(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a SMILES file in pieces; the index of a row is its line number.

    The columns are the SMILES, under `options.smiles_column`, and `name`, the rest of the line. If
    the first word is "smiles", "CXSMILES" or similar, or `options.smiles_column`, the first line is
    a header that names the columns. They are separated by tabs if the header has tabs, otherwise by
    spaces, in which case the last column is the rest of the line.

    A line that begins with # is a comment, and one that begins with a tab has no SMILES. A blank
    line is a row of blanks, as in CSV. A CXSMILES extension, `|…|` after the SMILES, belongs to the
    SMILES and not to the name.

    Raises:
        DataError: the file is not text, or a line has more cells than a header with tabs.
    """
    with open_decompressed(path, name) as file:
        lines = _lines(as_text(file, name, options), name)
        first = next(lines, None)
        if first is None:
            return
        table = _Layout(name, options.smiles_column, first[1])
        pending = [] if table.has_header else [first]
        while pending := [*pending, *islice(lines, rows - len(pending))]:
            yield pd.DataFrame(
                [table.cells(line, number) for number, line in pending],
                index=[number for number, _ in pending],
                columns=table.columns,
                dtype=object,
            )
            pending = []


def _lines(text: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, with their numbers from 1."""
    try:
        for number, line in enumerate(text, 1):
            if not line.startswith("#"):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise not_decoded(name, error) from None


class _Layout:
    """The columns of a file, as its first line defines them."""

    def __init__(self, source: str, smiles_column: str, line: str) -> None:
        self._source = source
        self._tabs = "\t" in line
        words = [word.strip() for word in line.split("\t")] if self._tabs else line.split()
        self.has_header = bool(words) and (
            words[0].lower().endswith("smiles") or words[0] == smiles_column
        )
        self.columns = words if self.has_header else [smiles_column, "name"]
        self._tabs = self._tabs and self.has_header
        if smiles_column not in self.columns:
            self.columns[0] = smiles_column

    def cells(self, line: str, number: int) -> list[str]:
        wanted = len(self.columns)
        extension = ""
        if "|" in line and (found := _EXTENSION.match(line.lstrip())):
            extension = found[2]
            line = found[1] + line.lstrip()[found.end() :]
        if self._tabs:
            cells = line.split("\t")
        else:
            cells = line.split(None, wanted - 1)
            if line.startswith("\t") and wanted > 1:  # the SMILES is missing
                cells = ["", *line.split(None, wanted - 2)]
            if len(cells) == wanted:
                cells[-1] = cells[-1].rstrip()
        if len(cells) > wanted:
            raise DataError(
                f"{self._source}, line {number}: {len(cells)} cells, separated by tabs, under a "
                f"header with {wanted}"
            )
        if extension:
            cells[0] = f"{cells[0]} {extension}"
        return cells + [""] * (wanted - len(cells))
