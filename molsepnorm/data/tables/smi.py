"""SMILES files: a SMILES and a name on every line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pandas as pd

from molsepnorm.data.tables.formats import ReadOptions, open_text, pieces_of
from molsepnorm.errors import DataError

_EXTENSION = re.compile(r"(\S+)[ \t]+(\|[^|]*\|)(?=\s|$)")  # CXSMILES


def read_smi(path: Path, name: str, rows: int, options: ReadOptions) -> Iterator[pd.DataFrame]:
    """Yield a SMILES file in pieces; the index of a row is its line number.

    The columns are the SMILES, under `options.smiles_column`, and `name`, the rest of the line. The
    first line is a header if its first word ends in "smiles" or is `options.smiles_column`. Cells
    are separated by tabs if the header has tabs, otherwise by spaces.

    A line that begins with # is a comment, and one that begins with a tab has no SMILES. A blank
    line is a row of blanks. A CXSMILES extension, `|…|`, belongs to the SMILES. Commas in the first
    line, or more cells than in a header with tabs, are a `DataError`.
    """
    smiles_column = options.smiles_column
    with open_text(path, name, options) as text:
        lines = (
            (number, line.rstrip("\r\n"))
            for number, line in enumerate(text, 1)
            if not line.startswith("#")
        )
        first = next(lines, None)
        if first is None:
            return
        tabs = "\t" in first[1]
        words = [word.strip() for word in first[1].split("\t")] if tabs else first[1].split()
        start = "".join(words[:1])
        has_header = start.lower().endswith("smiles") or start == smiles_column
        if "," in "".join(first[1].split()[:1]):
            raise DataError(
                f"{name}, line {first[0]}: cells of a .smi file are separated by spaces or tabs, "
                "not commas: end its name with .csv, and write names of columns, such as smiles, "
                "into the first line"
            )
        columns = words if has_header else [smiles_column, "name"]
        if smiles_column not in columns:
            columns[0] = smiles_column
        table = chain([] if has_header else [first], lines)
        cells = _cells(table, len(columns), tabs and has_header, name)
        yield from pieces_of(cells, columns, rows)


def _cells(
    lines: Iterable[tuple[int, str]], width: int, tabs: bool, name: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbers of lines and their cells, filled with blanks."""
    for number, line in lines:
        extension = ""
        if match := _EXTENSION.match(line.lstrip()) if "|" in line else None:
            line, extension = match[1] + line.lstrip()[match.end() :], f" {match[2]}"
        if tabs:
            cells = line.split("\t")
        elif line.startswith("\t") and width > 1:  # the SMILES is missing
            cells = ["", *line.rstrip().split(None, width - 2)]
        else:
            cells = line.rstrip().split(None, width - 1)
        if len(cells) > width:
            raise DataError(
                f"{name}, line {number}: {len(cells)} cells, separated by tabs, under a header "
                f"with {width}"
            )
        cells += [""] * (width - len(cells))
        cells[0] += extension
        yield number, cells
