"""The input of the first layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.norms import Unchanged
from molsepnorm.nn.parts import Parts


class AtomEmbedding(nn.Module):
    r"""Embed atoms and graph tokens; padding is zero.

    .. math:: h_i = \sum_a \mathrm{emb}_a(x_{ia}) + z_{\deg(i)} + \mathrm{RWSE}_i

    The graph token is a learned vector. Random walks (`WalkEncoding`) are optional.

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, eq. 5. In-degree and out-degree share one
    table, since molecules are undirected.
    """

    first_rows: Tensor

    def __init__(self, config: GraphormerConfig, parts: Parts) -> None:
        super().__init__()
        self.atoms = nn.Parameter(torch.empty(sum(config.atom_sizes), config.width))
        self.degrees = nn.Parameter(torch.empty(config.max_degree + 1, config.width))
        self.graph_token = nn.Parameter(torch.empty(config.width))
        steps = config.node_walks
        self.walk_encoding = WalkEncoding(steps, config.width) if steps else Unchanged()
        self.dropout = parts.dropout(config.dropout)
        first_rows = torch.tensor((0, *config.atom_sizes[:-1])).cumsum(0)
        self.register_buffer("first_rows", first_rows, persistent=False)

    def forward(self, batch: GraphBatch, walks: Sequence[Tensor] = ()) -> Tensor:  # (M, C)
        """Embed every slot of a batch, with its `walk_probabilities`."""
        if batch.atoms.shape[1] != len(self.first_rows):
            raise ConfigError(
                f"the network reads {len(self.first_rows)} features of each atom, and the batch "
                f"has {batch.atoms.shape[1]}: make the graphs with the featuriser that the model "
                "was trained with"
            )
        rows = batch.atoms + self.first_rows  # (M, A)
        x = F.embedding(rows, self.atoms).sum(dim=1) + F.embedding(batch.degrees, self.degrees)
        x = x * batch.mask[:, None]
        token = self.graph_token.expand(batch.graph_token.shape[0], -1)
        x = x.index_copy(0, batch.graph_token, token)
        return self.dropout(self.walk_encoding(x, walks, batch.mask))


_RETURN_SCALE = 10.0, 40.0
"""Scales of return probabilities after even and odd numbers of steps, about the inverses of their
standard deviations in drug-like molecules (0.06 to 0.11 and 0.01 to 0.03 on ZINC)."""


class WalkEncoding(nn.Module):
    r"""A linear map of the probabilities that a random walk is back at its atom after 1 … W steps.

    .. math:: A \, [s_1 M_{ii}, s_2 M^2_{ii}, \ldots, s_W M^W_{ii}] + b

    with fixed scales s and A = 0 before training.

    Source: Dwivedi et al., "Graph Neural Networks with Learnable Structural and Positional
    Representations", ICLR 2022, arXiv 2110.07875 (RWSE in Rampášek et al., NeurIPS 2022).

    Differences: fixed scales instead of a batch norm over the atoms. Walks return after an odd
    number of steps only in odd rings. Without such rings in training, a batch norm would divide
    these channels by √ε. Here their weights get no gradient and stay 0.
    """

    scale: Tensor

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        even, odd = _RETURN_SCALE
        scale = torch.tensor([odd if step % 2 else even for step in range(1, steps + 1)])
        self.register_buffer("scale", scale, persistent=False)
        self.linear = nn.Linear(steps, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, walks: Sequence[Tensor], mask: Tensor) -> Tensor:  # (M, C)
        """Add the encoding of `walk_probabilities` for W steps or more to the atoms of x (M, C)."""
        steps = slice(1, len(self.scale) + 1)
        returns = torch.cat(  # from the diagonals (graphs, W + 1, S)
            [torch.diagonal(group, dim1=1, dim2=2)[:, steps].mT.flatten(0, 1) for group in walks]
        )
        return x + self.linear(returns * self.scale) * mask[:, None]
