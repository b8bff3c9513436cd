"""`forest_share`: how much of a prediction comes from the random forest."""

from __future__ import annotations

import numpy as np
import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.tasks import Loss, Task
from molsepnorm.training.callback import Callback

__all__ = ["forest_share"]

_STEPS = 20
"""Number of steps between a share of 0 and of 1."""
_MOLECULES = 20
"""Number of validation molecules that a share of 1/2 is worth."""


def forest_share(
    task: Task,
    networks: np.ndarray,
    forest: np.ndarray,
    dataset: Dataset,
    graphs: np.ndarray,
    callback: Callback,
) -> float:
    """Return the share of the forest in the mean of networks and forest, between 0 and 1.

    It is a weighted mean of the share with the smallest validation loss, which counts as many
    molecules as have a label, and 1/2, which counts 20. It is a multiple of 0.05. A few dozen
    molecules alone often leave out a part that helps on other molecules (benchmarks/RESULTS.md,
    "Comparison").

    Args:
        task: the targets.
        networks, forest: float32 [n, O], their predictions for the validation molecules.
        dataset: the data of the run.
        graphs: int64 [n], the validation molecules.
        callback: receives a warning if the share is 0.
    """
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
        mixed = (1 - share) * networks + share * forest
        outputs = task.outputs_of(torch.from_numpy(mixed))
        return float(Loss(task)(outputs, labels, weights, bounds)[0])

    best = min((step / _STEPS for step in range(_STEPS + 1)), key=loss)
    share = (count * best + _MOLECULES / 2) / (count + _MOLECULES)
    if not (share := round(share * _STEPS) / _STEPS):
        callback.on_warning(
            "The random forest is not blended in, because the validation loss is lowest without it."
        )
    return share
