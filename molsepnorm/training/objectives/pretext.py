"""`Pretext`: one of the losses of pre-training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.structures import structure_features

__all__ = ["Pretext", "clipped_scaling", "with_structure_targets"]

_SAMPLE = 50_000  # training molecules from which the scaling is estimated
_TAILS = (0.1, 99.9)  # percentiles to which values are limited


class Pretext(nn.Module, ABC):
    """A loss that is computed from the structure of molecules alone, with the head that it needs.

    Args:
        network: the network to train, which belongs to the objective.
        examples: the data set on the device, with the arrays of `prepare`.
        settings: the settings of the objective.
    """

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__()
        self.examples = examples

    @staticmethod
    def prepare(dataset: Dataset, progress: Callable[[int, int], None]) -> Dataset:
        """Return the data set with the arrays that the loss reads; see `Objective.prepare`."""
        return dataset

    @abstractmethod
    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:  # ()
        """Return the mean loss of a batch.

        Args:
            network: the network, for further forward passes.
            read: (B, R), the network's embedding of every molecule.
            batch: the B molecules.
            graphs: int64 [B], their indices in `examples`.
        """


def with_structure_targets(dataset: Dataset, progress: Callable[[int, int], None]) -> Dataset:
    """Return the data set with its descriptors and fingerprints, which are computed once."""
    if "descriptors" in dataset.arrays:
        return dataset
    if dataset.smiles is None:
        raise ConfigError(
            f"{dataset.name} has no SMILES to compute descriptors and fingerprints from: use the "
            "losses objective.masked or objective.contrastive, or a table of SMILES"
        )
    smiles = dataset.smiles_of(slice(None))
    targets = structure_features(smiles, ("descriptors", "fingerprint"), progress)
    scaling = clipped_scaling(targets["descriptors"], dataset.splits["train"])
    return replace(dataset, arrays={**dataset.arrays, **targets, "descriptor_scaling": scaling})


def clipped_scaling(descriptors: np.ndarray, train: np.ndarray) -> np.ndarray:  # (2, D)
    """Return the mean and the standard deviation of each descriptor, without its extreme values.

    They are computed after the values below the 0.1st and above the 99.9th percentile were replaced
    by these percentiles. The standard deviation of a constant descriptor is 1.
    """
    sample = train
    if len(train) > _SAMPLE:
        sample = np.random.default_rng(0).choice(train, _SAMPLE, replace=False)
    values = descriptors[np.sort(sample)].astype(np.float64)
    empty = np.isnan(values).all(axis=0)
    values[:, empty] = 0.0
    low, high = np.nanpercentile(values, _TAILS, axis=0)
    values = np.clip(values, low, high)
    scale = np.nanstd(values, axis=0)
    constant = scale <= 1e-6 * np.maximum(np.nanmax(np.abs(values), axis=0), 1)
    return np.stack([np.nanmean(values, axis=0), np.where(constant, 1.0, scale)]).astype(np.float32)
