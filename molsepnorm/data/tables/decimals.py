"""Numbers with decimal commas, such as 0,5, in tables whose cells are not separated by commas.

A comma may be a decimal mark or group thousands: 1,234 is 1.234 in Germany and 1234 in the United
States, and 1.234 is the other way round. A column is converted only if one of its cells decides it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.tables.formats import positions
from molsepnorm.errors import DataError, warn_of_data

Points = Literal["any", "beside commas", "none"]
"""Which points may group thousands. In a file of a spreadsheet that uses decimal commas, 1.234 is
1234. "any": the file is separated by semicolons, the separator of such spreadsheets. "beside
commas": only if another column has decimal commas. "none": numbers with points are exact."""

BLANKS = ("", "nan", "na", "n/a", "none", "null", "<na>", "#n/a")
"""Cells among numbers that are treated as missing values, in lower case."""

_KINDS = {
    "plain": r"\d+(?:e[-+]?\d+)?",
    "point groups": r"[1-9]\d{0,2}(?:\.\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}",  # 1.234,5
    "comma groups": r"[1-9]\d{0,2}(?:,\d{3})+\.\d*|[1-9]\d{0,2}(?:,\d{3}){2,}",  # 1,234.5
    "unclear comma": r"[1-9]\d{0,2},\d{3}",  # 1,234
    "comma": r"\d*,\d+(?:e[-+]?\d+)?",  # 0,5
    "unclear point": r"[1-9]\d{0,2}\.\d{3}",  # 1.234
    "point": r"(?:\d*\.\d+|\d+\.)(?:e[-+]?\d+)?",  # 0.5
}
_NUMBER = re.compile(
    r"\s*(?:[<>]=?|[≤≥])?\s*[-+]?(?:"
    + "|".join(f"(?P<{name.replace(' ', '_')}>{pattern})" for name, pattern in _KINDS.items())
    + r")\s*",
    re.IGNORECASE,
)
_UNCLEAR = "unclear"
"""Attribute of a DataFrame: why a column cannot be read (`_Unclear`), by the column's name."""


class _Cell(NamedTuple):
    text: str
    row: int  # its index in the DataFrame


class _Unclear(NamedTuple):
    """Why the numbers of a column cannot be read."""

    reason: str
    """The sentence, with braces in place of the cells."""
    cells: tuple[_Cell, ...]

    def describe(self, source: Path | str) -> str:
        """Return the sentence with the cells and their positions."""
        places = (positions(source, each.row) for each in self.cells)
        shown = (f"'{c.text}' ({w} {n})" for c, (w, n) in zip(self.cells, places, strict=True))
        return f"{self.reason.format(*shown)}. {_ADVICE}"


def require_clear(
    table: pd.DataFrame, names: Collection[str], source: Path | str, advice: str = ""
) -> None:
    """Check that the numbers of these columns have one meaning.

    Args:
        table: the table, or a piece of it, as `read_chunks` returns it.
        names: the columns whose numbers are used.
        source: name of the table in errors.
        advice: what else can be done, at the end of errors.

    Raises:
        DataError: a column has numbers such as 1,234, which may be 1.234 or 1234.
    """
    unclear: Mapping[str, _Unclear] = table.attrs.get(_UNCLEAR, {})
    for name in names:
        if name in unclear:
            raise DataError(f"{source}, column '{name}': {unclear[name].describe(source)}{advice}")


class Decimals:
    """The meaning of commas and points in the columns of a table.

    Args:
        pieces: the whole table, once.
        points: which points may group thousands.
        skip: name of a column without numbers.
    """

    def __init__(
        self,
        pieces: Iterable[pd.DataFrame],
        points: Points,
        skip: str,
    ) -> None:
        counts: list[Counter[str]] = []
        examples: list[dict[str, _Cell]] = []
        names: list[str] = []
        for piece in pieces:
            if not names:
                names = list(piece.columns)
                counts = [Counter() for _ in names]
                examples = [{} for _ in names]
            for number, name in enumerate(names):
                if name != skip:
                    column = piece.iloc[:, number]
                    for cell, times in Counter(column).items():
                        kind = _kind(cell)
                        counts[number][kind] += times
                        if kind not in examples[number]:
                            row = int(piece.index[(column == cell).argmax()])
                            examples[number][kind] = _Cell(cell.strip(), row)
        self._names = names
        self._examples = examples
        self._verdicts = [_verdict(*each) for each in zip(counts, examples, strict=True)]
        commas = any(verdict == "convert" for verdict in self._verdicts)
        for number, (count, example) in enumerate(zip(counts, examples, strict=True)):
            only_unclear = count["unclear point"] and not self._verdicts[number]
            if not only_unclear or count["point"] or count["word"] >= _numbers(count):
                continue
            cell = example["unclear point"]
            if points != "none" and (commas or (points == "any" and count["plain"])):
                self._verdicts[number] = _Unclear(
                    f"{{}} may be {cell.text} or {cell.text.replace('.', '')}, since points group "
                    "thousands in tables with decimal commas",
                    (cell,),
                )
            elif points == "any":
                self._verdicts[number] = "points"

    def announce(self, source: str, only: Collection[str] | None = None) -> None:
        """Warn about the columns that are converted, or whose points are read as decimal points.

        Args:
            source: name of the table.
            only: the columns that are used; None for all.
        """
        for name, verdict, example in zip(self._names, self._verdicts, self._examples, strict=True):
            if only is not None and name not in only:
                continue
            if verdict == "convert":
                text = next(example[kind].text for kind in _DECIDING if kind in example)
                warn_of_data(
                    f"{source}, column '{name}': decimal commas are read as points, such as "
                    f"'{text}' as {_converted(text)}"
                )
            elif verdict == "points":
                warn_of_data(
                    f"{source}, column '{name}': points are read as decimal points, such as "
                    f"'{example['unclear point'].text}', although semicolons separate the cells"
                )

    def apply(self, piece: pd.DataFrame, only: Collection[str] | None = None) -> pd.DataFrame:
        """Return a piece of the table with its decimal commas replaced by points.

        Args:
            piece: the piece. Its other columns are not changed.
            only: the columns that are used; None for all.
        """
        unclear = {}
        for number, (name, verdict) in enumerate(zip(self._names, self._verdicts, strict=True)):
            if only is not None and name not in only:
                continue
            if verdict == "convert":
                piece.isetitem(number, np.array([*map(_converted, piece.iloc[:, number])], object))
            elif isinstance(verdict, _Unclear):
                unclear[name] = verdict
        piece.attrs[_UNCLEAR] = unclear
        return piece


_ADVICE = "Write such numbers without a mark for thousands and with a decimal point"
_DECIDING = ("comma", "point groups")


def _kind(cell: str) -> str:
    if found := _NUMBER.fullmatch(cell):
        assert found.lastgroup is not None
        return found.lastgroup.replace("_", " ")
    return "blank" if cell.strip().lower() in BLANKS else "word"


_Verdict = Literal["convert", "points"] | _Unclear | None
"""How a column is read. "convert": its commas are decimal points; "points": its points are; None:
it stays as it is; otherwise it is refused if it is used."""


def _numbers(count: Counter[str]) -> int:
    return sum(count[kind] for kind in _KINDS)


def _verdict(count: Counter[str], example: dict[str, _Cell]) -> _Verdict:
    """Return "convert", why a column is unclear, or None if it stays as it is."""
    groups, decided = count["point groups"], count["point groups"] + count["comma"]
    commas = count["comma"] + count["unclear comma"]
    if count["word"] >= _numbers(count) or not (commas or groups or count["comma groups"]):
        return None
    points = count["point"] + count["unclear point"] * (not groups)
    if points or (count["comma groups"] and decided):
        kinds = ("comma", "point groups", "unclear comma", "comma groups")
        first = next(example[kind] for kind in kinds if kind in example)
        others = ("point", "unclear point", "comma groups")
        second = next(example[kind] for kind in others if example.get(kind, first) != first)
        return _Unclear("commas and points are mixed, such as in {} and {}", (first, second))
    if count["comma groups"]:
        return _Unclear("commas group thousands, such as in {}", (example["comma groups"],))
    if decided:
        return "convert"
    cell = example["unclear comma"]
    meanings = f"{cell.text.replace(',', '.')} or {cell.text.replace(',', '')}"
    return _Unclear(f"{{}} may be {meanings}", (cell,))


def _converted(cell: str) -> str:
    """Return a number of a column with decimal commas as Python writes it; other text unchanged."""
    if _NUMBER.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell
