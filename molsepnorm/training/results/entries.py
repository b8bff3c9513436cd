"""Entries of `metrics.json` about the split, and about comparisons of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import split_name
from molsepnorm.errors import InvalidMolecule
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.completing.domain import drawn

_MAX_TRAIN, _MAX_TEST = 20_000, 500  # molecules whose similarities are computed


def about_split(data: DataConfig, dataset: Dataset) -> dict[str, Any]:
    """Return the entries of `metrics.json` about the molecules that the scores are computed from.

    `molecules` is the number of different molecules of each split, `labelled` that of the
    validation and test molecules with a label that is no bound, `labelled_test` that of the test
    molecules with such a label of each target, and `split` says how they were split, if that is
    known. `nearest_train_similarity` has the median Tanimoto similarity (Morgan fingerprints of
    radius 2, 2,048 bits) of the test molecules to the nearest training molecule, and how many were
    compared: at most 500 and 20,000, drawn at random, which takes about 4 seconds. Molecules that
    are not SMILES have no such entry.

    Args:
        data: the data section of the configuration.
        dataset: the data set.
    """
    if not dataset.targets:
        return {}
    parts = dataset.splits
    # graphs of a data set with a name may leave out what tells two molecules apart
    ids = np.arange(len(dataset.store)) if data.dataset else dataset.molecule_ids
    sizes = {name: len(np.unique(ids[part])) for name, part in parts.items()}
    exact = np.isfinite(dataset.exact_labels)
    is_labelled = exact.any(axis=1)
    scored = {name: part[is_labelled[part]] for name, part in parts.items() if name != "train"}
    labelled = {name: len(np.unique(ids[part])) for name, part in scored.items()}
    entries: dict[str, Any] = {"molecules": sizes, "labelled": labelled}
    if "test" in parts:
        of_test = (parts["test"][own] for own in exact[parts["test"]].T)
        counts = (len(np.unique(ids[own])) for own in of_test)
        entries["labelled_test"] = dict(zip(dataset.target_names, counts, strict=True))
    if (name := split_name(data)) is not None:
        entries["split"] = name
    if dataset.smiles is not None:
        from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan

        found = []
        for name, most in (("test", _MAX_TEST), ("train", _MAX_TRAIN)):
            first_rows = np.unique(ids[parts[name]], return_index=True)[1]
            part = parts[name][np.sort(first_rows)]
            try:
                found.append(packed_morgan(dataset.smiles_of(drawn(part, most))))
            except InvalidMolecule:  # the text of another package's featuriser
                return entries
        test, train = found
        entries["nearest_train_similarity"] = {
            "median": float(np.median(nearest(test, train)[1])),
            "test": len(test),
            "train": len(train),
        }
    return entries


def comparisons(
    task: Task,
    test: Mapping[str, float | None],
    of_constant: Mapping[str, float | None],
    predictions: np.ndarray,
    labels: np.ndarray,
    constant: np.ndarray,
    molecules: np.ndarray,
) -> dict[str, Any]:
    """Return the entries of `metrics.json` that compare the test scores with those of the trivial
    baseline.

    `scored_targets` has the targets of each headline that have a test score, all of them if none
    has one, if there are several targets. `constant_difference` holds the scores of the model minus
    those of the trivial baseline, with 95 % intervals of a paired bootstrap.

    Args:
        task: the targets.
        test, of_constant: scores of the model and of the trivial baseline.
        predictions, constant: float32 [n, O]: their predictions.
        labels: float32 [n, T].
        molecules: [n]: the same number for rows of one molecule.
    """
    names = task.headlines
    only = {*names, *replace(task, metric="loss").headlines, "log_loss"}
    paired = task.intervals(predictions, labels, molecules=molecules, minus=constant, only=only)
    scored = {}
    for name in names:
        own = [target.name for target in task.targets if target.kind in METRICS[name].kinds]
        with_score = [each for each in own if test.get(f"{name}/{each}") is not None]
        scored[name] = with_score or own  # a single target has no score of its own
    return {
        "headlines": list(names),
        **({"scored_targets": scored} if len(task.targets) > 1 else {}),
        "constant_difference": differences(test, of_constant, paired),
    }


def differences(
    scores: Mapping[str, float | None],
    others: Mapping[str, float | None],
    intervals: Mapping[str, tuple[float, float]],
) -> dict[str, dict[str, Any]]:
    """Return the scores minus the others, with the intervals; without those that are undefined."""
    found = {}
    for name, ends in intervals.items():
        one, other = scores[name], others[name]
        if one is not None and other is not None:
            found[name] = {"difference": one - other, "interval_95": list(ends)}
    return found
