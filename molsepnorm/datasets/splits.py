"""Which molecules train, validate and test: named by a column or a file, or drawn.

A draw looks at molecules one by one (random) or at whole Bemis–Murcko scaffolds. Molecules without
a ring have one scaffold in common, "", as in chemprop, DeepChem and OGB: spread out one by one,
those of ESOL, FreeSolv and Tox21 would lie as near to the training molecules as in a random split
(Tanimoto similarity of ECFP4 to the nearest 0.57 to 0.63, against 0.44 to 0.48 for the others).
Where they are many, the test molecules all have rings, and one fold validates with them alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.datasets.config import DataConfig
from molsepnorm.datasets.dataset import SPLITS
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files import clear_errors
from molsepnorm.tables import locate

__all__ = ["WORDS", "make_splits"]

WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_PURPOSE = {
    "train": "the model learns from them",
    "val": "the best epoch is chosen by them",
    "test": "the finished model is scored on them",
}
_LEAST = dict(zip(SPLITS, (2, 1, 1), strict=True))
_FORM = 'Expected is a list of splits, such as [{"train": [0, 1, 2], "val": [3], "test": "4-9"}]'
_ROWS = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")

Named = dict[str, list[int]]  # of each split, its rows in the source
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # what trains, validates, tests, in the store
Groups = list[np.ndarray]  # of each scaffold, its molecules in the store


def make_splits(
    config: DataConfig,
    rows: np.ndarray,  # (G,)
    smiles: Sequence[str],
    column: Sequence[str] | None,
    source: Path,
) -> dict[str, np.ndarray]:
    """Sorted int64 indices into the store for each of `SPLITS`; none where `config.split` is None.

    Args:
        config: `splits_column` or `splits_file` where given, otherwise what to draw.
        rows: of each of the G molecules in the store, its row in the source.
        smiles: of every row of the source.
        column: the texts of `splits_column` in every row, where there is one.
        source: the source's path, for errors.

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
        named = _read_column(column, config, source)
        where, setting = f"{source}, column '{config.splits_column}'", "data.splits_column"
    elif config.splits_file is not None:
        named = _read_file(config.splits_file, config.fold, source, len(smiles))
        where, setting = f"{config.splits_file}, entry {config.fold}", "data.splits_file"
    else:
        return _draw(config, rows, smiles, source)
    return _look_up(named, rows, len(smiles), where, setting)


# Named by a column or a file


def _read_column(column: Sequence[str], config: DataConfig, source: Path) -> Named:
    """The rows of each split, as the cells of a column say; a row whose cell is blank is in none.

    Raises:
        DataError: a cell says something else.
    """
    words = [text.strip().lower() for text in column]
    if odd := [row for row, word in enumerate(words) if word and word not in WORDS]:
        raise DataError(
            f"{locate(source, odd[0])}, column '{config.splits_column}': '{column[odd[0]]}' names "
            f"no split. {len(odd)} such cell(s) in this column; expected are {', '.join(WORDS)}, "
            "or a blank to leave the row out"
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
        with clear_errors(path, "read"):
            entries = json.loads(path.read_text(encoding="utf-8-sig"))
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
    for split, least in _LEAST.items():
        if len(splits[split]) < least:
            counts = ", ".join(f"{len(named[each])} {each}" for each in SPLITS)
            raise DataError(
                f"{where}: {len(splits[split]) or 'no'} {split} molecule(s) that can be read; its "
                f"rows are {counts}. {split} needs {least} or more, as {_PURPOSE[split]}: name "
                f"them there, or leave {setting} out to have the split drawn"
            )
    return splits


# Drawn


def _draw(
    config: DataConfig, rows: np.ndarray, smiles: Sequence[str], source: Path
) -> dict[str, np.ndarray]:
    assert config.split is not None
    found = ""
    if config.split_type == "random":
        parts = _draw_molecules(len(rows), config)
    else:
        groups = _scaffolds([smiles[row] for row in rows], config.split_type == "scaffold-ogb")
        most = max(map(len, groups), default=0)
        found = f" of {len(groups)} scaffold(s), the commonest with {most}"
        if config.split_type == "scaffold":
            parts = _draw_scaffolds(groups, len(rows), config)
        else:
            parts = _rank_scaffolds(groups, len(rows), config)
    if any(len(part) < least for part, least in zip(parts, _LEAST.values(), strict=True)):
        wanted = "a split into " + " / ".join(f"{share:g}" for share in config.split)
        if config.folds is not None:
            wanted = f"{config.folds} folds beside a test share of {config.split[2]:g}"
        advice = ". data.split_type: random takes molecules one by one" if found else ""
        raise DataError(
            f"{source} has {len(rows)} readable molecules{found}: too few for {wanted} with at "
            f"least 2, 1 and 1{advice}"
        )
    return {split: np.sort(part) for split, part in zip(SPLITS, parts, strict=True)}


def _draw_molecules(count: int, config: DataConfig) -> Parts:
    order = np.random.default_rng(config.split_seed).permutation(count)
    num_train, num_val, _ = _sizes(count, config)
    rest, test = np.split(order, [num_train + num_val])
    if config.folds is not None:
        folds = np.array_split(rest, config.folds)
        val = folds.pop(config.fold)
        return np.concatenate(folds), val, test
    if config.fold:
        rest = _chance(config).permutation(rest)
    return rest[:num_train], rest[num_train:], test


def _draw_scaffolds(groups: Groups, count: int, config: DataConfig) -> Parts:
    """Large scaffolds train as long as they fit; test and validation are filled, one scaffold
    after the other in random order, by those that fit; the others train.

    As chemprop's balanced scaffold split, which fills training first and leaves to test what is
    left, so that its test molecules would change with every replicate. Here neither validation nor
    test gets more than its share. They get less where the scaffolds that are larger than either
    share, and so have to train, exceed the training share.
    """
    num_train, *others = _sizes(count, config)
    while (must := sum(len(group) for group in groups if len(group) > max(others))) > num_train:
        num_test = (count - must) * others[1] // sum(others)
        num_train, others = must, [count - must - num_test, num_test]
    sizes = (num_train, *others)
    chance = np.random.default_rng(config.split_seed)
    test, rest = _take(groups, sizes[2], sizes, chance)
    if config.folds is not None:
        val, train = _fold(rest, config)
    else:
        val, train = _take(rest, sizes[1], sizes, _chance(config))
    return _join(train), _join(val), _join(test)


def _rank_scaffolds(groups: Groups, count: int, config: DataConfig) -> Parts:
    """OGB's split: from the most to the least common scaffold, of equals the last one first, each
    goes where it fits: to train, to validation as long as both together keep to their share, or to
    test. DeepChem's is the same but that it does not tell stereoisomers of a scaffold apart.

    Raises:
        ConfigError: a replicate is asked for.
    """
    assert config.split is not None
    if config.fold and config.folds is None:
        raise ConfigError(
            f"data.fold is {config.fold}, but data.split_type: scaffold-ogb draws nothing, so "
            "there is no other split: set data.folds to cross-validate, or leave data.fold out"
        )
    most_train, most_both = config.split[0] * count, (config.split[0] + config.split[1]) * count
    train, val, test = Groups(), Groups(), Groups()
    num_train = num_both = 0
    for group in sorted(groups, key=lambda group: (-len(group), -group[0])):
        if num_train + len(group) <= most_train:
            train.append(group)
            num_train += len(group)
        elif num_both + len(group) <= most_both:
            val.append(group)
        else:
            test.append(group)
            continue
        num_both += len(group)
    if config.folds is not None:
        val, train = _fold([*train, *val], config)
    return _join(train), _join(val), _join(test)


def _scaffolds(smiles: Iterable[str], chirality: bool) -> Groups:
    """The molecules of each scaffold, in order of the first one."""
    from molsepnorm.featurize.scaffold import murcko_scaffold

    groups: dict[str, list[int]] = {}
    for index, text in enumerate(smiles):
        groups.setdefault(murcko_scaffold(text, chirality), []).append(index)
    return [np.array(group) for group in groups.values()]


def _take(
    groups: Groups, room: int, sizes: Sequence[int], chance: np.random.Generator
) -> tuple[Groups, Groups]:
    """Groups for a validation or test split of `room` molecules, and the others.

    Large ones, of more than half of the smaller of both splits, are taken only where the training
    split of `sizes[0]` has no place for them; those that fit nowhere else come to it first.
    """
    groups = [groups[i] for i in chance.permutation(len(groups))]
    half = max(1, min(sizes[1:]) / 2)
    large = [group for group in groups if len(group) > half]
    kept, over = _fill(sorted(large, key=lambda group: len(group) <= max(sizes[1:])), sizes[0])
    taken, left = _fill([*over, *(group for group in groups if len(group) <= half)], room)
    return taken, [*kept, *left]


def _fill(groups: Groups, room: int) -> tuple[Groups, Groups]:
    """Groups that fit into `room` one after the other, and those that do not."""
    taken, left = [], []
    for group in groups:
        if len(group) <= room:
            taken.append(group)
            room -= len(group)
        else:
            left.append(group)
    return taken, left


def _fold(groups: Groups, config: DataConfig) -> tuple[Groups, Groups]:
    """The groups of the fold that validates, and those of the others: each group, the largest
    first, is in the fold that is smallest so far."""
    assert config.folds is not None
    sizes = [0] * config.folds
    folds: list[Groups] = [[] for _ in sizes]
    for group in sorted(groups, key=len, reverse=True):
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds[smallest].append(group)
    val = folds.pop(config.fold)
    return val, [group for fold in folds for group in fold]


def _sizes(count: int, config: DataConfig) -> tuple[int, int, int]:
    assert config.split is not None
    train, both = np.rint(np.cumsum(config.split[:2]) * count).astype(int).tolist()
    return train, both - train, count - both


def _chance(config: DataConfig) -> np.random.Generator:  # of a replicate
    return np.random.default_rng([config.split_seed, config.fold + 1])


def _join(groups: Groups) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *groups])
