"""Pre-training by the prediction of Morgan fingerprints."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.objectives.pretext import Pretext, with_structure_features

__all__ = ["Fingerprint"]


class Fingerprint(Pretext):
    """The mean cross-entropy of the bits of the Morgan fingerprint (radius 2).

    Source: KPGT (Li et al., KDD 2022, arXiv 2206.03364) predicts the bits of another fingerprint.
    """

    shifts: Tensor

    @staticmethod
    def prepare(
        settings: PretrainingConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        return with_structure_features(dataset, progress)

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        packed = examples.arrays["fingerprint"]  # (G, bits / 8)
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
        self.register_buffer("shifts", shifts, persistent=False)
        self.head = nn.Linear(network.embedding_width, 8 * packed.shape[1])

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        packed = self.examples.arrays["fingerprint"][graphs]
        bits = (packed[:, :, None] >> self.shifts & 1).flatten(1)  # (B, bits)
        return F.binary_cross_entropy_with_logits(self.head(read).float(), bits.float())
