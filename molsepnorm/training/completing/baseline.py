"""The baseline of a run on a table: a random forest on the same molecules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.forest import TREES, Forest
from molsepnorm.model import PropertyModel
from molsepnorm.tasks import Task, json_scores
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing.blending import (
    blend_problem,
    forest_inputs,
    may_blend,
    num_labels,
)
from molsepnorm.training.completing.refit import refit_rows
from molsepnorm.training.completing.shares import forest_share
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import input_values
from molsepnorm.training.objectives import Results
from molsepnorm.training.objectives.supervised import predicted_splits
from molsepnorm.training.results.entries import differences

_SHARE = 1 / 4  # of the time of the run that the baseline may take
_MIN_SECONDS = 20.0  # that it may always take

_TREE_LABELS = 10_000_000
"""Number of trees times number of training labels, above which a forest that is blended has fewer
than `TREES` trees for each target."""
_MIN_TREES = 200  # of a forest that is blended


@dataclass(frozen=True)
class Baseline:
    """A random forest, and its predictions."""

    forest: Forest
    graphs: Mapping[str, np.ndarray]
    """int64 [n]: the molecules of `val` and `test` (none if the run has no test split), and of
    `train` if the forest is a part of the model."""
    predictions: Mapping[str, np.ndarray]
    """float32 [n, O]: those for these molecules."""
    seconds: float
    share: float
    """Weight of the forest in the model; 0 if it is only compared with it."""
    refit: bool
    """True if the forest is fitted to the training and validation molecules. The predictions for
    the validation molecules are then those of another one, which is fitted to the former alone."""

    def scores(self, dataset: Dataset, task: Task) -> dict[str, Any]:
        """Return the entry `baseline` of `metrics.json`."""
        return {
            **{
                split: json_scores(
                    task.scores(self.predictions[split], dataset.exact_labels[self.graphs[split]])
                )
                for split in ("val", "test")
            },
            "trees": self.forest.trees,
            "seconds": round(self.seconds, 1),
        }


def fit_baseline(
    *,
    config: TrainConfig,
    dataset: Dataset,
    model: PropertyModel,
    results: Results,
    callback: Callback,
    seconds: float,
    threads: int,
    is_refit: bool,
) -> Baseline | None:
    """Fit a random forest to the training molecules, and predict those of validation and test.

    The number of trees of a forest that can be blended depends on the number of labels alone, so
    that runs can be repeated: 500, and 200 to 500 with more than 20,000 labels. A forest that is
    only compared takes at most a quarter of the time of the run, or 20 seconds if that is more. If
    it needs more, it has fewer trees, and `callback.on_warning` is called. Data sets with a name,
    runs without targets and `run.baseline: false` have no baseline. Neither have molecules that are
    not SMILES; `callback.on_warning` is then called, too.

    With `run.refit` a forest that is blended, or compared with a model that is fitted to the
    validation molecules, is fitted to them as well. The weight of the forest is then chosen by
    another one of at most 200 trees, which is fitted to the training molecules. If the weight is 0
    and no part of the model is fitted again, this one is the baseline.

    Args as for `complete`. Without scores in the results there is nothing to compare, and a forest
    that is not blended is not fitted.
    """
    task, inputs = model.task, model.inputs
    if not config.run.baseline or config.data.dataset is not None or not task.targets:
        return None
    if dataset.smiles is None:
        callback.on_warning("The run has no baseline, because its molecules are not SMILES.")
        return None
    can_blend = may_blend(config, dataset, inputs)
    if not can_blend and config.run.blend != "none":
        problem = blend_problem(config, dataset, inputs)
        callback.on_warning(f"The random forest is not blended in, because {problem}.")
    if not (can_blend or results.scores):
        return None
    started = time.perf_counter()
    limit = max(_MIN_SECONDS, seconds * _SHARE / (1 - _SHARE))
    try:
        features, _ = input_values(dataset, forest_inputs(inputs), callback.on_progress, threads)
    except InvalidMolecule as error:
        callback.on_warning(f"The run has no baseline, because RDKit refuses a molecule: {error}")
        return None
    twice = config.run.refit and (can_blend or is_refit)
    left = max(limit - (time.perf_counter() - started), 0.0) / (1 + twice)
    allowed, trees = (None, _blended_trees(dataset)) if can_blend else (left, TREES)

    def fit(rows: np.ndarray, trees: int) -> Forest:
        """A bound, such as >10, is fitted as the number in it."""
        return Forest.fit(
            features[rows],
            dataset.labels[rows],
            task,
            None if dataset.weights is None else dataset.weights[rows],
            seed=config.run.seed,
            trees=trees,
            threads=threads,
            seconds=allowed,
        )

    forest = fit(dataset.splits["train"], min(trees, _MIN_TREES) if twice else trees)
    graphs = {split: dataset.splits[split] for split in ("val", "test")}
    unseen = forest.predict(features[graphs["val"]])
    share = 0.0
    if can_blend:
        own = results.predictions["val"]
        share = forest_share(task, own, unseen, dataset, graphs["val"], callback)
    refit = twice and (share > 0 or is_refit)
    if refit:
        forest = fit(refit_rows(dataset.splits), trees)
    if allowed is not None and forest.trees < trees:
        callback.on_warning(
            f"The random forest has {forest.trees} trees in place of {trees}, so that it takes "
            f"about {limit:,.0f} s."
        )
    predictions = {"val": unseen, "test": forest.predict(features[graphs["test"]])}
    if share and "train" in (written := predicted_splits(dataset)):
        graphs["train"] = written["train"]
        predictions["train"] = forest.predict(features[graphs["train"]])
    took = time.perf_counter() - started
    return Baseline(forest, graphs, predictions, took, share, refit)


def _blended_trees(dataset: Dataset) -> int:
    """Return the number of trees of each target in a forest that is blended."""
    return min(TREES, max(_MIN_TREES, _TREE_LABELS // max(num_labels(dataset), 1)))


def with_baseline(
    results: Results, baseline: Baseline | None, dataset: Dataset, task: Task
) -> Results:
    """Return the results of a model with those of its baseline beside them.

    The entry `baseline_difference` holds the test scores of the model minus those of the baseline,
    with 95 % intervals of a paired bootstrap.
    """
    if baseline is None or not results.predictions:
        return results
    scores, other = baseline.scores(dataset, task), baseline.predictions["test"]
    rows = baseline.graphs["test"]
    intervals = task.intervals(
        results.predictions["test"],
        dataset.exact_labels[rows],
        minus=other,
        molecules=dataset.molecule_ids[rows],
    )
    found = differences(results.scores["test"], scores["test"], intervals)
    entries = {**results.scores, "baseline": scores, "baseline_difference": found}
    return results._replace(scores=entries, baseline=baseline.predictions)
