"""Train, validation and test splits: named by a column, a file or an argument, or drawn."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import StrictInt, TypeAdapter, ValidationError

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.datasets.splitters import (
    MIN_SIZES,
    draw_fold,
    draw_splits,
    draw_validation,
    read_times,
)
from molsepnorm.data.tables import as_file
from molsepnorm.errors import ConfigError, DataError, counted, warn_of_data
from molsepnorm.files.writing import clear_errors
from molsepnorm.tasks import Target

SPLIT_OF_WORD = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Words for a split, in lower case -> the name of the split."""
_FORM = 'Expected is a list of splits, such as [{"train": [0, 1, 2], "val": [3], "test": "4-9"}]'
_ROWS = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
_ENTRIES = TypeAdapter(list[dict[str, list[StrictInt] | str]])

_Rows = dict[str, list[int]]  # split -> rows of the source
_Splits = dict[str, np.ndarray]  # split -> sorted int64 indices of molecules in the store
_TIMES = (
    "is not a time. Expected are dates of one format that --time-format gives, such as %d/%m/%Y, "
    "%d-%b-%y or %m%Y, or ISO dates such as 2021, 2021-05 or 2021-05-03, or numbers (--time-format "
    "number if they look like dates), or a blank to leave the row out"
)
_WORDS = f"names no split. Expected are {', '.join(SPLIT_OF_WORD)}, or a blank to leave the row out"


def assigns_splits(cells: Iterable[str]) -> bool:
    """Return whether a column with these cells could assign rows to splits.

    >>> assigns_splits(["Train", "", "valid", "test"]), assigns_splits(["train", "test", "7"])
    (True, False)
    """
    words = {cell.strip().lower() for cell in cells} - {""}
    return words <= SPLIT_OF_WORD.keys() and {"train", "test"} <= {*map(SPLIT_OF_WORD.get, words)}


def make_splits(
    config: DataConfig,
    rows: np.ndarray,  # (G,)
    molecules: np.ndarray,  # (G,)
    smiles: Sequence[str],
    column: Sequence[str] | None,
    source: Path | str,
    where: Callable[[int], str],
    strata: np.ndarray | None = None,  # (G,)
) -> _Splits:
    """Return the molecules of each split; an empty dictionary if `config.split` is None.

    Args:
        config: `splits_column` or `splits_file`, or else how to draw the splits.
        rows: row in the source of each of the G molecules in the store.
        molecules: numbers of these; a random split keeps those with the same number together.
        smiles: SMILES of every row of the source.
        column: cells of `splits_column` or `time_column` of every row, if there is one.
        source, where: the source, and a function that returns the position of a row, for errors.
        strata: numbers of the molecules for a stratified split, see `strata_of`.

    Raises:
        ConfigError: there is no such fold.
        DataError: the column or the file does not name a split, a cell is not a time, or a split
            has too few molecules: it needs 2 for training, 1 for validation and 1 for the test. A
            column or file may name no validation rows, see `with_validation`, and no test rows.
            With `config.folds`, its training and validation rows are divided into folds.
    """
    if config.split is None:
        return {}
    if config.time_column is not None:
        assert column is not None
        times, odd = read_times(column, config.time_format)
        _refuse_cells(odd, column, config.time_column, where, _TIMES)
        return draw_splits(config, rows, molecules, smiles, source, times)
    if config.splits_column is not None:
        assert column is not None
        words = [text.strip().lower() for text in column]
        unknown = [row for row, word in enumerate(words) if word and word not in SPLIT_OF_WORD]
        _refuse_cells(unknown, column, config.splits_column, where, _WORDS)
        named = {
            split: [row for row, word in enumerate(words) if SPLIT_OF_WORD.get(word) == split]
            for split in SPLITS
        }
        place, remedy = f"{source}, column '{config.splits_column}'", "data.splits_column"
    elif config.splits_file is not None:
        named = _read_file(config.splits_file, config.fold, source, len(smiles))
        # an empty text of another type is a structure that has no SMILES
        if any(type(text) is str and not text.strip() for text in smiles):
            warn_of_data(
                f"{source} has rows without a SMILES, which count in {config.splits_file}: a "
                "program that skips blank lines numbers the rows after them differently"
            )
        place, remedy = f"{config.splits_file}, entry {config.fold}", "data.splits_file"
    else:
        return draw_splits(config, rows, molecules, smiles, source, strata=strata)
    splits = _look_up(named, rows, len(smiles), place, remedy)
    if config.folds is not None:
        rest = np.concatenate([splits["train"], splits["val"]])
        splits["train"], splits["val"] = draw_fold(rest, molecules, config)
    return splits


def strata_of(
    config: DataConfig, targets: Sequence[Target], labels: np.ndarray
) -> np.ndarray | None:
    """Return the number of the combination of classes of each molecule, int64 (G,), for a
    stratified split; None for another one.

    `targets` are the T targets, and `labels` (G, T) are NaN where missing.

    Raises:
        ConfigError: no target has classes.
    """
    if config.split_type != "stratified":
        return None
    classes = labels[:, [target.kind != "regression" for target in targets]]
    if not classes.shape[1]:
        raise ConfigError(
            "data.split_type: stratified needs a target with classes, and there is none: use random"
        )
    return np.unique(np.nan_to_num(classes, nan=-1.0), axis=0, return_inverse=True)[1].reshape(-1)


def named_splits(splits: Mapping[str, Any], rows: np.ndarray, num_rows: int) -> _Splits:
    """Return the molecules of splits that are given as rows of the source, under the name of each
    split, such as train or valid. The test and the validation split may be missing or empty;
    `rows` are as in `make_splits`.

    Raises:
        ConfigError: `splits` is not a dictionary.
        DataError: a row does not exist or is named twice, or a split has too few molecules.
    """
    if not isinstance(splits, Mapping):
        raise ConfigError("splits must be a dictionary, such as {'train': [0, 1], 'val': [2], …}")
    listed = {str(name): np.asarray(part).tolist() for name, part in splits.items()}
    try:
        (entry,) = _ENTRIES.validate_python([listed])
    except ValidationError as error:
        raise DataError(f"splits: {_first(error)}") from None
    named = _read_entry(entry, "splits", "the list of molecules", num_rows)
    return _look_up(named, rows, num_rows, "splits", "splits")


def split_labelled(
    split: Callable[[np.ndarray], _Splits],
    molecules: np.ndarray,
    is_labelled: np.ndarray,
    named: bool,
) -> _Splits:
    """Return the splits of the molecules (n,) that have a label; of all if none has one.

    Splits that are drawn have no other molecules. Of splits that are named row by row, training and
    validation have no others if they are large enough without; test molecules without labels stay,
    so that they are predicted. `split` returns the splits of molecules as indices into these
    molecules, and `is_labelled` has an element for each of all molecules.
    """
    if not is_labelled[molecules].any():
        is_labelled = np.ones_like(is_labelled)
    chosen = molecules if named else molecules[is_labelled[molecules]]
    splits = {name: chosen[part] for name, part in split(chosen).items()}
    for name in ("train", "val") if splits else ():
        labelled = splits[name][is_labelled[splits[name]]]
        if len(labelled) >= MIN_SIZES[name]:
            splits[name] = labelled
    return splits


def with_validation(splits: _Splits, molecules: np.ndarray, config: DataConfig) -> _Splits:
    """Return the splits, with validation molecules drawn from the training molecules if there are
    none.

    They are a random share of them, in the ratio of the first two shares of `config.split`.
    `molecules` are the numbers of all molecules, as in `make_splits`. Errors as in
    `draw_validation`; a ConfigError if `config.split` is None.
    """
    if not splits or len(splits["val"]):
        return splits
    if config.split is None:
        raise ConfigError(
            "no validation molecules are named, and data.split: null leaves open how many to draw: "
            "name them, or leave data.split out"
        )
    train, val = draw_validation(splits["train"], molecules, config)
    return {**splits, "train": train, "val": val}


def _refuse_cells(
    odd: Sequence[int] | np.ndarray,
    column: Sequence[str],
    name: str,
    where: Callable[[int], str],
    why: str,
) -> None:
    """Raise a `DataError` about the first of the odd rows of a column, if there are any."""
    if len(odd):
        cell, count = column[odd[0]].strip()[:40], counted(len(odd), "such cell")
        raise DataError(
            f"{where(int(odd[0]))}, column '{name}': '{cell}' {why}. {count} in this column"
        )


def _read_file(path: Path, number: int, source: Path | str, num_rows: int) -> _Rows:
    """Return the rows of each split by an entry of a file like chemprop's `splits.json`."""
    with as_file(path) as file, clear_errors(path, "read"):
        content = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        entries = _ENTRIES.validate_json(content)
    except ValidationError as error:
        raise DataError(f"{path}: {_first(error)}. {_FORM}") from None
    if number >= len(entries):
        raise ConfigError(
            f"data.fold is {number}, but {path} has {counted(len(entries), 'split')}, "
            "counted from 0"
        )
    return _read_entry(entries[number], f"{path}, entry {number}", source, num_rows)


def _first(error: ValidationError) -> str:
    """Return the place (entry, split) and the text of the first problem."""
    first = error.errors()[0]
    return f"{', '.join(map(str, first['loc'][:2])) or 'content'}: {first['msg']}"


def _read_entry(
    entry: Mapping[str, list[int] | str], where: str, source: Path | str, num_rows: int
) -> _Rows:
    named: _Rows = {split: [] for split in SPLITS}
    owners: dict[int, str] = {}
    for key, listed in entry.items():
        here = f"{where}, '{key}'"
        if (split := SPLIT_OF_WORD.get(key.strip().lower())) is None:
            raise DataError(f"{here} is not a split. {_FORM}")
        for row in _parse_rows(listed, here) if isinstance(listed, str) else listed:
            if not 0 <= row < num_rows:
                raise DataError(
                    f"{here}: there is no row {row}. {source} has {num_rows} rows, and the first "
                    "one (after a header) is row 0"
                )
            if row in owners:
                raise DataError(
                    f"{here}: row {row} is in '{owners[row]}' already; a row belongs in one split"
                )
            owners[row] = key
            named[split].append(row)
    return named


def _parse_rows(text: str, where: str) -> Iterable[int]:
    """Yield the rows of a text: "0-2,4" is 0, 1, 2 and 4."""
    for part in text.split(","):
        ends = _ROWS.fullmatch(part)
        if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
            raise DataError(
                f"{where}: '{part}' is neither a row nor a range of rows; rows are written as in "
                "'0-99,120'"
            )
        yield from range(int(ends[1]), int(ends[2] or ends[1]) + 1)


def _look_up(named: _Rows, rows: np.ndarray, num_rows: int, where: str, remedy: str) -> _Splits:
    """Convert rows of the source to indices into the store, without rows that were rejected."""
    index = np.full(num_rows, -1)
    index[rows] = np.arange(len(rows))
    splits = {split: np.sort(index[np.array(named[split], dtype=np.int64)]) for split in SPLITS}
    splits = {split: found[found >= 0] for split, found in splits.items()}
    needed = {**MIN_SIZES, "test": MIN_SIZES["test"] * bool(named["test"])}
    if not named["val"]:  # they are drawn from the training molecules
        needed |= {"train": needed["train"] + needed["val"], "val": 0}
    for split, minimum in needed.items():
        if len(splits[split]) < minimum:
            counts = ", ".join(f"{len(named[each])} {each}" for each in SPLITS)
            raise DataError(
                f"{where}: {counted(len(splits[split]), f'{split} molecule')} that can be read; "
                f"its rows are {counts}. {split} needs {minimum} or more: name them there, "
                f"or leave {remedy} out to have the split drawn"
            )
    return splits


def split_name(config: DataConfig) -> str | None:
    """Return the kind of split, such as "scaffold split"; None if it is not known."""
    if config.in_memory or (config.dataset is None and config.table is None):
        return None  # the split may be an argument
    if config.dataset is not None:
        return f"split of {config.dataset}"
    if config.splits_column is not None:
        return f"split of the column {config.splits_column}"
    if config.splits_file is not None:
        return "split of a file"
    kinds = {"scaffold-ogb": "scaffold split", "time": "split by time", "butina": "cluster split"}
    return kinds.get(config.split_type, f"{config.split_type} split")


def split_details(config: DataConfig) -> str:
    """Return the kind of split and its settings, such as "scaffold split, seed 3"."""
    name = split_name(config) or f"{config.split_type} split"
    if config.dataset is not None or config.split_type == "time":
        return name
    if config.splits_file is not None:
        return f"{name}, entry {config.fold}"
    if config.split_type != "scaffold-ogb" and (config.splits_column is None or config.folds):
        name = f"{name}, seed {config.split_seed}"
    if config.folds is not None:
        return f"{name}, fold {config.fold} of {config.folds}"
    return f"{name}, replicate {config.fold}" if config.fold else name
