"""URPE: learned factors of the attention weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, SELF, UNREACHABLE
from molsepnorm.nn.batch import GraphBatch, PathTable
from molsepnorm.nn.pairs.bias import by_head


class URPE(nn.Module):
    r"""Universal relative positional encoding: one factor per head and slot pair.

    `BiasedSelfAttention` multiplies its weights by these gates after the softmax. The rows of a
    softmax sum to one, so the number of an atom's neighbours is lost; with the gates it is not. For
    atoms i, j at the hop distance D, with optional features f_ij:

    .. math:: G_{ij} = 1 + c_D + w^\top f_{ij}

    A pair with the graph token has a learned c of its own, atoms of different fragments another,
    and padding has G = 0. Features are used for pairs of atoms of one fragment. All parameters are
    0 at first, so the gates are 1, and weight decay draws them back to 1.

    Source: Luo et al., NeurIPS 2022, arXiv 2205.13401, section 4 (URPE), without features. With
    features of resistance distances: Zhang et al., ICLR 2023, arXiv 2301.09505, section 4
    (Graphormer-GD), which has a small perceptron instead of w. In the code of both, all layers
    share one such matrix.
    """

    def __init__(self, heads: int, max_distance: int, features: int = 0) -> None:
        super().__init__()
        self.graph_token = nn.Parameter(torch.empty(heads))
        self.unreachable = nn.Parameter(torch.empty(heads))
        self.spatial = nn.Parameter(torch.empty(max_distance + 1, heads))
        self.features = nn.Parameter(torch.empty(features, heads)) if features else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all gates to 1."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(
        self,
        batch: GraphBatch,
        features: list[Tensor] | None = None,  # for each group (graphs, S, S, F)
    ) -> list[Tensor]:  # for each group (H, graphs, S, S)
        """Return the gates of every padded group of a batch.

        Features must be finite, also in padding.
        """
        assert (features is None) == (self.features is None)
        with torch.autocast(batch.pairs.device.type, enabled=False):
            gates = by_head(F.embedding(batch.pairs, self.table(batch.paths)), batch)
            if features is None or self.features is None:
                return gates
            joined = batch.by_group(batch.pairs >= SELF)
            weights = self.features.T  # (H, F)
            return [
                gate + (weights @ values.flatten(0, 2).to(gate.dtype).T).view_as(gate) * inside
                for gate, values, inside in zip(gates, features, joined, strict=True)
            ]

    def table(self, paths: PathTable) -> Tensor:  # (V, H)
        """Return the gates of every code of a path vocabulary, without features."""
        # in the order of the codes
        assert (PADDING, GRAPH_TOKEN, UNREACHABLE, SELF) == (0, 1, 2, 3)
        padding = torch.full_like(self.graph_token, -1.0)
        special = torch.stack([padding, self.graph_token, self.unreachable])
        return 1 + torch.cat([special, F.embedding(paths.distances[SELF:], self.spatial)])
