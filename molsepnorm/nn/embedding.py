"""Atoms to vectors: feature embeddings, centrality encoding and the graph token."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch

__all__ = ["AtomEmbedding", "label_embeddings"]


class AtomEmbedding(nn.Module):
    r"""The input of the first layer.

    An atom starts as the sum of its feature embeddings and its degree's embedding; the graph
    token is one learned vector; padding is zero.

    .. math:: h_i = \sum_a \mathrm{emb}_a(x_{ia}) + z_{\deg(i)}

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, eq. 5; in- and out-degree are one table,
    since molecules are undirected.
    """

    def __init__(self, width: int, atom_sizes: tuple[int, ...], max_degree: int) -> None:
        super().__init__()
        self.atoms = nn.Parameter(torch.empty(sum(atom_sizes), width))
        self.degrees = nn.Parameter(torch.empty(max_degree + 1, width))
        self.graph_token = nn.Parameter(torch.empty(width))
        first_rows = torch.tensor((0, *atom_sizes[:-1])).cumsum(0)
        self.register_buffer("first_rows", first_rows, persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:  # (M, C)
        """Embed every slot of a batch.

        Raises:
            ConfigError: the atoms have another number of features.
        """
        if batch.atoms.shape[1] != len(self.get_buffer("first_rows")):
            raise ConfigError(
                f"the network reads {len(self.get_buffer('first_rows'))} features of each atom, "
                f"and the batch has {batch.atoms.shape[1]}: make the graphs with the featuriser "
                "that the model was trained with"
            )
        rows = batch.atoms + self.get_buffer("first_rows")  # (M, A)
        x = F.embedding(rows, self.atoms).sum(dim=1) + F.embedding(batch.degrees, self.degrees)
        x = x * batch.mask[:, None]
        return x.index_copy(0, batch.graph_token, self.graph_token.expand(len(batch), -1))


def label_embeddings(tables: Iterable[Tensor]) -> Tensor:  # (K, …)
    """The vector of every bond label: the mean of its features' embeddings, one table (values, …)
    for each feature; in labels the first feature changes fastest."""
    first, *others = tables
    labels = first
    for table in others:
        labels = (table[:, None] + labels).flatten(0, 1)
    return labels / (1 + len(others))
