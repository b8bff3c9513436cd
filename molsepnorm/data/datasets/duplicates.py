"""Rows of the same molecule: recognise them, and merge their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import BOUNDS, ERRORS, Dataset, Merged
from molsepnorm.errors import counted
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.featurize.standardize import molecule_key
from molsepnorm.tasks.label_errors import merged_error

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2^64 / 1.618, so it spreads all bits


def used_rows(rows: np.ndarray, is_labelled: np.ndarray) -> np.ndarray:
    """Return the rows (n,) of a molecule with a label, or all of them if none has one.
    `is_labelled` is bool (rows of the table,)."""
    return rows[is_labelled[rows]] if is_labelled[rows].any() else rows


def merged_label(
    values: np.ndarray, bounds: np.ndarray, weights: np.ndarray, number: bool
) -> tuple[float, int]:
    """Return the label and the bound of a molecule from those of its rows, (n,) each.

    Exact labels are used if there are any, otherwise the tightest bound. Numbers are averaged with
    the weights. The label is NaN if there are none, if classes differ, or if there are lower and
    upper bounds only.
    """
    used = ~np.isnan(values) & (bounds == 0)
    if not used.any():
        used = ~np.isnan(values)
        signs = np.unique(bounds[used])
        if len(signs) != 1:
            return np.nan, 0
        used &= values * signs[0] == np.max(values[used] * signs[0])
    labels = values[used]
    if number:
        return float(np.average(labels, weights=weights[used])), int(bounds[used][0])
    return (float(labels[0]) if (labels == labels[0]).all() else np.nan), 0


def merged(
    dataset: Dataset, groups: Sequence[np.ndarray], location: Callable[[int], str]
) -> Dataset:
    """Move the labels of each group of molecules to its first molecule."""
    rows, smiles = dataset.store.rows, dataset.source_smiles
    assert smiles is not None
    labels, bounds = dataset.labels.copy(), dataset.bound_signs.copy()
    errors = None if dataset.errors is None else dataset.errors.copy()
    weights = np.ones(len(rows)) if dataset.weights is None else dataset.weights.astype(float)
    has_labels = ~np.isnan(labels).all(axis=1)
    conflicts, entries = 0, list[Merged]()
    squares, freedom, molecules = np.zeros((3, len(dataset.targets)))
    for group in groups:
        first, others = int(group[0]), group[1:]
        used = used_rows(group, has_labels)
        for i, target in enumerate(dataset.targets):
            values, of_rows = labels[used, i].astype(float), bounds[used, i]
            is_number = target.kind == "regression"
            label, bound = merged_label(values, of_rows, weights[used], is_number)
            is_exact = ~np.isnan(values) & (of_rows == 0)
            exact = values[is_exact]
            if errors is not None and len(exact):
                own = used[is_exact]
                errors[first, i] = merged_error(errors[own, i], weights[own])
            if is_number and len(exact) > 1:
                squares[i] += ((exact - exact.mean()) ** 2).sum()
                freedom[i] += len(exact) - 1
                molecules[i] += 1
            conflicts += np.isnan(label) and not np.isnan(values).all()
            labels[first, i], bounds[first, i] = label, bound
        labels[others], bounds[others] = np.nan, 0
        weights[first] = weights[used].mean()
        into = int(rows[first])
        reason = f"the same molecule as {location(into)}, which has the merged labels"
        entries += [Merged(row, smiles[row], reason, into) for row in rows[others].tolist()]
    repeats = {
        name: {"molecules": int(molecules[i]), "sd": float(np.sqrt(squares[i] / freedom[i]))}
        for i, name in enumerate(dataset.target_names)
        if freedom[i]
    }
    arrays = {} if dataset.bounds is None else {BOUNDS: bounds}
    arrays |= {} if errors is None else {ERRORS: errors}
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


def molecule_numbers(dataset: Dataset) -> np.ndarray:  # (G,)
    """Return the same number for rows with the same canonical SMILES; without SMILES, with the same
    graph. Texts that RDKit cannot read are compared as they are. Canonical SMILES are slow, so they
    are computed only for molecules whose graphs have the same hash."""
    hashes = graph_hashes(dataset.store)
    if dataset.smiles is None:
        return hashes
    table = pd.DataFrame({"graph": hashes, "text": dataset.smiles_of(slice(None))})
    several = table.groupby("graph")["text"].transform("nunique") > 1
    texts = table.loc[several, "text"]
    table.loc[several, "text"] = texts.map({text: molecule_key(text, "none") for text in {*texts}})
    return table.reset_index().groupby(["graph", "text"])["index"].transform("min").to_numpy()


def graph_hashes(graphs: EncodedGraphs) -> np.ndarray:  # uint64 (G,)
    """Hash every graph, whatever the order of its atoms: each atom with all other atoms and the
    paths to them, so that isomers differ. Equal graphs have equal hashes, others hardly ever."""
    random = np.random.default_rng(0)

    def numbers(count: int) -> np.ndarray:
        return random.integers(0, 1 << 64, count, dtype=np.uint64)

    of_atom = numbers(256)[graphs.degrees]
    for feature in graphs.atoms.T:
        of_atom = of_atom * _FACTOR + numbers(256)[feature]
    of_path = numbers(len(graphs.paths))
    hashes, end = np.empty(len(graphs), dtype=np.uint64), 0
    for graph, atoms in enumerate(np.split(of_atom, np.cumsum(graphs.sizes))[:-1]):
        start, end = end, end + len(atoms) ** 2
        paths = of_path[graphs.pairs[start:end]].reshape(len(atoms), len(atoms))
        around = _mixed(paths + _FACTOR * atoms).sum(axis=1)
        hashes[graph] = _mixed(around + _FACTOR * atoms).sum()
    return hashes


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Mix the bits of hashes (uint64), so that sums of them differ for different sets."""
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
