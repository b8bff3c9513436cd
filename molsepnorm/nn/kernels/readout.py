"""`Readout` written for speed."""

from __future__ import annotations

import torch
from torch import Tensor

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.readout import Readout


class FastReadout(Readout):
    """`Readout` that sums over the rectangles of the padded groups instead of scattering.

    The sums repeat bit by bit, also on a GPU.
    """

    def sums(self, values: Tensor, batch: GraphBatch) -> Tensor:  # (B, …)
        parts = values.split([group.graphs * group.slots for group in batch.groups])
        return torch.cat(
            [
                part.unflatten(0, (group.graphs, group.slots)).sum(1)
                for part, group in zip(parts, batch.groups, strict=True)
            ]
        )
