"""`Pretext`: one of the losses of pre-training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.structures import structure_features

__all__ = ["Pretext", "with_structure_features"]


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
    def prepare(
        settings: PretrainingConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
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


def with_structure_features(dataset: Dataset, progress: Callable[[int, int], None]) -> Dataset:
    """Return the data set with its descriptors and fingerprints, which are computed once."""
    if "descriptors" in dataset.arrays:
        return dataset
    if dataset.smiles is None:
        raise ConfigError(
            f"{dataset.name} has no SMILES to compute descriptors and fingerprints from: use the "
            "losses objective.masked or objective.contrastive, or a table of SMILES"
        )
    smiles = dataset.smiles_of(slice(None))
    features = structure_features(smiles, ("descriptors", "fingerprint"), progress)
    return replace(dataset, arrays={**dataset.arrays, **features})
