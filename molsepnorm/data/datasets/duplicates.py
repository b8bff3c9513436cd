"""Rows of the same molecule: recognise them, and merge their labels before the split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from molsepnorm.data.datasets.dataset import BOUNDS, Dataset, Merged, RepeatSpread
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import InvalidMolecule, counted

_PAIRS = 1 << 22  # atom pairs hashed at once
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2^64 / 1.618, so it spreads all bits


def used_rows(rows: np.ndarray, is_labelled: np.ndarray) -> np.ndarray:
    """Return those rows (n,) of a molecule that are merged: the rows with a label if there are any.
    `is_labelled` has an element for each row of the table."""
    return rows[is_labelled[rows]] if is_labelled[rows].any() else rows


def used_labels(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:  # bool (n,)
    """Return which labels (n,) of one target of one molecule are used, NaN where missing; `bounds`
    are as in `Dataset.bounds`.

    These are the exact labels if there are any, otherwise the tightest bound. Lower and upper
    bounds together are not used, since no single bound has the meaning of both.
    """
    present = ~np.isnan(values)
    exact = present & (bounds == 0)
    if exact.any() or not present.any():
        return exact
    directions = bounds[present]
    if (directions != directions[0]).any():
        return np.zeros(len(values), dtype=bool)
    return present & (values * directions[0] == np.max(values[present] * directions[0]))


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


def merged(
    dataset: Dataset, groups: Sequence[np.ndarray], location: Callable[[int], str]
) -> Dataset:
    """Return the data set with the labels of each group in its first molecule."""
    rows, smiles = dataset.store.rows, dataset.source_smiles
    assert smiles is not None
    labels, bounds = dataset.labels.copy(), dataset.bound_signs.copy()
    weights = np.ones(len(rows)) if dataset.weights is None else dataset.weights.astype(float)
    has_labels = ~np.isnan(labels).all(axis=1)
    conflicts, entries = 0, list[Merged]()
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
        entries += [
            Merged(int(rows[i]), smiles[rows[i]], reason, int(rows[first])) for i in others.tolist()
        ]
    repeats = {
        name: RepeatSpread(int(molecules[i]), float(np.sqrt(squares[i] / freedom[i])))
        for i, name in enumerate(dataset.target_names)
        if freedom[i]
    }
    arrays = {} if dataset.bounds is None else {BOUNDS: bounds}
    count, lines = counted(len(groups), "molecule"), []
    if groups:
        lines.append(f"Merged: {sum(map(len, groups)):,} rows of {count} with more than one row.")
    if conflicts:
        lines.append(
            f"Left out: {counted(conflicts, 'label')} of merged rows, because classes differ or "
            "there are lower and upper bounds only."
        )
    return replace(
        dataset,
        labels=labels,
        arrays={**dataset.arrays, **arrays},
        weights=None if dataset.weights is None else weights.astype(np.float32),
        merged=tuple(sorted(entries)),
        repeats=repeats,
        warnings=(*dataset.warnings, *lines),
    )


def shared_molecules(dataset: Dataset) -> int | None:
    """Count the molecules that occur in more than one split, however their SMILES are written;
    None if the data set has no SMILES."""
    if dataset.smiles is None:
        return None
    parts = (np.unique(dataset.molecule_ids[part]).tolist() for part in dataset.splits.values())
    return sum(count > 1 for count in Counter(chain.from_iterable(parts)).values())


def molecule_numbers(dataset: Dataset) -> np.ndarray:  # (G,)
    """Return the same number for rows of the same molecule; without SMILES, of the same graph."""
    if dataset.smiles is None:
        return dataset.graph_hashes
    every = np.arange(len(dataset.store))
    numbers = every.copy()
    for group in same_molecules(dataset, every):
        numbers[group] = group[0]
    return numbers


def same_molecules(dataset: Dataset, among: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices (int64, ascending) of each molecule that occurs more than once `among`
    these indices of a data set with SMILES.

    Two rows are the same molecule if their canonical SMILES are equal, after structures are
    standardised; texts of another package's featuriser are compared as they are. Canonical SMILES
    are slow to compute, so they are compared only for molecules whose graphs have the same hash.
    """
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    hashes = dataset.graph_hashes[among]
    order = np.argsort(hashes, kind="stable")
    starts = np.unique(hashes[order], return_index=True)[1]
    for alike in np.split(among[order], starts[1:]):
        if len(alike) < 2:
            continue
        texts = dataset.smiles_of(alike)
        canonical = {text: text for text in texts}
        for text in canonical if len(canonical) > 1 else ():
            with suppress(InvalidMolecule):
                canonical[text] = canonical_smiles(text)
        found: dict[str, list[int]] = {}
        for molecule, text in zip(alike.tolist(), texts, strict=True):
            found.setdefault(canonical[text], []).append(molecule)
        yield from (np.array(group) for group in found.values() if len(group) > 1)


def graph_hashes(store: GraphStore) -> np.ndarray:  # uint64 (G,)
    """Hash every molecule's graph, independently of the order of its atoms.

    An atom is hashed with all other atoms and the paths to them, so that isomers differ.
    """
    random = np.random.default_rng(0)

    def numbers(count: int) -> np.ndarray:
        return random.integers(0, 1 << 64, count, dtype=np.uint64)

    of_atom = numbers(256)[store.degrees]
    for feature in store.atoms.T:
        of_atom = of_atom * _FACTOR + numbers(256)[feature]
    of_path = numbers(len(store.paths))
    sizes = store.sizes.astype(np.int64)
    first_atom = np.append(0, np.cumsum(sizes))
    first_pair = np.append(0, np.cumsum(sizes**2))
    hashes = np.zeros(len(store), dtype=np.uint64)
    chunk_ends = np.searchsorted(first_pair, np.arange(0, first_pair[-1] + _PAIRS, _PAIRS))
    for start, end in pairwise(np.unique(np.append(chunk_ends.clip(max=len(store)), 0))):
        atoms = np.arange(first_atom[start], first_atom[end])
        molecule = np.repeat(np.arange(start, end), sizes[start:end])  # of each atom
        counts = sizes[molecule]  # of each atom's pairs
        rows = np.cumsum(counts) - counts
        own = np.repeat(np.arange(len(atoms)), counts)
        other = first_atom[molecule][own] + np.arange(len(own)) - rows[own]
        paths = of_path[store.pairs[first_pair[start] : first_pair[end]]]
        around = np.add.reduceat(_mixed(paths + _FACTOR * of_atom[other]), rows)
        mixed = _mixed(around + _FACTOR * of_atom[atoms])
        hashes[start:end] = np.add.reduceat(mixed, first_atom[start:end] - first_atom[start])
    return hashes


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Return hashes of hashes (uint64), whose sums depend on what was combined in each."""
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
