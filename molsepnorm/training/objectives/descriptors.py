"""Pre-training by the regression of RDKit's 2D descriptors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.training.config import PretrainingConfig
from molsepnorm.training.objectives.objective import Examples
from molsepnorm.training.objectives.pretext import Pretext, with_structure_targets

__all__ = ["Descriptors"]

_LIMIT = 6.0  # of standardised values, so that rare extreme ones do not dominate


class Descriptors(Pretext):
    """The squared error of standardised descriptors, over a random share of them per molecule.

    Values are standardised by `clipped_scaling` and limited to ±6. A descriptor that RDKit cannot
    compute for a molecule is left out. In evaluation all others count.

    Source: the CheMeleon model (arXiv 2506.15792) regresses Mordred descriptors, limited to ±6, on
    a random share of them. RDKit's descriptors and a share of 70 % are ours.
    """

    prepare = staticmethod(with_structure_targets)
    mean: Tensor
    scale: Tensor

    def __init__(
        self, network: Graphormer, examples: Examples, settings: PretrainingConfig
    ) -> None:
        super().__init__(network, examples, settings)
        self.share = settings.descriptor_share
        mean, scale = examples.arrays["descriptor_scaling"]
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("scale", scale.clone(), persistent=False)
        self.head = nn.Linear(network.embedding_width, len(mean))

    def forward(
        self, network: Graphormer, read: Tensor, batch: GraphBatch, graphs: Tensor
    ) -> Tensor:
        values = self.examples.arrays["descriptors"][graphs]  # (B, D)
        used = ~values.isnan()
        if self.training:
            used &= torch.rand_like(values) < self.share
        targets = ((values - self.mean) / self.scale).clamp(-_LIMIT, _LIMIT).nan_to_num()
        errors = (self.head(read).float() - targets).square()
        return (errors * used).sum() / used.sum().clamp(min=1)
