"""The baseline of a run on a table: a random forest on the same molecules."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.forest.forest import TREES, Forest
from molsepnorm.tasks import ExtraInputs, Task, json_scores
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Results
from molsepnorm.training.structures import structure_features

__all__ = ["comparison", "dataset_features", "with_baseline"]

_SHARE = 1 / 4  # of the time of the run that the baseline may take
_MIN_SECONDS = 20.0  # that it may always take


def dataset_features(
    dataset: Dataset,
    inputs: ExtraInputs,
    progress: Callable[[int, int], None],
    processes: int | None = None,
) -> np.ndarray:  # float32 (G, F)
    """Return Morgan counts, descriptors and the inputs from columns of the table.

    Args:
        dataset: molecules with their SMILES.
        inputs: the inputs of the model; its columns are read here, too.
        progress, processes: as for `structure_features`.

    Raises:
        InvalidMolecule: RDKit cannot read a SMILES.
        StorageError: the cache cannot be written.
    """
    assert dataset.smiles is not None
    smiles = [dataset.smiles[row] for row in dataset.store.rows]
    found = structure_features(smiles, ("counts", "descriptors"), progress, processes)
    cells = [dataset.columns[name] for name in inputs.names]
    columns, _ = inputs.encode_columns(cells, len(smiles))
    parts = found["counts"], found["descriptors"], columns
    return np.concatenate(parts, axis=1, dtype=np.float32)


def with_baseline(
    results: Results,
    config: TrainConfig,
    splits: Sequence[Dataset],
    task: Task,
    inputs: ExtraInputs,
    callback: Callback,
    seconds: float,
    threads: int,
) -> Results:
    """Return the results of a model with those of a random forest beside them.

    The forest is fitted to the training molecules and scored on the same validation and test
    molecules. Its scores are the entry `baseline`. The entry `baseline_difference` holds the test
    scores of the model minus those of the forest, with 95 % intervals of a paired bootstrap.

    The forest takes at most a quarter of the time of the run, or 20 seconds if that is more. If it
    needs more, it has fewer trees, and `callback.on_warning` is called. Data sets with a name, runs
    without targets and `run.baseline: false` have no baseline. Neither have molecules that are not
    SMILES; `callback.on_warning` is then called, too.

    Args:
        results: the results of the model.
        config: the configuration of the run.
        splits: the data set; for an ensemble by folds, once with the split of each fold. The trees
            are then divided among the folds.
        task: the task of the model.
        inputs: the inputs of the model beside the atoms and bonds.
        callback: receives warnings and progress.
        seconds: time that the run took so far.
        threads: number of CPU threads.
    """
    dataset, predicted = splits[0], results.predictions
    if not config.run.baseline or config.data.dataset is not None or predicted is None:
        return results
    if dataset.smiles is None:
        callback.on_warning("The run has no baseline, because its molecules are not SMILES.")
        return results
    started = time.perf_counter()
    limit = max(_MIN_SECONDS, seconds * _SHARE / (1 - _SHARE))
    try:
        features = dataset_features(dataset, inputs, callback.on_progress, threads)
    except InvalidMolecule as error:
        callback.on_warning(f"The run has no baseline, because RDKit refuses a molecule: {error}")
        return results
    left = max(limit - (time.perf_counter() - started), 0.0)
    forests = [
        _fit(features, each, task, config, threads, left / len(splits), len(splits))
        for each in splits
    ]
    trees, wanted = sum(each.trees for each in forests), TREES // len(splits) * len(splits)
    if trees < wanted:
        callback.on_warning(
            f"The random forest has {trees} trees in place of {wanted}, so that it takes about "
            f"{limit:,.0f} s."
        )
    val, test = [each.splits["val"] for each in splits], dataset.splits["test"]
    pairs = zip(forests, val, strict=True)
    by_split = {
        "val": np.concatenate([forest.predict(features[graphs]) for forest, graphs in pairs]),
        "test": np.mean([forest.predict(features[test]) for forest in forests], axis=0),
    }
    labels = {"val": dataset.exact_labels[np.concatenate(val)], "test": dataset.exact_labels[test]}
    scores: dict[str, Any] = {
        split: json_scores(task.scores(each, labels[split])) for split, each in by_split.items()
    }
    own, other = results.scores["test"], scores["test"]
    ends = task.intervals(predicted, labels["test"], minus=by_split["test"])
    differences = {
        name: {"difference": own[name] - other[name], "interval_95": list(interval)}
        for name, interval in ends.items()
        if own[name] is not None and other[name] is not None
    }
    scores |= {"trees": trees, "seconds": round(time.perf_counter() - started, 1)}
    entries = {**results.scores, "baseline": scores, "baseline_difference": differences}
    return results._replace(scores=entries, baseline=by_split["test"])


def _fit(
    features: np.ndarray,
    dataset: Dataset,
    task: Task,
    config: TrainConfig,
    threads: int,
    seconds: float,
    parts: int,
) -> Forest:
    """Return a forest of the training molecules, with one of so many parts of the trees.

    A bound, such as >10, is fitted as the number in it.
    """
    train, weights = dataset.splits["train"], dataset.weights
    return Forest.fit(
        features[train],
        dataset.labels[train],
        task,
        None if weights is None else weights[train],
        seed=config.run.seed,
        trees=TREES // parts,
        threads=threads,
        seconds=seconds,
    )


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
