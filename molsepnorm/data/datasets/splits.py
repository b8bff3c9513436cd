"""Which molecules train, validate and test: named by a column or a file, or drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.datasets.splitters import LEAST, draw
from molsepnorm.data.tables import as_file, locate
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.writing import clear_errors

__all__ = ["WORDS", "make_splits"]

WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""What a column may say, in lower case -> the split that it means."""
_PURPOSE = {
    "train": "the model learns from them",
    "val": "the best epoch is chosen by them",
    "test": "the finished model is scored on them",
}
_FORM = 'Expected is a list of splits, such as [{"train": [0, 1, 2], "val": [3], "test": "4-9"}]'
_ROWS = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")

Named = dict[str, list[int]]  # of each split, its rows in the source


def make_splits(
    config: DataConfig,
    rows: np.ndarray,  # (G,)
    smiles: Sequence[str],
    column: Sequence[str] | None,
    source: Path,
    index: Sequence[int] | np.ndarray,
) -> dict[str, np.ndarray]:
    """Sorted int64 indices into the store for each of `SPLITS`; none where `config.split` is None.

    Args:
        config: `splits_column` or `splits_file` where given, otherwise what to draw.
        rows: of each of the G molecules in the store, its row in the source.
        smiles: of every row of the source.
        column: the texts of `splits_column` in every row, where there is one.
        source: the source's path, for errors.
        index: for each row what `molsepnorm.data.tables.locate` needs, for errors.

    Raises:
        ConfigError: there is no such fold.
        DataError: the column or the file does not name a split, or a split would have too few
            molecules: 2 train, 1 validates and 1 tests at the least.
    """
    if config.split is None:
        return {}
    if config.folds is not None and config.fold >= config.folds:
        raise ConfigError(
            f"data.fold is {config.fold}, but data.folds makes {config.folds}, counted from 0"
        )
    if column is not None:
        named = _read_column(column, config, source, index)
        where, setting = f"{source}, column '{config.splits_column}'", "data.splits_column"
    elif config.splits_file is not None:
        named = _read_file(config.splits_file, config.fold, source, len(smiles))
        where, setting = f"{config.splits_file}, entry {config.fold}", "data.splits_file"
    else:
        return draw(config, rows, smiles, source)
    return _look_up(named, rows, len(smiles), where, setting)


# Named by a column or a file


def _read_column(
    column: Sequence[str], config: DataConfig, source: Path, index: Sequence[int] | np.ndarray
) -> Named:
    """The rows of each split, as the cells of a column say; a row whose cell is blank is in none.

    Raises:
        DataError: a cell says something else.
    """
    words = [text.strip().lower() for text in column]
    if odd := [row for row, word in enumerate(words) if word and word not in WORDS]:
        where = f"{locate(source, int(index[odd[0]]))}, column '{config.splits_column}'"
        raise DataError(
            f"{where}: '{column[odd[0]]}' names no split. {len(odd)} such cell(s) in this column; "
            f"expected are {', '.join(WORDS)}, or a blank to leave the row out"
        )
    return {
        split: [row for row, word in enumerate(words) if WORDS.get(word) == split]
        for split in SPLITS
    }


def _read_file(path: Path, number: int, source: Path, num_rows: int) -> Named:
    """The rows of each split, as an entry of a file in the form of chemprop's `splits.json` says.

    Raises:
        ConfigError: there is no such entry.
        DataError: the file is of another form, or names a row that does not exist, or one twice.
        StorageError: it cannot be read.
    """
    try:
        with as_file(path) as file, clear_errors(path, "read"):
            entries = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}. {_FORM}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DataError(f"{path} is no list of splits. {_FORM}")
    if number >= len(entries):
        raise ConfigError(
            f"data.fold is {number}, but {path} has {len(entries)} split(s), counted from 0"
        )
    named: Named = {split: [] for split in SPLITS}
    owners: dict[int, str] = {}
    for key, listed in entries[number].items():
        where = f"{path}, entry {number}, '{key}'"
        if (split := WORDS.get(key.strip().lower())) is None:
            raise DataError(f"{where} is no split. {_FORM}")
        for row in _rows_of(listed, where):
            if not 0 <= row < num_rows:
                raise DataError(
                    f"{where}: there is no row {row}. {source} has {num_rows} rows, and the first "
                    "one after the header is row 0"
                )
            if row in owners:
                raise DataError(
                    f"{where}: row {row} is in '{owners[row]}' already; a row belongs in one split"
                )
            owners[row] = key
            named[split].append(row)
    return named


def _rows_of(listed: Any, where: str) -> Iterator[int]:
    """The rows of a list of numbers, or of a text such as "0-2,4", which is 0, 1, 2 and 4."""
    if isinstance(listed, str):
        for part in listed.split(","):
            ends = _ROWS.fullmatch(part)
            if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
                raise DataError(
                    f"{where}: '{part}' is neither a row nor a range of rows; rows are written as "
                    "in '0-99,120'"
                )
            yield from range(int(ends[1]), int(ends[2] or ends[1]) + 1)
        return
    if not isinstance(listed, list):
        raise DataError(f"{where} is no list of rows: {json.dumps(listed)[:40]}. {_FORM}")
    for row in listed:
        if type(row) is not int:  # True is an int too
            raise DataError(f"{where}: {json.dumps(row)[:40]} is no row; rows are whole numbers")
        yield row


def _look_up(
    named: Named, rows: np.ndarray, num_rows: int, where: str, setting: str
) -> dict[str, np.ndarray]:
    """Rows of the source to indices into the store; rows that could not be read fall away.

    Raises:
        DataError: a split has too few molecules.
    """
    index = np.full(num_rows, -1)
    index[rows] = np.arange(len(rows))
    splits = {split: np.sort(index[np.array(named[split], dtype=np.int64)]) for split in SPLITS}
    splits = {split: found[found >= 0] for split, found in splits.items()}
    for split, least in LEAST.items():
        if len(splits[split]) < least:
            counts = ", ".join(f"{len(named[each])} {each}" for each in SPLITS)
            raise DataError(
                f"{where}: {len(splits[split]) or 'no'} {split} molecule(s) that can be read; its "
                f"rows are {counts}. {split} needs {least} or more, as {_PURPOSE[split]}: name "
                f"them there, or leave {setting} out to have the split drawn"
            )
    return splits
