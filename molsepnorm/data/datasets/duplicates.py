"""Rows of the same molecule: recognise them, and merge their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import BOUNDS, ERRORS, Dataset, Merged
from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.tasks.label_errors import merged_error


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
    if dataset.smiles is None:
        return dataset.graph_hashes
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    def canonical(text: str) -> str:
        with suppress(InvalidMolecule):
            return canonical_smiles(text)
        return text

    table = pd.DataFrame({"graph": dataset.graph_hashes, "text": dataset.smiles_of(slice(None))})
    several = table.groupby("graph")["text"].transform("nunique") > 1
    texts = table.loc[several, "text"]
    table.loc[several, "text"] = texts.map({text: canonical(text) for text in texts.unique()})
    return table.reset_index().groupby(["graph", "text"])["index"].transform("min").to_numpy()
