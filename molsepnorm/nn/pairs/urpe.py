"""Gates on the attention weights, by the distance of two atoms."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.molecules.codes import GRAPH_TOKEN, PADDING, SELF, UNREACHABLE
from molsepnorm.nn.batch import GraphBatch, PathTable

__all__ = ["RelativeGate"]


class RelativeGate(nn.Module):
    r"""One factor per head and slot pair, for `BiasedSelfAttention` to multiply its weights by.

    A softmax's rows sum up to one whatever the bias, so that how many neighbours an atom has is
    lost in it; factors after it are free. For atoms i, j at the hop distance D, described by the
    features f_ij besides:

    .. math:: G_{ij} = 1 + c_D + w^\top f_{ij}

    A pair with the graph token has a learned c of its own, atoms of different fragments another;
    padding has 0. Features count for atoms that a path joins, themselves included. All parameters
    are 0 at first, so a model with gates starts as the one without; and a weight decay draws it
    back to that.

    Source: Luo et al., NeurIPS 2022, arXiv 2205.13401, section 4 (URPE), without features. With
    features of resistance distances: Zhang et al., ICLR 2023, arXiv 2301.09505, section 4
    (Graphormer-GD), where a small perceptron stands in place of w. In the code of both one such
    matrix serves all layers. For a matrix per layer, make one module of heads · layers heads and
    cut its gates in pieces along their first dimension.

    Args:
        heads: H.
        max_distance: the largest distance with a factor of its own.
        features: F, how many features describe an atom pair.
    """

    def __init__(self, heads: int, max_distance: int, features: int = 0) -> None:
        super().__init__()
        self.graph_token = nn.Parameter(torch.empty(heads))
        self.unreachable = nn.Parameter(torch.empty(heads))
        self.spatial = nn.Parameter(torch.empty(max_distance + 1, heads))
        self.features = nn.Parameter(torch.empty(features, heads)) if features else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All gates become 1."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(
        self,
        batch: GraphBatch,
        features: list[Tensor] | None = None,  # for each block (graphs, S, S, F)
    ) -> list[Tensor]:  # for each block (H, graphs, S, S)
        """The gates of every block of a batch.

        Args:
            batch: what to attend to.
            features: of the atom pairs; finite, in padding and at the graph token too.

        Raises:
            ValueError: there are features and the module has no weights for them, or the reverse.
        """
        if (features is None) != (self.features is None):
            told = "no features" if features is None else "features"
            expected = 0 if self.features is None else len(self.features)
            raise ValueError(
                f"RelativeGate got {told} of the atom pairs, but was made for features={expected}: "
                "make it with features=F, F of them for each pair, or pass none"
            )
        with torch.autocast(batch.pairs.device.type, enabled=False):
            values = F.embedding(batch.pairs, self.table(batch.paths))  # (P, H)
            gates = [part.T.contiguous() for part in batch.by_block(values)]  # (H, graphs·S²)
            if features is not None and self.features is not None:
                joined = batch.by_block(batch.pairs >= SELF)
                weights = self.features.T  # (H, F)
                gates = [
                    gate + (weights @ known.flatten(0, 2).to(gate.dtype).T) * each
                    for gate, known, each in zip(gates, features, joined, strict=True)
                ]
        return [
            gate.view(-1, block.graphs, block.slots, block.slots)
            for block, gate in zip(batch.blocks, gates, strict=True)
        ]

    def table(self, paths: PathTable) -> Tensor:  # (V, H)
        """The gates of every code of a path vocabulary, features aside."""
        # in the order of the codes
        assert (PADDING, GRAPH_TOKEN, UNREACHABLE, SELF) == (0, 1, 2, 3)
        padding = torch.full_like(self.graph_token, -1.0)
        special = torch.stack([padding, self.graph_token, self.unreachable])
        return 1 + torch.cat([special, F.embedding(paths.distances[SELF:], self.spatial)])
