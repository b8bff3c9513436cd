"""`refit`: fit the kernel regressions of a chosen model again, to more molecules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from molsepnorm.model import PropertyModel
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe import MAX_MOLECULES, refit_kernels


def refit_rows(splits: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the molecules that parts of a model are fitted to again, int64 [n]: those of the
    training and validation splits."""
    return np.union1d(splits["train"], splits["val"])


def refit(
    config: TrainConfig,
    model: PropertyModel,
    examples: Examples,
    splits: Mapping[str, np.ndarray],
) -> PropertyModel:
    """Return a chosen model, on the device of the examples, whose kernel regressions are fitted to
    the training and validation molecules; its validation scores and intervals are those of the
    model that was chosen.

    It is the model itself if `run.refit` is off, if it has no kernel regression, if the data set
    has a name, so that its split is a protocol, or if there are more molecules than a kernel
    regression compares.
    """
    rows = refit_rows(splits)
    has_kernel = any(network.config.head == "kernel" for network in model.networks)
    allowed = config.run.refit and config.data.dataset is None
    if not (allowed and has_kernel and len(rows) <= MAX_MOLECULES):
        return model
    return refit_kernels(model, examples, rows)
