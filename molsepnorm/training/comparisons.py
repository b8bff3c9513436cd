"""The numbers of `metrics.json` that compare scores, and that describe the split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import METRICS

__all__ = ["about_split", "comparisons", "differences", "score_columns"]

_MAX_TRAIN, _MAX_TEST = 20_000, 500  # molecules whose similarities are computed

_Interval = tuple[float, float]


def score_columns(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the columns of a table of scores by their titles, from the content of `metrics.json`.

    They are the validation and the test scores, and the test scores of the trivial baseline, of the
    networks without the forest they are blended with, and of the random forest, as far as the run
    has them.
    """
    blend, baseline = metrics.get("blend", {}), metrics.get("baseline", {})
    columns = {
        "validation": metrics.get("val"),
        "test": metrics.get("test"),
        "trivial baseline": metrics.get("test_constant"),
        "without forest": blend.get("network", {}).get("test"),
        "random forest": baseline.get("test"),
    }
    return {title: scores for title, scores in columns.items() if scores is not None}


def comparisons(
    task: Task,
    entries: Mapping[str, Any],
    predictions: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    constant: np.ndarray,
    molecules: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """Return the entries of `metrics.json` that compare the scores of a model.

    `scored_targets` has the targets of each headline, if there are several targets.
    `constant_difference` holds the test scores of the model minus those of the trivial baseline,
    with intervals of a paired bootstrap. `val_test_difference` holds the validation scores minus
    the test scores. All intervals are 95 % intervals.

    Args:
        task: the targets.
        entries: the entries `val`, `test`, `test_constant` and `test_interval_95`.
        predictions: float32 [n, O]: those of the model for `val` and `test`.
        labels: float32 [n, T]: those of `val` and `test`.
        constant: float32 [n, O]: predictions of the trivial baseline for `test`.
        molecules: [n]: the same number for rows of one molecule, for `val` and `test`.

    Source: of the interval for two independent scores, Zou and Donner, Stat. Med. 2008, 27, 1693.
    """
    names = task.headlines
    val, test, of_constant = (entries[each] for each in ("val", "test", "test_constant"))
    only = {*names, *replace(task, metric="loss").headlines, "log_loss"}

    def intervals(split: str, **options: Any) -> dict[str, _Interval]:
        own = molecules[split]
        return task.intervals(predictions[split], labels[split], molecules=own, **options)

    paired, of_val = intervals("test", minus=constant, only=only), intervals("val", only=names)
    of_test, unpaired = entries["test_interval_95"], {}
    for name in names:
        if name in of_val and name in of_test and None not in (val[name], test[name]):
            unpaired[name] = _independent(val[name], of_val[name], test[name], of_test[name])
    scored = {
        name: [target.name for target in task.targets if target.kind in METRICS[name].kinds]
        for name in names
    }
    return {
        "headlines": list(names),
        **({"scored_targets": scored} if len(task.targets) > 1 else {}),
        "constant_difference": differences(test, of_constant, paired),
        "val_test_difference": differences(val, test, unpaired),
    }


def differences(
    scores: Mapping[str, float | None],
    others: Mapping[str, float | None],
    intervals: Mapping[str, _Interval],
) -> dict[str, dict[str, Any]]:
    """Return the scores minus the others, with the intervals; without those that are undefined."""
    found = {}
    for name, ends in intervals.items():
        one, other = scores[name], others[name]
        if one is not None and other is not None:
            found[name] = {"difference": one - other, "interval_95": list(ends)}
    return found


def _independent(one: float, of_one: _Interval, other: float, of_other: _Interval) -> _Interval:
    """Return the interval of `one - other` from those of both, which are independent."""
    low = math.hypot(one - of_one[0], of_other[1] - other)
    high = math.hypot(of_one[1] - one, other - of_other[0])
    return one - other - low, one - other + high


def about_split(data: DataConfig, dataset: Dataset) -> dict[str, Any]:
    """Return the entries of `metrics.json` about the molecules that the scores are computed from.

    `molecules` is the number of different molecules of each split, `labelled` that of the
    validation and test molecules with a label that is no bound, `labelled_test` that of the test
    molecules with such a label of each target, and `split` says how they were split, if that is
    known. `nearest_train_similarity` has the median Tanimoto similarity of the
    test molecules to the nearest training molecule, and how many of them were compared: at most 500
    test molecules and 20,000 training molecules, drawn at random, which takes about 4 seconds. Its
    fingerprints are Morgan fingerprints of radius 2 with 2,048 bits. Molecules that are not SMILES
    have no such entry.

    Args:
        data: the data section of the configuration.
        dataset: the data set; for an ensemble by folds, with the molecules of all folds.
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
        entries["labelled_test"] = dict(zip(dataset.targets, counts, strict=True))
    if (name := _name_of_split(data)) is not None:
        entries["split"] = name
    if dataset.smiles is not None:
        from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan

        rng = np.random.default_rng(0)
        found = []
        for name, most in (("test", _MAX_TEST), ("train", _MAX_TRAIN)):
            first_rows = np.unique(ids[parts[name]], return_index=True)[1]
            part = parts[name][np.sort(first_rows)]
            drawn = np.sort(rng.choice(part, most, replace=False)) if len(part) > most else part
            try:
                rows = dataset.store.rows[drawn]
                found.append(packed_morgan(dataset.smiles[row] for row in rows))
            except InvalidMolecule:  # the text of another package's featuriser
                return entries
        test, train = found
        entries["nearest_train_similarity"] = {
            "median": float(np.median(nearest(test, train)[1])),
            "test": len(test),
            "train": len(train),
        }
    return entries


def _name_of_split(data: DataConfig) -> str | None:
    if data.in_memory or (data.dataset is None and data.table is None):
        return None  # the split may be an argument
    if data.dataset is not None:
        return f"split of {data.dataset}"
    if data.splits_column is not None:
        return f"split of the column {data.splits_column}"
    if data.splits_file is not None:
        return "split of a file"
    kinds = {"scaffold-ogb": "scaffold split", "time": "split by time", "butina": "cluster split"}
    return kinds.get(data.split_type, f"{data.split_type} split")
