"""The random forest of a run on a table: a part of the model, or a baseline beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.devices import threads_of
from molsepnorm.errors import ConfigError, InvalidMolecule
from molsepnorm.forest import TREES, Forest
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.tasks import ExtraInputs
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing.shares import forest_share
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import input_values
from molsepnorm.training.scoring import predicted_splits, refit_rows

_SHARE = 1 / 4  # of the time of the run that the baseline may take
_MIN_SECONDS = 20.0  # that it may always take

_TREE_LABELS = 10_000_000
"""Number of trees times number of training labels, above which a forest that is blended has fewer
than `TREES` trees for each target."""
_MIN_TREES = 200  # of a forest that is blended

_MAX_LABELS = 100_000
"""Maximum number of training labels of all targets with which a forest is blended by default."""


class Baseline(NamedTuple):
    """A random forest, and its predictions."""

    forest: Forest
    predictions: Mapping[str, np.ndarray]
    """float32 [n, O]: those of `predicted_splits`, of `train` only if the forest is a part of the
    model."""
    seconds: float
    share: float
    """Weight of the forest in the model; 0 if it is only compared with it."""
    refit: bool
    """True if the forest is fitted to the training and validation molecules. The predictions for
    the validation molecules are then those of another one, which is fitted to the former alone."""


def fit_baseline(
    config: TrainConfig,
    dataset: Dataset,
    model: PropertyModel,
    val: np.ndarray,
    is_refit: bool,
    seconds: float,
    callback: Callback,
) -> Baseline | None:
    """Fit a random forest to the training molecules, and predict those of validation and test.

    The number of trees of a forest that can be blended depends on the number of labels alone, so
    that runs can be repeated: 500, and 200 to 500 with more than 20,000 labels. A forest that is
    only compared takes at most a quarter of the time of the run, or 20 seconds if that is more. If
    it needs more, it has fewer trees, and `callback.on_warning` is called. Data sets with a name
    and `run.baseline: false` have no baseline. Neither have molecules that are not SMILES;
    `callback.on_warning` is then called, too. Without a test split there is nothing to compare, and
    a forest that is not blended is not fitted.

    With `run.refit` a forest that is blended, or compared with a model that is fitted to the
    validation molecules, is fitted to them as well. The weight of the forest is then chosen by
    another one of at most 200 trees, which is fitted to the training molecules. If the weight is 0
    and no part of the model is fitted again, this one is the baseline.

    Args:
        config, dataset: those of the run.
        model: its networks.
        val: float32 [n, O], their predictions for the validation molecules.
        is_refit: whether the networks are fitted to the validation molecules, too.
        seconds: time that the run took so far.
        callback: receives warnings and progress.
    """
    if not config.run.baseline or config.data.dataset is not None:
        return None
    if dataset.smiles is None:
        callback.on_warning("The run has no baseline, because its molecules are not SMILES.")
        return None
    can_blend = may_blend(config, dataset, model.inputs)
    if not can_blend and config.run.blend != "none":
        problem = blend_problem(config, dataset, model.inputs)
        callback.on_warning(f"The random forest is not blended in, because {problem}.")
    if not (can_blend or dataset.has_test):
        return None
    started, threads = time.perf_counter(), threads_of(config.run.threads)
    limit = max(_MIN_SECONDS, seconds * _SHARE / (1 - _SHARE))
    try:
        read = forest_inputs(model.inputs)
        features, _ = input_values(dataset, read, callback.on_progress, threads)
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
            model.task,
            None if dataset.weights is None else dataset.weights[rows],
            seed=config.run.seed,
            trees=trees,
            threads=threads,
            seconds=allowed,
        )

    graphs = predicted_splits(dataset)
    forest = fit(dataset.splits["train"], min(trees, _MIN_TREES) if twice else trees)
    predictions = {"val": forest.predict(features[graphs.pop("val")])}
    share = forest_share(model.task, val, predictions["val"], dataset, callback) if can_blend else 0
    refit = twice and (share > 0 or is_refit)
    if refit:
        forest = fit(refit_rows(dataset.splits), trees)
    if allowed is not None and forest.trees < trees:
        callback.on_warning(
            f"The random forest has {forest.trees} trees in place of {trees}, so that it takes "
            f"about {limit:,.0f} s."
        )
    for split, rows in graphs.items():
        if share or split != "train":
            predictions[split] = forest.predict(features[rows])
    return Baseline(forest, predictions, time.perf_counter() - started, share, refit)


def _blended_trees(dataset: Dataset) -> int:
    """Return the number of trees of each target in a forest that is blended."""
    return min(TREES, max(_MIN_TREES, _TREE_LABELS // max(num_labels(dataset), 1)))


def forest_inputs(inputs: ExtraInputs) -> ExtraInputs:
    """Return the inputs of the forest beside a network with these inputs: the columns of the table,
    Morgan counts, and descriptors, which are those of the network if it reads any. Atom pairs,
    which only a kernel head reads, follow them in the inputs of the model."""
    from molsepnorm.molecules.featurize.descriptors import COUNTS, FAST_DESCRIPTORS

    return ExtraInputs(inputs.columns, COUNTS, inputs.descriptors or FAST_DESCRIPTORS)


def blend_problem(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> str | None:
    """Return the reason why no forest can be blended with the network; None if there is none.

    Args:
        config: the configuration of the run.
        dataset: its data.
        inputs: the inputs of the network beside the atoms and bonds.
    """
    if config.objective.name != SUPERVISED:
        return f"the objective {config.objective.name} has no predictions"
    if config.data.dataset is not None or dataset.smiles is None:
        return f"{dataset.name} is not a table with SMILES"
    if not replace(inputs, pairs=0).is_start_of(forest_inputs(inputs)):
        return "data.molecule_features has rdkit without morgan: name both or neither"
    if config.run.blend == "auto" and num_labels(dataset) > _MAX_LABELS:
        return (
            f"there are more than {_MAX_LABELS:,} training labels (--blend forest includes it all "
            "the same)"
        )
    return None


def may_blend(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> bool:
    """Return whether a forest may become a part of the model; arguments as for `blend_problem`.

    The validation molecules may still leave it out.
    """
    allowed = config.run.baseline and config.run.blend != "none"
    return allowed and blend_problem(config, dataset, inputs) is None


def require_blendable(config: TrainConfig, dataset: Dataset, inputs: ExtraInputs) -> None:
    """Check that the run can have the blend that its configuration names.

    Raises:
        ConfigError: `run.blend` is `forest`, and no forest can be blended.
    """
    problem = blend_problem(config, dataset, inputs)
    if config.run.blend == "forest" and problem is not None:
        raise ConfigError(f"run.blend: forest cannot be used, because {problem}")


def num_labels(dataset: Dataset) -> int:
    """Return the number of training labels of all targets."""
    return int(np.isfinite(dataset.labels[dataset.splits["train"]]).sum())
