"""Predictions of a trained model for its data set, and their entries in `metrics.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.splits import split_name
from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan
from molsepnorm.tasks import Task, json_scores
from molsepnorm.tasks.label_errors import noise_scores
from molsepnorm.training.results.metrics import ForestScores, Gap, NoiseScores, Scores

MAX_TRAINING = 20_000  # training molecules whose predictions a run writes
_MAX_TRAIN, _MAX_TEST = 20_000, 500  # molecules whose similarities are computed


class Predictions(NamedTuple):
    """Predictions of a model and of the models beside it, by split, as far as a run uses them."""

    graphs: Mapping[str, np.ndarray] = MappingProxyType({})  # int64 [n]
    values: Mapping[str, np.ndarray] = MappingProxyType({})  # float32 [n, O]
    forest: Mapping[str, np.ndarray] = MappingProxyType({})  # float32 [n, O]
    without_own: Mapping[str, np.ndarray] = MappingProxyType({})  # of a model without own networks


def predicted_splits(dataset: Dataset) -> dict[str, np.ndarray]:
    """Return the molecules, int64 [n], of the splits whose predictions a run writes."""
    names = ["val"]
    if dataset.has_test:
        names += ["test"] + ["train"] * (len(dataset.splits["train"]) <= MAX_TRAINING)
    return {split: dataset.splits[split] for split in names}


def refit_rows(splits: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the training and validation molecules, int64 [n], for the second fit."""
    return np.union1d(splits["train"], splits["val"])


def scored_together(dataset: Dataset) -> np.ndarray:  # (G,)
    """Return the same number for rows that count as one molecule in intervals of scores: those of a
    molecule, unless the split divides them, as one for new combinations of known molecules does."""
    both = dataset.molecule_ids, dataset.together
    return max(both, key=lambda ids: len(np.unique(ids)))


def dataset_scores(
    dataset: Dataset, task: Task, predictions: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Return `Task.scores`, with the official evaluator of a data set for its metric."""
    scores = task.scores(predictions, labels)
    if dataset.evaluator is not None and dataset.metric is not None:
        scores[dataset.metric] = dataset.evaluator(predictions, labels)
    return scores


def score(dataset: Dataset, task: Task, predictions: Predictions) -> dict[str, Any]:
    """Return the entries of `Metrics` about scores."""
    exact = dataset.exact_labels
    entries: dict[str, Any] = split_scores(dataset, task, predictions.graphs, predictions.values)
    if "test" not in predictions.graphs:
        return entries
    rows, test = predictions.graphs["test"], predictions.values["test"]
    labels, molecules = exact[rows], scored_together(dataset)[rows]
    constant = np.tile(task.baseline_prediction(exact[dataset.splits["train"]]), (len(labels), 1))

    def difference(others: np.ndarray, scores: Scores, **only: Any) -> dict[str, Gap]:
        paired = task.intervals(test, labels, molecules=molecules, minus=others, **only)
        return gaps(entries["test"], scores, paired)

    entries["test_constant"] = json_scores(task.scores(constant, labels))
    entries["test_interval_95"] = task.intervals(test, labels, molecules=molecules)
    entries["headlines"] = list(task.headlines)
    compared = {*task.headlines, *replace(task, metric="loss").headlines, "log_loss"}
    entries["constant_difference"] = difference(constant, entries["test_constant"], only=compared)
    entries["labels"] = dataset.about_labels({**dataset.splits, **predictions.graphs})
    entries["label_errors"] = _noise_scores(dataset, task, labels, test, rows)
    if forest := predictions.forest:
        scores = {
            split: json_scores(task.scores(forest[split], exact[predictions.graphs[split]]))
            for split in ("val", "test")
        }
        entries["baseline"] = ForestScores(**scores)
        entries["baseline_difference"] = difference(forest["test"], scores["test"])
    if others := predictions.without_own:
        entries["test_without_own"] = json_scores(task.scores(others["test"], labels))
        entries["own_difference"] = difference(others["test"], entries["test_without_own"])
    return entries


def _noise_scores(
    dataset: Dataset, task: Task, labels: np.ndarray, predictions: np.ndarray, rows: np.ndarray
) -> dict[str, NoiseScores]:
    scores = {}
    for i, (name, columns) in enumerate(zip(task.names, task.columns(), strict=True)):
        known = np.isfinite(labels[:, i]) & np.isfinite(predictions[:, columns.start])
        if dataset.errors is not None and name in dataset.unexplained and known.any():
            values, errors = predictions[known, columns.start], dataset.errors[rows, i][known]
            about = noise_scores(values, labels[known, i], errors)
            scores[name] = NoiseScores(unexplained=dataset.unexplained[name], **json_scores(about))
    return scores


def split_scores(
    dataset: Dataset, task: Task, graphs: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]
) -> dict[str, Scores]:
    exact = dataset.exact_labels
    return {
        split: json_scores(dataset_scores(dataset, task, values[split], exact[graphs[split]]))
        for split in ("val", "test")
        if split in graphs
    }


def gaps(
    scores: Scores, others: Scores, intervals: Mapping[str, tuple[float, float]]
) -> dict[str, Gap]:
    return {
        name: Gap(difference=one - other, interval_95=ends)
        for name, ends in intervals.items()
        if (one := scores[name]) is not None and (other := others[name]) is not None
    }


def about_split(data: DataConfig, dataset: Dataset) -> dict[str, Any]:
    """Return the entries of `Metrics` about the molecules that the scores are computed from."""
    if not dataset.targets:
        return {}
    parts = dataset.splits
    # different molecules of a data set with a name may have the same graph
    ids = np.arange(len(dataset.store)) if data.dataset else dataset.molecule_ids
    sizes = {name: len(np.unique(ids[part])) for name, part in parts.items()}
    entries: dict[str, Any] = {"molecules": sizes}
    exact = np.isfinite(dataset.exact_labels[parts["test"]])
    units = ids if data.dataset else scored_together(dataset)
    counts = (len(np.unique(units[parts["test"][known]])) for known in exact.T)
    entries["labelled_test"] = dict(zip(dataset.target_names, counts, strict=True))
    if (name := split_name(data)) is not None:
        entries["split"] = name
    if dataset.smiles is not None:
        bits = {}
        for name, most in (("test", _MAX_TEST), ("train", _MAX_TRAIN)):
            first_rows = np.unique(ids[parts[name]], return_index=True)[1]
            part = drawn(parts[name][np.sort(first_rows)], most)
            try:
                bits[name] = packed_morgan(dataset.smiles_of(part))
            except InvalidMolecule:  # the text of another package's featuriser
                return entries
        median = float(np.median(nearest(bits["test"], bits["train"])[1]))
        compared = {name: len(rows) for name, rows in bits.items()}
        entries["nearest_train_similarity"] = {"median": median, **compared}
    return entries


def drawn(rows: np.ndarray, most: int) -> np.ndarray:
    """Return the rows, or a sorted random sample of `most` of them, always the same."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
