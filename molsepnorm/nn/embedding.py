"""The input of the first layer: atom features, degrees, random walks and the graph token."""

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
from molsepnorm.nn.walks import WalkEncoding


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
        """Embed every slot of a batch.

        Args:
            batch: the molecules.
            walks: the result of `walk_probabilities` for `config.node_walks` steps or more.

        Raises:
            ConfigError: the atoms have another number of features.
        """
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
