"""From the slots of a batch to one vector per molecule."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import ReadoutKind

TYPICAL_ATOMS = 16
"""Sums over atoms are divided by this number, so that they start at the size of a mean."""


class Readout(nn.Module):
    """Read out the graph token, the mean or sum of the atoms, or the token and one of these. A sum
    grows with the molecule, as penalised logP does."""

    def __init__(self, kind: ReadoutKind, width: int) -> None:
        super().__init__()
        self.token = kind.startswith("token")
        self.atoms = kind.removeprefix("token").removeprefix("+")
        self.width = width * (self.token + bool(self.atoms))
        """R, the number of channels of the result."""

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # (B, R)
        parts = [x.index_select(0, batch.graph_token)] if self.token else []
        if self.atoms:
            pooled = self.sums(x * batch.mask[:, None], batch)
            if self.atoms == "mean":
                atoms = self.sums(batch.mask[:, None].to(x.dtype), batch)
                pooled = pooled / atoms.clamp(min=1)
            else:
                pooled = pooled / TYPICAL_ATOMS
            parts.append(pooled.index_select(0, batch.order))
        return torch.cat(parts, dim=1)

    def sums(self, values: Tensor, batch: GraphBatch) -> Tensor:  # (B, …)
        """Sum values (M, …) over the slots of each graph, group by group."""
        from torch_geometric.utils import scatter

        first_slots = torch.zeros_like(batch.degrees).index_fill_(0, batch.graph_token, 1)
        return scatter(values, first_slots.cumsum(0) - 1, dim_size=len(batch))


class GraphTokenReadout(nn.Module):
    """Read out graph tokens (B, C) that are in the order of their slots."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # (B, C)
        return x.index_select(0, batch.order)


class FastReadout(Readout):
    """`Readout` that sums over the rectangles of the padded groups; the sums repeat bit by bit."""

    def sums(self, values: Tensor, batch: GraphBatch) -> Tensor:  # (B, …)
        parts = values.split([group.graphs * group.slots for group in batch.groups])
        return torch.cat(
            [
                part.unflatten(0, (group.graphs, group.slots)).sum(1)
                for part, group in zip(parts, batch.groups, strict=True)
            ]
        )
