"""The baseline of a run on a table: a random forest on the same molecules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.forest.features import forest_features
from molsepnorm.forest.forest import TREES, Forest
from molsepnorm.tasks import Task, json_scores
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Results
from molsepnorm.training.structures import structure_targets

__all__ = ["comparison", "dataset_features", "with_baseline"]

_SHARE = 1 / 4  # of the time of the run that the baseline may take
_MIN_SECONDS = 10.0  # that it may always take


def dataset_features(
    dataset: Dataset, callback: Callback, processes: int | None = None
) -> np.ndarray:  # float32 (G, F)
    """Return the `forest_features` of all molecules; descriptors are kept in the cache.

    Args:
        dataset: molecules with their SMILES.
        callback: its `on_progress` is called while descriptors are computed.
        processes: as for `structure_targets`.

    Raises:
        InvalidMolecule: RDKit cannot read a SMILES.
        StorageError: the cache cannot be written.
    """
    assert dataset.smiles is not None
    smiles = [dataset.smiles[row] for row in dataset.store.rows]
    targets = structure_targets(smiles, callback.on_progress, processes)
    return forest_features(smiles, targets["descriptors"])


def with_baseline(
    results: Results,
    config: TrainConfig,
    dataset: Dataset,
    task: Task,
    callback: Callback,
    *,
    seconds: float,
    threads: int,
) -> Results:
    """Return the results of a network with those of a random forest beside them.

    The forest is fitted to the training molecules and scored on the same validation and test
    molecules. Its scores are the entry `baseline`. The entry `baseline_difference` holds the test
    scores of the network minus those of the forest, with 95 % intervals of a paired bootstrap.

    The forest takes at most a quarter of the time of the run, or ten seconds if that is more. If it
    needs more, it has fewer trees, and `callback.on_warning` is called. Data sets with a name, runs
    without targets and `run.baseline: false` have no baseline. Neither have molecules that are not
    SMILES; `callback.on_warning` is then called, too.

    Args:
        results: the results of the network.
        config: the configuration of the run.
        dataset: its data.
        task: its task.
        callback: receives warnings and progress.
        seconds: time that the run took so far.
        threads: number of CPU threads.
    """
    predicted = results.predictions
    if not config.run.baseline or config.data.dataset is not None or predicted is None:
        return results
    if dataset.smiles is None:
        callback.on_warning("The run has no baseline, because its molecules are not SMILES.")
        return results
    started, splits = time.perf_counter(), dataset.splits
    limit = max(_MIN_SECONDS, seconds * _SHARE / (1 - _SHARE))
    try:
        features = dataset_features(dataset, callback, threads)
    except InvalidMolecule as error:
        callback.on_warning(f"The run has no baseline, because RDKit refuses a molecule: {error}")
        return results
    train = splits["train"]
    forest = Forest.fit(
        features[train],
        dataset.labels[train],
        task,
        None if dataset.weights is None else dataset.weights[train],
        seed=config.run.seed,
        trees=TREES,
        threads=threads,
        seconds=max(limit - (time.perf_counter() - started), 0.0),
    )
    if forest.trees < TREES:
        callback.on_warning(
            f"The random forest has {forest.trees} trees in place of {TREES}, so that it takes "
            f"about {limit:,.0f} s."
        )
    by_split = {split: forest.predict(features[splits[split]]) for split in ("val", "test")}
    scores = {
        split: json_scores(task.scores(each, dataset.labels[splits[split]]))
        for split, each in by_split.items()
    }
    entry = {
        **scores,
        "trees": forest.trees,
        "seconds": round(time.perf_counter() - started, 1),
    }
    labels = dataset.labels[splits["test"]]
    own = results.scores["test"]
    differences = {
        name: {"difference": own[name] - scores["test"][name], "interval_95": list(ends)}
        for name, ends in task.intervals(predicted, labels, minus=by_split["test"]).items()
        if own[name] is not None and scores["test"][name] is not None
    }
    entries = {**results.scores, "baseline": entry, "baseline_difference": differences}
    return results._replace(scores=entries, baseline=by_split["test"])


def comparison(metrics: Mapping[str, Any]) -> str | None:
    """Return a sentence that compares the network with its baseline, from the content of
    `metrics.json`; None without a baseline, or if the difference is undefined."""
    differences = metrics.get("baseline_difference", {})
    name = metrics["chosen_by"]
    if name not in metrics["test"]:  # the loss, which is not among the scores
        name = next(iter(metrics["test"]))
    if name not in differences:
        return None
    found, metric = differences[name], METRICS[name]
    better = found["difference"] >= 0 if metric.higher_is_better else found["difference"] <= 0
    sign = 1 if found["difference"] >= 0 else -1
    low, high = sorted(sign * end for end in found["interval_95"])
    sentence = (
        f"The network is {'better' if better else 'worse'} than a random forest by "
        f"{abs(found['difference']):.3f} {metric.label} on the test molecules (95 % interval "
        f"{low:.3f} to {high:.3f})"
    )
    if low <= 0:
        return f"{sentence}. The difference is not clear."
    return f"{sentence}." if better else f"{sentence}. Prefer a forest for this table."
