"""Pre-training by the regression of descriptors or of another model's embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.objectives.pretext import Pretext, with_structure_features
from molsepnorm.training.teacher import teacher_vectors

__all__ = ["Descriptors", "Regression", "Teacher", "clipped_scaling"]

_LIMIT = 6.0  # of standardised values, so that rare extreme ones do not dominate
_SAMPLE = 50_000  # training molecules from which the scaling is estimated
_TAILS = (0.1, 99.9)  # percentiles to which values are limited


class Regression(Pretext):
    """The squared error of standardised values, over a random share of them per molecule.

    Values are standardised by `clipped_scaling` and limited to ±6. Values that are NaN are left
    out. In evaluation all others count.
    """

    values: ClassVar[str]
    """Name of the array of values, [G, D]; that of its scaling is the name + "_scaling"."""
    mean: Tensor
    scale: Tensor

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        self.share = 1.0
        mean, scale = examples.arrays[f"{self.values}_scaling"]
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("scale", scale.clone(), persistent=False)
        self.head = nn.Linear(network.embedding_width, len(mean))

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        values = self.examples.arrays[self.values][graphs].float()  # (B, D)
        used = ~values.isnan()
        if self.training and self.share < 1:
            used &= torch.rand_like(values) < self.share
        targets = ((values - self.mean) / self.scale).clamp(-_LIMIT, _LIMIT).nan_to_num()
        errors = (self.head(read).float() - targets).square()
        return (errors * used).sum() / used.sum().clamp(min=1)


class Descriptors(Regression):
    """The regression of RDKit's 2D descriptors.

    Source: the CheMeleon model (arXiv 2506.15792) regresses Mordred descriptors, limited to ±6, on
    a random share of them. RDKit's descriptors and a share of 70 % are ours.
    """

    values = "descriptors"

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        self.share = settings.descriptor_share

    @staticmethod
    def prepare(
        settings: PretrainingConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        return _with_scaling(with_structure_features(dataset, progress), "descriptors")


class Teacher(Regression):
    """The regression of another model's embeddings of the same molecules (distillation).

    Molecules without a vector are left out of this loss.
    """

    values = "teacher"

    @staticmethod
    def prepare(
        settings: PretrainingConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        assert settings.teacher_vectors is not None
        vectors, warnings = teacher_vectors(settings.teacher_vectors, dataset)
        arrays = {**dataset.arrays, "teacher": vectors}
        dataset = replace(dataset, arrays=arrays, warnings=(*dataset.warnings, *warnings))
        return _with_scaling(dataset, "teacher")


def _with_scaling(dataset: Dataset, name: str) -> Dataset:
    """Return the data set with the scaling of one of its arrays."""
    scaling = clipped_scaling(dataset.arrays[name], dataset.splits["train"])
    return replace(dataset, arrays={**dataset.arrays, f"{name}_scaling": scaling})


def clipped_scaling(values: np.ndarray, train: np.ndarray) -> np.ndarray:  # (2, D)
    """Return the mean and the standard deviation of each column, without its extreme values.

    They are computed after the values below the 0.1st and above the 99.9th percentile were replaced
    by these percentiles. The standard deviation of a constant column is 1.
    """
    sample = train
    if len(train) > _SAMPLE:
        sample = np.random.default_rng(0).choice(train, _SAMPLE, replace=False)
    chosen = values[np.sort(sample)].astype(np.float64)
    empty = np.isnan(chosen).all(axis=0)
    chosen[:, empty] = 0.0
    low, high = np.nanpercentile(chosen, _TAILS, axis=0)
    chosen = np.clip(chosen, low, high)
    scale = np.nanstd(chosen, axis=0)
    constant = scale <= 1e-6 * np.maximum(np.nanmax(np.abs(chosen), axis=0), 1)
    return np.stack([np.nanmean(chosen, axis=0), np.where(constant, 1.0, scale)]).astype(np.float32)
