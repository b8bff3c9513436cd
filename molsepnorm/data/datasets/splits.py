"""Train, validation and test splits: named by a column, a file or an argument, or drawn."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import StrictInt, TypeAdapter, ValidationError

from molsepnorm.data.datasets.columns import Columns
from molsepnorm.data.datasets.config import NONE, DataConfig
from molsepnorm.data.datasets.dataset import SPLITS, Dataset
from molsepnorm.data.datasets.duplicates import merged
from molsepnorm.data.datasets.splitters import MIN_SIZES, draw_splits, draw_validation, read_times
from molsepnorm.data.tables.formats import require_file
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
_Entry = dict[str, list[StrictInt] | str]
_ENTRIES = TypeAdapter(list[_Entry])

_Splits = dict[str, np.ndarray]  # split -> sorted int64 indices of molecules in the store
_TIMES = (
    "is not a time. Expected are ISO dates such as 2021, 2021-05 or 2021-05-03, dates of a "
    "--time-format such as %d/%m/%Y, %d-%b-%y or %m%Y, numbers (--time-format number if they look "
    "like dates), or a blank to leave the row out"
)
_WORDS = f"names no split. Expected are {', '.join(SPLIT_OF_WORD)}, or a blank to leave the row out"


def with_splits(
    dataset: Dataset, table: Columns, given: Mapping[str, Any] | None = None
) -> Dataset:
    """Return a data set with its duplicates merged, if `data.duplicates` is mean, and its splits.

    They are named by `splits_column`, `splits_file` or `given` (the rows of each split), or else
    drawn; there are none if `data.split` is None. Validation molecules are drawn if none are named.
    Molecules without a label are in no drawn split. A named test split keeps them, so that they are
    predicted; the others do not if they are large enough without.

    Raises:
        ConfigError: there is no such fold, no SMILES to merge duplicates by, or no classes for a
            stratified split.
        DataError: no molecule, or splits or times cannot be read, rows of a merged molecule are in
            several splits, or a split has too few molecules.
    """
    config, where = table.config, table.where
    if dataset.store.rejected and not len(dataset.store):
        row, _, reason = dataset.store.rejected[0]
        raise DataError(f"no molecule can be read; {where(row)}: {reason}")
    split_of, place = _named(dataset, table, given)
    numbers, is_labelled = np.arange(len(dataset.store)), dataset.has_label
    if config.duplicates == "mean":
        groups = _same_in_split(dataset, split_of, where)
        for group in groups:  # labels that conflict are counted by `merged`
            is_labelled[group] = is_labelled[group].any()
        dataset = merged(dataset, groups, where)
    elif config.split is not None and config.draws_molecules:
        numbers = dataset.molecule_ids
    cells = {config.smiles_column: numbers}
    kept = [name for name in config.kept_together if name != config.smiles_column]
    for name in config.features if config.split_by == NONE else kept:
        cells[name] = pd.factorize(table.keys(name))[0][dataset.store.rows]
    drawn_by = [cells[name] for name in config.kept_together] or [numbers]
    if config.split_by == NONE:
        drawn_by = [np.unique(np.stack([*cells.values()]), axis=1, return_inverse=True)[1].ravel()]
    if config.split_by not in (None, config.smiles_column) and len(drawn_by) == 1:
        dataset, (numbers,) = replace(dataset, groups=drawn_by[0]), drawn_by
    molecules, has_label = dataset.molecules, dataset.has_label
    if not has_label[molecules].any():
        has_label[:] = True
    splits, times, lines = _Splits(), None, list[str]()
    if config.time_column is not None and config.split is not None:
        times, odd = read_times(table.cells(config.time_column), config.time_format)
        _refuse_cells(odd, table, config.time_column, _TIMES)
    if split_of is not None:
        splits = _named_parts(split_of, place, molecules, dataset.store.rows)
        if config.folds is not None and given is None:
            rest = np.concatenate([splits["train"], splits["val"]])
            splits["train"], splits["val"] = draw_validation(rest, numbers, config, by_fold=True)
        for name in ("train", "val"):
            labelled = splits[name][has_label[splits[name]]]
            if len(labelled) >= MIN_SIZES[name]:
                splits[name] = labelled
    elif config.split is not None:
        molecules = molecules[has_label[molecules]]
        strata = strata_of(config, dataset.targets, dataset.labels[molecules])
        rows, smiles = dataset.store.rows[molecules], dataset.smiles or ()
        drawn = [
            draw_splits(config, rows, each[molecules], smiles, table.source, times, strata)
            for each in drawn_by
        ]
        splits = {
            name: molecules[reduce(np.intersect1d, [parts[name] for parts in drawn])]
            for name in SPLITS
        }
        if len(drawn) > 1:
            lines.append(_about_new(splits, len(molecules), config))
    unused = ~is_labelled
    for part in splits.values():
        unused[part] = False  # named test rows stay
    if splits and 0 < (bare := int(unused.sum())) < len(is_labelled):
        or_weight = "" if dataset.weights is None else " or with the weight 0"
        lines.append(f"Left out: {counted(bare, 'row')} without a label{or_weight}.")
    if splits and not len(splits["val"]):
        if config.split is None:
            raise ConfigError(
                "no validation molecules are named, and data.split: null leaves open how many to "
                "draw: name them, or leave data.split out"
            )
        splits["train"], splits["val"] = draw_validation(splits["train"], numbers, config)
        count = counted(len(splits["val"]), "molecule")
        lines.append(f"Validation: {count} drawn from the training split; no row is named val.")
    if times is not None:
        parts = {name: dataset.store.rows[part] for name, part in splits.items()}
        lines.append(_about_times(parts, times, table))
    return replace(dataset, splits=splits, warnings=(*dataset.warnings, *lines))


def _named(
    dataset: Dataset, table: Columns, given: Mapping[str, Any] | None
) -> tuple[np.ndarray | None, str]:
    """Return the index in `SPLITS` of each row of the source, int64, -1 for none, and the place
    where it is named, for errors; None if the splits are drawn."""
    config, count = table.config, len(table.frame)
    if given is not None:
        if not isinstance(given, Mapping):
            raise ConfigError("splits must be a dictionary, such as {'train': [0, 1], 'val': [2]}")
        listed = {str(name): np.asarray(part).tolist() for name, part in given.items()}
        entry = _entries("splits", lambda: _ENTRIES.validate_python([listed]))[0]
        return _by_entry(entry, "splits", "the list of molecules", count), "splits"
    if config.split is None or not config.names_rows:
        return None, ""
    if (name := config.splits_column) is not None:
        words = pd.Series(table.cells(name), dtype=object).str.strip().str.lower()
        split_of = words.map({word: SPLITS.index(split) for word, split in SPLIT_OF_WORD.items()})
        _refuse_cells(np.flatnonzero((words != "") & split_of.isna()), table, name, _WORDS)
        return split_of.fillna(-1).to_numpy(dtype=np.int64), f"{table.source}, column '{name}'"
    assert config.splits_file is not None
    # an empty text of another type is a structure that has no SMILES
    if any(type(text) is str and not text.strip() for text in dataset.smiles or ()):
        warn_of_data(
            f"{table.source} has rows without a SMILES, which count in {config.splits_file}: a "
            "program that skips blank lines numbers the rows after them differently"
        )
    require_file(config.splits_file)
    with clear_errors(config.splits_file, "read"):
        content = config.splits_file.read_bytes().removeprefix(codecs.BOM_UTF8)
    entries = _entries(f"{config.splits_file}", lambda: _ENTRIES.validate_json(content))
    if config.fold >= len(entries):
        raise ConfigError(
            f"data.fold is {config.fold}, but {config.splits_file} has "
            f"{counted(len(entries), 'split')}, counted from 0"
        )
    place = f"{config.splits_file}, entry {config.fold}"
    return _by_entry(entries[config.fold], place, table.source, count), place


def _named_parts(
    split_of: np.ndarray, place: str, molecules: np.ndarray, rows: np.ndarray
) -> _Splits:
    """Return the splits of these molecules (n,) if each has enough; `rows` are those of all
    molecules."""
    splits = {name: molecules[split_of[rows[molecules]] == i] for i, name in enumerate(SPLITS)}
    rows_of = {name: int((split_of == i).sum()) for i, name in enumerate(SPLITS)}
    needed = {**MIN_SIZES, "test": MIN_SIZES["test"] * (rows_of["test"] > 0)}
    if not rows_of["val"]:  # they are drawn from the training molecules
        needed |= {"train": needed["train"] + needed["val"], "val": 0}
    for split, minimum in needed.items():
        if len(splits[split]) < minimum:
            counts = ", ".join(f"{count} {name}" for name, count in rows_of.items())
            raise DataError(
                f"{place}: {counted(len(splits[split]), f'{split} molecule')} that can be read; "
                f"its rows are {counts}. {split} needs {minimum} or more"
            )
    return splits


def _same_in_split(
    dataset: Dataset, named: np.ndarray | None, where: Callable[[int], str]
) -> list[np.ndarray]:
    """Return the indices of each molecule with several rows; rows in no named split are left out,
    and rows in different splits are a `DataError`."""
    if dataset.smiles is None:
        raise ConfigError("data.duplicates: mean needs SMILES or RDKit molecules")
    rows = dataset.store.rows
    split_of = np.zeros(len(rows), dtype=np.int64) if named is None else named[rows]
    among = pd.Series(np.flatnonzero(split_of >= 0))
    molecules = among.groupby(dataset.molecule_ids[among])
    groups = [group.to_numpy() for _, group in molecules if len(group) > 1]
    for group in groups:
        if (other := group[split_of[group] != split_of[group[0]]]).size:
            one, two = group[0], other[0]
            raise DataError(
                f"{where(int(rows[two]))} is in {SPLITS[split_of[two]]}, and the same molecule "
                f"is in {SPLITS[split_of[one]]} at {where(int(rows[one]))}: data.duplicates: "
                "mean needs all rows of a molecule in one split"
            )
    return groups


def strata_of(
    config: DataConfig, targets: Sequence[Target], labels: np.ndarray
) -> np.ndarray | None:
    """Return the number of each molecule's combination of classes, int64 (G,), for a stratified
    split; `labels` (G, T) are NaN where missing."""
    if config.split_type != "stratified":
        return None
    classes = labels[:, [target.kind != "regression" for target in targets]]
    if not classes.shape[1]:
        raise ConfigError("data.split_type: stratified needs a target with classes: use random")
    return np.unique(np.nan_to_num(classes, nan=-1.0), axis=0, return_inverse=True)[1].reshape(-1)


def _about_new(splits: _Splits, rows: int, config: DataConfig) -> str:
    """Return a line about a split in which test rows are new in each of several columns."""
    sizes = ", ".join(f"{len(part)} {name}" for name, part in splits.items())
    those = f"that are new in one of {', '.join(config.kept_together)}, but not in all"
    needed = {**MIN_SIZES, "test": int(config.draws_test)}
    if any(len(splits[name]) < least for name, least in needed.items()):
        raise DataError(
            f"a split that leaves out rows {those} has {sizes}: the shares hold for each column, "
            "so use larger ones, such as --split 0.6,0.2,0.2, or one column (--split-by)"
        )
    return f"Left out: {counted(rows - sum(map(len, splits.values())), 'row')} {those}."


def _about_times(parts: _Splits, times: np.ndarray, table: Columns) -> str:
    """Return a line with the first and the last time of the rows of each split."""
    name = table.config.time_column
    assert name is not None
    spans, column = [], table.cells(name)
    for split, rows in parts.items():
        if len(rows):
            ends = rows[np.argmin(times[rows])], rows[np.argmax(times[rows])]
            spans.append(f"{split} {' to '.join(column[row].strip() for row in ends)}")
    blank = int(np.isnan(times).sum())
    left_out = f"; {counted(blank, 'row')} without a time left out" if blank else ""
    return f"Split by column '{name}': {', '.join(spans)}{left_out}."


def _refuse_cells(odd: np.ndarray, table: Columns, name: str, why: str) -> None:
    if len(odd):
        cell, count = table.cells(name)[odd[0]].strip()[:40], counted(len(odd), "such cell")
        raise DataError(f"{table.cell(odd[0], name)}: '{cell}' {why}. {count} in this column")


def _entries(where: str, validate: Callable[[], list[_Entry]]) -> list[_Entry]:
    try:
        return validate()
    except ValidationError as error:
        first = error.errors()[0]
        place = ", ".join(map(str, first["loc"][:2])) or "content"  # entry and split
        raise DataError(f"{where}: {place}: {first['msg']}. {_FORM}") from None


def _by_entry(entry: _Entry, where: str, source: Path | str, num_rows: int) -> np.ndarray:
    split_of = np.full(num_rows, -1)
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
            if split_of[row] >= 0:
                raise DataError(
                    f"{here}: row {row} is in '{SPLITS[split_of[row]]}' already; a row belongs in "
                    "one split"
                )
            split_of[row] = SPLITS.index(split)
    return split_of


def _parse_rows(text: str, where: str) -> Iterable[int]:
    """Yield the rows of a text: "0-2,4" is 0, 1, 2 and 4."""
    for part in text.split(","):
        ends = _ROWS.fullmatch(part)
        if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
            raise DataError(f"{where}: '{part}' is neither a row nor a range, as in '0-99,120'")
        yield from range(int(ends[1]), int(ends[2] or ends[1]) + 1)


def split_name(config: DataConfig) -> str | None:
    """Return the kind of split, such as "scaffold split"; None if it may be an argument."""
    if config.in_memory or (config.dataset is None and config.table is None):
        return None
    if config.dataset is not None:
        return f"split of {config.dataset}"
    if config.splits_column is not None:
        return f"split of the column {config.splits_column}"
    if config.splits_file is not None:
        return "split of a file"
    if config.split_by not in (None, NONE):
        return f"split by {config.split_by}"
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
