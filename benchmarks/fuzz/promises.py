"""Promises that hold for any input. Each function raises `Broken` if its promise is broken."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import molsepnorm
from molsepnorm import MolsepnormError

PACKAGE = str(Path(molsepnorm.__file__).parent)
_CODES = {0, 1, 2, *range(129, 160)}  # from 129 on, after a signal
csv.field_size_limit(1 << 30)


class Broken(Exception):
    """A broken promise. Findings with the same `key` are listed once."""

    def __init__(self, promise: str, what: str, key: str = "") -> None:
        super().__init__(promise, what, key)
        self.promise, self.what = promise, what
        self.key = key or re.sub(r"[\d'\"].*", "", what)[:80]

    def __str__(self) -> str:
        return self.what


def our_error(error: BaseException, library: bool = False) -> None:
    """Only errors of molsepnorm leave it. A library call may also raise ValueError in a `raise` of
    the package."""
    if isinstance(error, MolsepnormError):
        if not str(error).strip():
            raise Broken("no other exception", f"{type(error).__name__} without a message")
        return
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    last = frames[-1]
    raised = (last.line or "").startswith("raise") and last.filename.startswith(PACKAGE)
    if library and raised and isinstance(error, ValueError):
        return
    at = ours[-1] if ours else last
    text = "".join(traceback.format_exception(error))[-6000:]
    key = f"{type(error).__name__} at {Path(at.filename).name}:{at.name}"
    raise Broken("no other exception", text, key)


def clean_exit(result: Any, data: bool = False) -> None:
    """A command ends with 0, 1 or 2, or as after a signal, with a message and no traceback, and
    prints no escape sequences. With `data`, its output repeats the input, for a file."""
    if result.error is not None:
        our_error(result.error)
    if result.code not in _CODES:
        raise Broken("exit status", f"exit status {result.code}")
    for text in (result.out, result.err):
        if "Traceback (most recent call last)" in text:
            raise Broken("exit status", text[-3000:], "a traceback is printed")
    if result.code in (1, 2) and not result.err.strip():
        raise Broken("exit status", f"exit status {result.code} without a message")
    shown = result.err if data else result.out + result.err
    if escapes := re.findall(r"\x1b[^\n]{0,20}", shown):
        raise Broken("exit status", f"escape sequences reach the terminal: {escapes[:3]!r}")


def read_back(path: Path) -> list[list[str]]:
    """`csv` and pandas read a CSV of ours alike, with rows of equal length; return the rows."""
    rows = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))
    if len({len(row) for row in rows}) > 1:
        raise Broken("rows", f"{path.name} has rows of different lengths, as csv reads it")
    try:
        table = pd.read_csv(path, header=None, dtype=str, na_filter=False, skip_blank_lines=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise Broken("rows", f"pandas cannot read {path.name}: {error}") from None
    if table.to_numpy().tolist() != rows:
        what = f"{path.name}: {len(rows)} rows as csv reads it, {len(table)} by pandas"
        raise Broken("rows", what, "csv and pandas read other cells")
    return rows


def same_rows(before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> None:
    """Every row and column remains, in order, with the same cells; columns may follow."""
    if len(before) != len(after):
        raise Broken("rows", f"{len(before) - 1} rows became {len(after) - 1}")
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if list(old) != list(new[: len(old)]):
            what = "row" if number else "header"
            raise Broken("rows", f"{what} changed ({number}): {list(old)!r:.300} → {new!r:.300}")


def predicted(path: Path, targets: Sequence[str]) -> list[list[str]]:
    """Each row of an output of `predict` has numbers or a reason; return the rows."""
    rows = read_back(path)
    columns = [rows[0].index(f"{name}_pred") for name in targets]
    for row in rows[1:]:
        number_or_reason([row[column] for column in columns], row[-1], str(row[:2]))
    return rows


def number_or_reason(values: Sequence[Any], error: str | None, what: str) -> None:
    """There are finite numbers, or blanks and a reason."""
    empty = [value is None or value == "" for value in values]
    if error and not all(empty):
        what = f"both a value and a reason, {error!r:.200}: {what!r:.200}"
        raise Broken("number or reason", what)
    if not error and (any(empty) or not all(map(_finite, values))):
        raise Broken("number or reason", f"no reason, and values {values!r:.200}: {what!r:.200}")


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return value in ("red", "green", "blue")  # classes of the campaign's model


def same_numbers(before: Any, after: Any, what: str) -> None:
    """A damaged file is refused, or gives the same numbers as before."""
    if before != after:
        text = f"{what}: {before!r:.300} became {after!r:.300}"
        raise Broken("damage is noticed", text, f"{what} differ")


def same_run(before: Path, after: Path, same: bool, damaged: str) -> None:
    """The results of a run are finite; with `same`, they equal those of another run."""
    numbers((after / "metrics.json").read_text())
    if same:
        for name in ("metrics.json", "predictions_test.csv", "history.csv"):
            same_numbers(_content(before / name), _content(after / name), f"{name}, {damaged}")


def numbers(text: str) -> Any:
    """The numbers of a JSON text are finite; return its content."""

    def refuse(constant: str) -> None:
        raise Broken("number or reason", f"{constant} in {text:.300}", constant)

    return json.loads(text, parse_constant=refuse)


def _content(path: Path) -> Any:
    """Read a result without times."""
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        return {name: value for name, value in content.items() if name != "seconds"}
    rows = read_back(path)
    timed = [i for i, name in enumerate(rows[0]) if "second" in name]
    return [[cell for i, cell in enumerate(row) if i not in timed] for row in rows]
