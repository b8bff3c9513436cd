"""Drawing molecules for training, validation and test: one by one, or whole scaffolds.

A draw looks at molecules one by one (random) or at whole Bemis–Murcko scaffolds. Molecules without
a ring have one scaffold in common, "", as in chemprop, DeepChem and OGB: spread out one by one,
those of ESOL, FreeSolv and Tox21 would lie as near to the training molecules as in a random split
(Tanimoto similarity of ECFP4 to the nearest 0.57 to 0.63, against 0.44 to 0.48 for the others).
Where they are many, the test molecules all have rings, and one fold validates with them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.errors import ConfigError, DataError

__all__ = ["LEAST", "draw"]

LEAST = dict(zip(SPLITS, (2, 1, 1), strict=True))
"""Molecules that each split must have."""

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # what trains, validates, tests, in the store
Groups = list[np.ndarray]  # of each scaffold, its molecules in the store


def draw(
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
    if any(len(part) < least for part, least in zip(parts, LEAST.values(), strict=True)):
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
    from molsepnorm.molecules.featurize.scaffold import murcko_scaffold

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
