"""Several rows of the same molecule: merge their labels before the split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import BOUNDS, SPLITS, Dataset, Merged, RepeatSpread
from molsepnorm.data.datasets.leaks import same_molecules
from molsepnorm.data.datasets.splits import split_labelled, strata_of, with_validation
from molsepnorm.errors import ConfigError, DataError, counted


def merge_and_split(
    dataset: Dataset,
    config: DataConfig,
    split: Callable[[np.ndarray, np.ndarray, np.ndarray | None], dict[str, np.ndarray]],
    location: Callable[[int], str],
    named: bool,
) -> Dataset:
    """Return a data set with splits, after merging duplicates if `data.duplicates` is mean.

    Rows without any label are in no split, except named test rows; see `split_labelled`.

    Args:
        dataset: a data set without splits.
        config: the settings.
        split: function from the rows of some molecules, their `molecule_ids` and their
            `strata_of` to their splits, as indices into these rows.
        location: returns the position of a row in the source, for errors and `rejected.csv`.
        named: whether the splits are named row by row. Then rows of a molecule may disagree, and
            rows in no split are left out, so they are not merged.

    Raises:
        ConfigError: the data set has no SMILES, or no classes for a stratified split.
        DataError: rows of the same molecule are in several splits; or as `split` raises.
    """
    rows, is_labelled = dataset.store.rows, ~np.isnan(dataset.labels).all(axis=1)

    def divided(molecules: np.ndarray, numbers: np.ndarray) -> dict[str, np.ndarray]:
        def divide(chosen: np.ndarray) -> dict[str, np.ndarray]:
            strata = strata_of(config, dataset.targets, dataset.labels[chosen])
            return split(rows[chosen], numbers[chosen], strata)

        return split_labelled(divide, molecules, ~np.isnan(dataset.labels).all(axis=1), named)

    if config.duplicates == "keep":
        drawn = config.split is not None and config.draws_molecules
        numbers = dataset.molecule_ids if drawn else np.arange(len(rows))
        splits = divided(np.arange(len(rows)), numbers)
        return _with_splits(dataset, splits, is_labelled, numbers, config)
    if dataset.smiles is None:
        raise ConfigError("data.duplicates: mean needs SMILES or RDKit molecules")
    split_of = np.zeros(len(rows), dtype=int)
    every = np.arange(len(rows))  # merged rows are not in the splits
    if named and (parts := split(rows, every, None)):
        split_of -= 1
        for number, part in enumerate(parts.values()):
            split_of[part] = number
    among = np.flatnonzero(split_of >= 0)
    groups = sorted(same_molecules(dataset, among), key=lambda group: int(group[0]))
    for group in groups:
        if (other := group[split_of[group] != split_of[group[0]]]).size:
            one, two = (int(each) for each in (group[0], other[0]))
            raise DataError(
                f"{location(int(rows[two]))} is in {SPLITS[split_of[two]]}, and the same molecule "
                f"is in {SPLITS[split_of[one]]} at {location(int(rows[one]))}: data.duplicates: "
                "mean needs all rows of a molecule in one split"
            )
    for group in groups:  # labels that conflict are counted by `_merged`
        is_labelled[group] = is_labelled[group].any()
    dataset = _merged(dataset, groups, location)
    splits = divided(dataset.molecules, every)
    return _with_splits(dataset, splits, is_labelled, every, config)


def used_rows(rows: np.ndarray, is_labelled: np.ndarray) -> np.ndarray:
    """Return those rows (n,) of a molecule that are merged: the rows with a label if there are any.
    `is_labelled` has an element for each row of the table."""
    return rows[is_labelled[rows]] if is_labelled[rows].any() else rows


def used_labels(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:  # bool (n,)
    """Return which labels of one molecule are used.

    These are the exact labels if there are any, otherwise the tightest bound. Lower and upper
    bounds together are not used, since no single bound has the meaning of both.

    Args:
        values: (n,), labels of one target, NaN where missing.
        bounds: (n,), 1 for a lower bound, -1 for an upper bound, 0 for an exact label.
    """
    present = ~np.isnan(values)
    exact = present & (bounds == 0)
    if exact.any() or not present.any():
        return exact
    directions = bounds[present]
    if (directions != directions[0]).any():
        return np.zeros(len(values), dtype=bool)
    return present & (values * directions[0] == np.max(values[present] * directions[0]))


def _with_splits(
    dataset: Dataset,
    splits: dict[str, np.ndarray],
    is_labelled: np.ndarray,
    numbers: np.ndarray,
    config: DataConfig,
) -> Dataset:
    """Return the data set with the splits. Validation molecules are drawn if there are none."""
    unused = ~is_labelled
    for part in splits.values():
        unused[part] = False  # named test rows stay
    bare = int(unused.sum())
    if splits and 0 < bare < len(is_labelled):
        or_weight = "" if dataset.weights is None else " or with the weight 0"
        line = f"Left out: {counted(bare, 'row')} without a label{or_weight}."
        dataset = replace(dataset, warnings=(*dataset.warnings, line))
    complete = with_validation(splits, numbers, config)
    if complete is not splits:
        count = counted(len(complete["val"]), "molecule")
        line = f"Validation: {count} drawn from the training split, since no row is named val."
        dataset = replace(dataset, warnings=(*dataset.warnings, line))
    return replace(dataset, splits=complete)


class _Label(NamedTuple):
    """The label of a molecule from several rows."""

    value: float
    bound: int
    conflict: bool
    """True if there are labels, but none can be used."""


def merged_label(
    values: np.ndarray, bounds: np.ndarray, weights: np.ndarray, number: bool
) -> _Label:
    """Return the label from those of the rows, (n,) each; NaN if it is missing.

    Numbers are averaged with the weights of the rows. Classes are kept where they agree.
    """
    used = used_labels(values, bounds)
    if not used.any():
        return _Label(np.nan, 0, not np.isnan(values).all())
    found = values[used]
    if number:
        value = np.average(found, weights=weights[used])
        return _Label(float(value), int(bounds[used][0]), False)
    agree = bool((found == found[0]).all())
    return _Label(float(found[0]) if agree else np.nan, 0, not agree)


def _merged(
    dataset: Dataset, groups: Sequence[np.ndarray], location: Callable[[int], str]
) -> Dataset:
    """Return the data set with the labels of each group in its first molecule."""
    rows, smiles = dataset.store.rows, dataset.source_smiles
    assert smiles is not None
    labels, bounds = dataset.labels.copy(), dataset.bound_signs.copy()
    weights = np.ones(len(rows)) if dataset.weights is None else dataset.weights.astype(float)
    has_labels = ~np.isnan(labels).all(axis=1)
    conflicts, merged = 0, []
    squares, freedom, molecules = np.zeros((3, len(dataset.targets)))
    for group in groups:
        first, others = int(group[0]), group[1:]
        used = used_rows(group, has_labels)
        for i, target in enumerate(dataset.targets):
            values, of_rows = labels[used, i].astype(float), bounds[used, i]
            label = merged_label(values, of_rows, weights[used], target.kind == "regression")
            exact = values[~np.isnan(values) & (of_rows == 0)]
            if target.kind == "regression" and len(exact) > 1:
                squares[i] += ((exact - exact.mean()) ** 2).sum()
                freedom[i] += len(exact) - 1
                molecules[i] += 1
            conflicts += label.conflict
            labels[first, i], bounds[first, i] = label.value, label.bound
        labels[others], bounds[others] = np.nan, 0
        weights[first] = weights[used].mean()
        reason = f"the same molecule as {location(int(rows[first]))}, which has the merged labels"
        merged += [
            Merged(int(rows[i]), smiles[rows[i]], reason, int(rows[first])) for i in others.tolist()
        ]
    repeats = {
        name: RepeatSpread(int(molecules[i]), float(np.sqrt(squares[i] / freedom[i])))
        for i, name in enumerate(dataset.target_names)
        if freedom[i]
    }
    arrays = {} if dataset.bounds is None else {BOUNDS: bounds}
    return replace(
        dataset,
        labels=labels,
        arrays={**dataset.arrays, **arrays},
        weights=None if dataset.weights is None else weights.astype(np.float32),
        merged=tuple(sorted(merged)),
        repeats=repeats,
        warnings=(*dataset.warnings, *_warnings(groups, conflicts)),
    )


def _warnings(groups: Sequence[np.ndarray], conflicts: int) -> list[str]:
    if not groups:
        return []
    rows = sum(map(len, groups))
    found = [f"Merged: {rows:,} rows of {counted(len(groups), 'molecule')} with more than one row."]
    if conflicts:
        found.append(
            f"Left out: {counted(conflicts, 'label')} of merged rows, because classes differ or "
            "there are lower and upper bounds only."
        )
    return found
