"""The local branch: messages along bonds, beside attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.pairs.bias import label_embeddings
from molsepnorm.nn.pairs.neighbours import Neighbours
from molsepnorm.nn.pairs.tensors import PairTensors


class GINE(nn.Module):
    r"""A graph isomorphism layer that reads bonds.

    .. math::

        \mathrm{MLP}\Bigl((1 + \epsilon) \, h_i
            + \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(h_j + \mathrm{emb}(e_{ij}))\Bigr)

    For atoms; the result is 0 in other slots. Equal to `torch_geometric.nn.GINEConv`.
    `kernels.local.FastGINE` computes the same without a scatter.

    Source: Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020, arXiv
    1905.12265; beside attention as in Rampášek et al., "Recipe for a General, Powerful, Scalable
    Graph Transformer", NeurIPS 2022, arXiv 2205.12454, section 3.

    Args:
        width: C.
        bond_sizes: number of values of each bond feature. Their embeddings are averaged.
    """

    def __init__(self, width: int, bond_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.bonds = nn.ParameterList([torch.empty(size, width) for size in bond_sizes])
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.mlp_in = nn.Linear(width, width)
        self.mlp_out = nn.Linear(width, width)

    def reset_parameters(self) -> None:
        """Set ε to 0."""
        nn.init.zeros_(self.epsilon)

    def forward(self, y: Tensor, x: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:
        """Return y + GINE(x), both (M, C)."""
        assert pairs.neighbours is not None
        embeddings = label_embeddings(self.bonds).to(x.dtype)
        sums = torch.addcmul(self.messages(x, embeddings, pairs.neighbours), x, 1 + self.epsilon)
        return y + self.mlp_out(F.gelu(self.mlp_in(sums))) * batch.mask[:, None]

    def messages(self, x: Tensor, embeddings: Tensor, neighbours: Neighbours) -> Tensor:  # (M, C)
        """Return Σ_j ReLU(x_j + e_ij) for every slot, with the embeddings (K, C) of bond labels."""
        from torch_geometric.utils import scatter

        slots, columns = neighbours.bonds.nonzero(as_tuple=True)
        labels = neighbours.bonds[slots, columns] - 1
        messages = torch.relu(x[neighbours.slots[slots, columns]] + embeddings[labels])
        return scatter(messages, slots, dim_size=len(x))
