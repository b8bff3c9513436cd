"""Draw train, validation and test splits: by molecule, scaffold, cluster or time.

Molecules without a ring share the scaffold "", as in chemprop, DeepChem and OGB. Drawn one by one,
those of ESOL, FreeSolv and Tox21 would be as similar to the training molecules as in a random split
(ECFP4 Tanimoto similarity to the nearest one 0.57 to 0.63, against 0.44 to 0.48 for the others).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.errors import DataError, counted
from molsepnorm.tasks.inputs import MISSING

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_MAX_DISTANCE = 0.6
"""Largest Tanimoto distance from the centre of a cluster, as in DeepChem's `ButinaSplitter`."""
MAX_MOLECULES = 50_000
"""Maximum to cluster: 5,000 molecules take about 2 seconds, and 50,000 more than a minute."""
_PAIRS = 1 << 20  # pairs of molecules compared at once
MIN_SIZES = dict(zip(SPLITS, (2, 1, 1), strict=True))
"""Minimum number of molecules of each split."""

Parts = Sequence[np.ndarray]  # train, validation and test molecules
Groups = list[np.ndarray]  # molecules of each scaffold or cluster
_MONTH = r"(0?[1-9]|1[0-2])"
_OPEN_ORDER = re.compile(
    rf"{_MONTH}\.(\d{{3,4}}|[0-2]\d|9\d)|\d{{4}}\.\d{{1,2}}|(0[1-9]|1[0-2])\d\d|\d{{5,7}}"
    r"|(?!(19|20)\d\d)\d{8}"
)
"""05.2021, 05.21, 2021.10, 0521, 052021 and 03052021, which may not sort as dates."""
_YEAR_FIRST = re.compile(r"(19|20)\d\d(\d\d){0,2}")
"""2021, 202105 and 20210503, which sort as dates if all have the same length."""


def draw_splits(
    config: DataConfig,
    rows: np.ndarray,  # (G,)
    molecules: np.ndarray,  # (G,)
    smiles: Sequence[str],
    source: Path | str,
    times: np.ndarray | None = None,  # (R,)
    strata: np.ndarray | None = None,  # (G,)
) -> dict[str, np.ndarray]:
    """Return the sorted indices of G molecules in each split. Too few molecules, scaffolds,
    clusters or times, or too many molecules to cluster, are a `DataError`.

    Args:
        rows: row of each molecule in the source.
        molecules: numbers of the molecules; a random split keeps equal ones together.
        smiles: SMILES of every row of the source.
        times: those of every row for a split by time; rows of NaN are left out.
        strata: numbers of the molecules that have the same share of all splits.
    """
    assert config.split is not None
    parts: Parts
    if times is not None:
        known = int(np.count_nonzero(~np.isnan(times[rows])))
        parts = split_by_time(times[rows], *_sizes(known, config)[:2])
    elif config.draws_molecules:
        parts = _draw_molecules(molecules, strata, config)
    else:
        texts, by_rank = [smiles[row] for row in rows], config.split_type == "scaffold-ogb"
        clustered = config.split_type == "butina"
        groups = _clusters(texts, source) if clustered else _scaffolds(texts, chirality=by_rank)
        chosen = (_rank_scaffolds if by_rank else _draw_groups)(groups, len(rows), config)
        parts = [np.concatenate([np.empty(0, dtype=np.int64), *each]) for each in chosen]
    needed = {**MIN_SIZES, "test": int(config.draws_test)}
    if any(len(part) < least for part, least in zip(parts, needed.values(), strict=True)):
        wanted = "shares of " + " / ".join(f"{share:g}" for share in config.split)
        if config.folds is not None:
            wanted = f"{config.folds} folds"
        sizes = ", ".join(f"{len(part)} {name}" for name, part in zip(SPLITS, parts, strict=True))
        least = ", ".join(f"{count} {name}" for name, count in needed.items())
        raise DataError(
            f"{source} has {counted(len(rows), 'usable row')}, too few for {wanted}: the "
            f"{config.split_type} split would have {sizes}, and needs {least} or more. Rows of "
            "one molecule, scaffold, cluster or time stay together: use other shares (--split), "
            "fewer folds, or data.split_type: random, which draws single molecules"
        )
    return {split: np.sort(part) for split, part in zip(SPLITS, parts, strict=True)}


def draw_validation(
    rows: np.ndarray, molecules: np.ndarray, config: DataConfig, by_fold: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Divide three or more rows (n,) at random into training and validation rows, sorted: in the
    ratio of the first two splits, or outside and inside of the configured fold. Rows of the same
    molecule stay together; too few molecules are a `DataError`."""
    order = _shuffled(rows, molecules, None, np.random.default_rng(config.split_seed))
    if by_fold:
        val, train = _cut_fold(order, molecules, config)
    else:
        num_train = max(_inner_sizes(len(rows), config)[0], MIN_SIZES["train"])
        train, val = _cut(order, molecules, [num_train])
    least = (config.folds or 2) if by_fold else 2
    if len(train) < MIN_SIZES["train"] or len(np.unique(molecules[rows])) < least:
        raise DataError(
            f"the {counted(len(rows), 'row')} outside of the test split are too few to draw "
            "validation rows, because rows of the same molecule stay together: name the validation "
            "rows, or choose fewer folds (--folds)"
        )
    return np.sort(train), np.sort(val)


def _draw_molecules(molecules: np.ndarray, strata: np.ndarray | None, config: DataConfig) -> Parts:
    """Draw at random; the rows of a molecule are in one split."""

    def redraw(rest: np.ndarray, num_train: int) -> list[np.ndarray]:
        order = _shuffled(rest, molecules, strata, _replicate_rng(config))
        return _cut(order, molecules, [num_train])

    count = len(molecules)
    rng = np.random.default_rng(config.split_seed)
    order = _shuffled(np.arange(count), molecules, strata, rng)
    num_train, num_val, _ = _sizes(count, config)
    if not config.test_set:
        test, rest = _cut_fold(order, molecules, config)
        return [*redraw(rest, _inner_sizes(len(rest), config)[0]), test]
    if config.folds is not None:
        *folds, test = _cut(order, molecules, _ends(num_train + num_val, config.folds))
        val = folds.pop(config.fold)
        return [np.concatenate(folds), val, test]
    train, val, test = _cut(order, molecules, [num_train, num_train + num_val])
    if config.fold:
        train, val = redraw(np.concatenate([train, val]), num_train)
    return [train, val, test]


def _ends(count: int, folds: int) -> list[int]:
    """Return the number of rows up to the end of each of the folds, whose sizes are equal."""
    return np.cumsum([len(fold) for fold in np.array_split(range(count), folds)]).tolist()


def _cut_fold(
    order: np.ndarray, molecules: np.ndarray, config: DataConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the configured fold, and those of the others."""
    assert config.folds is not None
    folds = _cut(order, molecules, _ends(len(order), config.folds)[:-1])
    return folds.pop(config.fold), np.concatenate(folds)


def _shuffled(
    rows: np.ndarray, molecules: np.ndarray, strata: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Return rows in random order, those of a molecule one after the other. The rows of each
    stratum have equal distances, so that every part of the order has nearly its share of each."""
    order = rng.permutation(rows)
    if strata is not None:
        places = np.empty(len(order))
        for stratum in np.unique(strata[order]):
            members = np.flatnonzero(strata[order] == stratum)
            places[members] = (np.arange(len(members)) + rng.random()) / len(members)
        order = order[np.argsort(places, kind="stable")]
    _, first, number = np.unique(molecules[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[number], kind="stable")]


def _cut(order: np.ndarray, molecules: np.ndarray, places: Sequence[int]) -> list[np.ndarray]:
    """Divide rows where a molecule ends, nearest to the given places. Each part that should have
    rows has some if there are enough molecules."""
    changes = np.flatnonzero(np.diff(molecules[order])) + 1
    ends = np.array([0, *changes, len(order)])
    has_rows = np.diff([0, *places, len(order)]) > 0
    chosen = [int(np.abs(ends - place).argmin()) for place in places]
    for part, here in enumerate(chosen):  # each part begins with another molecule
        before = chosen[part - 1] if part else 0
        chosen[part] = max(here, before + int(has_rows[part]))
    for part in reversed(range(len(chosen))):  # and there is one left for each of the next
        after = chosen[part + 1] if part + 1 < len(chosen) else len(ends) - 1
        chosen[part] = max(0, min(chosen[part], after - int(has_rows[part + 1])))
    return np.split(order, ends[chosen])


def _draw_groups(groups: Groups, count: int, config: DataConfig) -> tuple[Groups, Groups, Groups]:
    """Draw whole scaffolds or clusters.

    Large groups go to training as long as they fit. The test and validation splits are filled with
    groups in random order that fit; the others go to training. Both splits get less than their
    share if the groups larger than it exceed the training share. The test molecules are those of
    all replicates, unlike in chemprop's balanced scaffold split.
    """
    if not config.test_set:
        test, rest = _fold(groups, config)
        return *_train_and_val(rest, config), test
    if not config.draws_test:
        return *_train_and_val(groups, config), []
    rng = np.random.default_rng(config.split_seed)
    sizes = _with_room(groups, count, _sizes(count, config))
    test, rest = _take(groups, sizes[2], sizes, rng)
    if config.folds is not None:
        val, train = _fold(rest, config)
    else:
        val, train = _take(rest, sizes[1], sizes, _replicate_rng(config))
    return train, val, test


def _train_and_val(groups: Groups, config: DataConfig) -> tuple[Groups, Groups]:
    """Divide groups between training and validation as `_draw_groups` does; the smallest group is
    for validation if none fits."""
    count = sum(map(len, groups))
    sizes = _with_room(groups, count, _inner_sizes(count, config))
    val, train = _take(groups, sizes[1], sizes, _replicate_rng(config))
    if not val and len(train) > 1:  # all are larger than the validation split
        *train, smallest = sorted(train, key=_commonest_first)
        val = [smallest]
    return train, val


def _with_room(groups: Groups, count: int, sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the splits, with a training split that has room for all groups that fit
    nowhere else."""
    num_train, *others = sizes
    while (must := sum(len(group) for group in groups if len(group) > max(others))) > num_train:
        num_last = (count - must) * others[-1] // sum(others) if len(others) > 1 else 0
        num_train = must
        others = [count - must - num_last, num_last][: len(others)]
    return [num_train, *others]


def _rank_scaffolds(
    groups: Groups, count: int, config: DataConfig
) -> tuple[Groups, Groups, Groups]:
    """Assign scaffolds as OGB did, from the most to the least common, ties from the last one: to
    training if it fits, otherwise to validation if it fits there, otherwise to the test."""
    assert config.split is not None
    max_train = config.split[0] * count
    max_both = (config.split[0] + config.split[1]) * count if config.draws_test else count
    train, val, test = Groups(), Groups(), Groups()
    num_train = num_both = 0
    for group in sorted(groups, key=_commonest_first):
        if num_train + len(group) <= max_train:
            train.append(group)
            num_train += len(group)
        elif num_both + len(group) <= max_both:
            val.append(group)
        else:
            test.append(group)
            continue
        num_both += len(group)
    return train, val, test


def _commonest_first(group: np.ndarray) -> tuple[int, int]:
    return -len(group), -int(group[0])


def _scaffolds(smiles: Sequence[str], chirality: bool) -> Groups:
    """Return the molecules of each scaffold, in the order of their first molecules."""
    from molsepnorm.molecules.fragments import murcko_scaffold

    groups: dict[str, list[int]] = {}
    for index, text in enumerate(smiles):
        groups.setdefault(murcko_scaffold(text, chirality), []).append(index)
    return [np.array(group) for group in groups.values()]


def _clusters(smiles: Sequence[str], source: Path | str) -> Groups:
    """Return the molecules of each cluster, in the order of their first molecules."""
    from molsepnorm.molecules.featurize.fingerprints import morgan_matrix

    if len(smiles) > MAX_MOLECULES:
        raise DataError(
            f"{source} has {len(smiles):,} usable molecules, and data.split_type: butina, which "
            f"compares all pairs, takes at most {MAX_MOLECULES:,}: use scaffold instead"
        )
    clusters = butina_clusters(morgan_matrix(smiles))
    return sorted(map(np.sort, clusters), key=lambda cluster: cluster[0])


def _take(
    groups: Groups, room: int, sizes: Sequence[int], rng: np.random.Generator
) -> tuple[Groups, Groups]:
    """Return groups for a validation or test split of `room` molecules, and the other groups.
    Groups larger than half of the smaller of both splits are taken only if the training split of
    `sizes[0]` has no room for them."""
    groups = [groups[i] for i in rng.permutation(len(groups))]
    half = max(1, min(sizes[1:]) / 2)
    large = [group for group in groups if len(group) > half]
    train, over = _fill(sorted(large, key=lambda group: len(group) <= max(sizes[1:])), sizes[0])
    taken, left = _fill([*over, *(group for group in groups if len(group) <= half)], room)
    return taken, [*train, *left]


def _fill(groups: Groups, room: int) -> tuple[Groups, Groups]:
    """Return the groups that fit into `room` one after the other, and those that do not."""
    taken, left = [], []
    for group in groups:
        if len(group) <= room:
            taken.append(group)
            room -= len(group)
        else:
            left.append(group)
    return taken, left


def _fold(groups: Groups, config: DataConfig) -> tuple[Groups, Groups]:
    """Return the groups of the configured fold, and the others. Each group, the largest first, is
    added to the smallest fold."""
    assert config.folds is not None
    sizes = [0] * config.folds
    folds: list[Groups] = [[] for _ in sizes]
    for group in sorted(groups, key=len, reverse=True):
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds[smallest].append(group)
    chosen = folds.pop(config.fold)
    return chosen, [group for fold in folds for group in fold]


def _sizes(count: int, config: DataConfig) -> tuple[int, int, int]:
    assert config.split is not None
    train, both = np.rint(np.cumsum(config.split[:2]) * count).astype(int).tolist()
    both = max(min(both, count - config.draws_test), 0)  # each split of a small table has one
    train = max(min(train, both - 1), 0)
    return train, both - train, count - both


def _inner_sizes(count: int, config: DataConfig) -> tuple[int, int]:
    assert config.split is not None
    train, val, _ = config.split
    num_val = max(1, round(count * val / (train + val)))
    return count - num_val, num_val


def _replicate_rng(config: DataConfig) -> np.random.Generator:
    return np.random.default_rng([config.split_seed, config.fold + 1])


def butina_clusters(bits: csr_matrix, max_distance: float = _MAX_DISTANCE) -> list[np.ndarray]:
    """Return the indices of the molecules of each cluster, the centre first; `bits` are float32 (G,
    bits) fingerprints of zeros and ones.

    The molecule with the most neighbours within `max_distance` is the centre of the first cluster,
    which its neighbours join; then the remaining molecule that had the most. RDKit's
    `Butina.ClusterData` finds the same clusters, with 8 bytes for every pair of molecules.

    Source: Butina, J. Chem. Inf. Comput. Sci. 1999, 39, 747.
    """
    count = bits.shape[0]
    neighbours = np.zeros(count, dtype=np.int64)
    start = 0
    while start < count:
        # pairs of a block of molecules with itself and with all later molecules
        end = min(count, start + max(1, _PAIRS // (count - start)))
        near = _near(bits[start:end], bits[start:], max_distance)
        neighbours[start:end] += near.sum(axis=1)
        neighbours[end:] += near[:, end - start :].sum(axis=0)
        start = end
    order = np.lexsort((np.arange(count), neighbours))[::-1]
    clusters: list[np.ndarray] = []
    left = np.ones(count, dtype=bool)
    for centre in order:
        if not left[centre]:
            continue
        left[centre] = False
        joining = np.flatnonzero(left) if neighbours[centre] > 1 else np.empty(0, dtype=np.int64)
        joining = joining[_near(bits[[centre]], bits[joining], max_distance)[0]]
        left[joining] = False
        clusters.append(np.array([centre, *joining]))
    return clusters


def _near(one: csr_matrix, other: csr_matrix, max_distance: float) -> np.ndarray:  # bool (A, B)
    """Return where two molecules are neighbours; Tanimoto distances as RDKit computes them."""
    from molsepnorm.molecules.featurize.fingerprints import tanimoto

    return 1 - tanimoto(one, other) <= max_distance


def read_times(
    column: Sequence[str], time_format: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of a column (R,), float64 with NaN for an empty cell, and the rows (int64)
    of other cells that are no times.

    Cells are dates of the format (see `time.strptime`), numbers, or ISO 8601 dates, as microseconds
    since 1970. Numbers that may not sort as dates are no times unless the format is `number`.
    """
    cells = pd.Series(list(column), dtype=object).str.strip()
    present = ~cells.isin(MISSING).to_numpy()
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    finite = np.isfinite(numbers)
    if time_format == "number":
        return np.where(present & finite, numbers, np.nan), np.flatnonzero(present & ~finite)
    if time_format is None and finite[present].all():
        filled = cells[present]
        years, unclear = filled.str.fullmatch(_YEAR_FIRST), filled.str.fullmatch(_OPEN_ORDER)
        if (years | unclear).all() and (unclear.any() or filled.str.len().nunique() > 1):
            return np.full(len(cells), np.nan), np.flatnonzero(present)
        return np.where(present, numbers, np.nan), np.empty(0, dtype=np.int64)
    dates = cells.where(present)
    if time_format is None:
        dates = dates.where(cells.str.match(r"\d"))  # pandas reads "now" as a date
    dates = pd.to_datetime(dates, format=time_format or "ISO8601", errors="coerce", utc=True)
    known = dates.notna().to_numpy()
    times = np.full(len(cells), np.nan)
    times[known] = dates[known].dt.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)
    # cells that are neither come first: they are the reason if only they are not numbers
    bad = np.flatnonzero(present & ~known)
    return times, bad[np.argsort(finite[bad], kind="stable")]


def split_by_time(
    times: np.ndarray, num_train: int, num_val: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of the training, validation and test molecules, from old to new; a time
    (float64 [G]) of NaN is left out. Molecules of the same time stay together in the earlier split,
    which may raise `num_train` and `num_val`."""
    order = np.argsort(times, kind="stable")[: np.count_nonzero(~np.isnan(times))]
    ends = np.array([num_train, num_train + num_val])
    if len(order):
        last = times[order[np.maximum(ends, 1) - 1]]
        ends = np.searchsorted(times[order], last, side="right")
    train, val, test = np.split(order, ends)
    return train, val, test
