"""From the slots of a batch to one vector per molecule."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch

__all__ = ["Pooling", "ReadoutKind"]

ReadoutKind = Literal["token", "mean", "sum", "token+mean", "token+sum"]

_TYPICAL_ATOMS = 16
"""A sum over atoms is divided by this, so that it begins at the size of a mean."""


class Pooling(nn.Module):
    """What is read off a molecule: its graph token, its atoms' mean or sum, or two of them.

    A sum grows with the molecule, as penalised logP does; a mean does not. Sums are divided by 16.

    Args:
        kind: token, mean, sum, token+mean or token+sum.
        width: C.
    """

    def __init__(self, kind: ReadoutKind, width: int) -> None:
        super().__init__()
        self.token = kind.startswith("token")
        self.atoms = kind.removeprefix("token").removeprefix("+")
        self.width = width * (bool(self.token) + bool(self.atoms))
        """R, of what is read off."""

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # (B, R)
        """Read off x (M, C), in the order in which the molecules were asked for."""
        parts = [x.index_select(0, batch.graph_token)] if self.token else []
        if self.atoms:
            pooled = _sums(x * batch.mask[:, None], batch)
            if self.atoms == "mean":
                atoms = _sums(batch.mask[:, None].to(x.dtype), batch)
                pooled = pooled / atoms.clamp(min=1)
            else:
                pooled = pooled / _TYPICAL_ATOMS
            parts.append(pooled.index_select(0, batch.order))
        return torch.cat(parts, dim=1)


def _sums(values: Tensor, batch: GraphBatch) -> Tensor:  # (B, …), in the blocks' order
    """Values (M, …) added up over the slots of each graph."""
    parts = values.split([block.graphs * block.slots for block in batch.blocks])
    return torch.cat(
        [
            part.unflatten(0, (block.graphs, block.slots)).sum(1)
            for part, block in zip(parts, batch.blocks, strict=True)
        ]
    )
