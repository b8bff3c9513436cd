"""`blend`: networks and a random forest as one model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.tasks import Loss, Task
from molsepnorm.training.baseline import Baseline, forest_inputs
from molsepnorm.training.callback import Callback
from molsepnorm.training.objectives import Results
from molsepnorm.training.objectives.supervised import score

__all__ = ["blend"]

_STEPS = 20
"""Number of steps between a share of 0 and of 1."""
_MOLECULES = 20
"""Number of validation molecules that a share of 1/2 is worth."""


def blend(
    model: PropertyModel,
    results: Results,
    baseline: Baseline | None,
    dataset: Dataset,
    callback: Callback,
) -> tuple[PropertyModel, Results]:
    """Return the model and the results with the forests blended in.

    The share of the forests is a weighted mean of the share with the smallest validation loss,
    which counts as many molecules as have a label, and 1/2, which counts 20. It is a multiple of
    0.05. A few dozen molecules alone often leave out a part that helps on other molecules
    (benchmarks/RESULTS.md, "Comparison").

    Args:
        model: the networks.
        results: their results; without scores, they get none.
        baseline: the forests; the model is returned as it is if they are not to be blended.
        dataset: the data of the run.
        callback: receives a warning if the share of the forests is 0.
    """
    own = results.predictions
    if baseline is None or not baseline.blended or not own:
        return model, results
    share = _share(model.task, own["val"], baseline, dataset, callback)
    if not share:
        return model, results
    inputs = forest_inputs(model.inputs)
    blended = replace(model, forests=baseline.forests, forest_share=share, inputs=inputs)
    mixed = {split: _mixed(share, own[split], baseline.predictions[split]) for split in own}
    if not results.scores:
        return blended, results._replace(predictions=mixed)
    found = score(dataset, model.task, results.graphs, mixed)
    network = {split: results.scores[split] for split in ("val", "test")}
    entry = {"forest_share": share, "network": network}
    return blended, found._replace(scores={**found.scores, "blend": entry})


def _share(
    task: Task, own: np.ndarray, baseline: Baseline, dataset: Dataset, callback: Callback
) -> float:
    """Return the share of the forests; warn if it is 0."""
    graphs, forest = baseline.graphs["val"], baseline.predictions["val"]
    labels, weights, bounds = (
        None if each is None else torch.from_numpy(each[graphs])
        for each in (dataset.labels, dataset.weights, dataset.bounds)
    )
    assert labels is not None
    if not (count := int(labels.isfinite().any(dim=1).sum())):
        callback.on_warning(
            "The random forest is not blended in, because no validation molecule has a label."
        )
        return 0.0

    def loss(share: float) -> float:
        outputs = task.outputs_of(torch.from_numpy(_mixed(share, own, forest)))
        return float(Loss(task)(outputs, labels, weights, bounds)[0])

    best = min((step / _STEPS for step in range(_STEPS + 1)), key=loss)
    share = (count * best + _MOLECULES / 2) / (count + _MOLECULES)
    if not (share := round(share * _STEPS) / _STEPS):
        callback.on_warning(
            "The random forest is not blended in, because the validation loss is lowest without it."
        )
    return share


def _mixed(share: float, own: np.ndarray, forest: np.ndarray) -> np.ndarray:
    return (1 - share) * own + share * forest
