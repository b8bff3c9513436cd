"""The local branch: messages along bonds, beside attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from molsepnorm.nn.embedding import label_embeddings
from molsepnorm.nn.pairs.neighbours import Neighbours

__all__ = ["GINE"]

_NEVER = -1e30
"""Added to a place without a bond, whose message is then 0 after the ReLU."""


class GINE(nn.Module):
    r"""A graph isomorphism layer that reads bonds.

    .. math::

        \mathrm{MLP}\Bigl((1 + \epsilon) \, h_i
            + \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(h_j + \mathrm{emb}(e_{ij}))\Bigr)

    For atoms; slots without an atom get 0. Equal to `torch_geometric.nn.GINEConv`, but by tables
    of neighbours in place of lists of bonds: shapes follow from the batch's plan, so that a step
    can be captured, and gradients are gathered, not scattered, so that they are the same to the
    bit in every run.

    Source: Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020, arXiv
    1905.12265; beside attention as in Rampášek et al., "Recipe for a General, Powerful, Scalable
    Graph Transformer", NeurIPS 2022, arXiv 2205.12454, section 3.

    Args:
        width: C.
        bond_sizes: how many values each bond feature has; their embeddings are averaged.
    """

    def __init__(self, width: int, bond_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.bonds = nn.ParameterList([torch.empty(size, width) for size in bond_sizes])
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.mlp_in = nn.Linear(width, width)
        self.mlp_out = nn.Linear(width, width)

    def forward(self, x: Tensor, neighbours: Neighbours, mask: Tensor) -> Tensor:  # (M, C)
        """What every atom makes of itself and of its neighbours, x (M, C); mask (M,): atoms."""
        messages = _Messages.apply(x, label_embeddings(self.bonds).to(x.dtype), neighbours)
        y = torch.addcmul(messages, x, 1 + self.epsilon)
        return self.mlp_out(F.gelu(self.mlp_in(y))) * mask[:, None]


class _Messages(torch.autograd.Function):
    """Σ_j ReLU(x_j + e_ij) for every slot; a bond's gradient is looked up from its other end."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (M, C)
        embeddings: Tensor,  # (K, C)
        neighbours: Neighbours,
    ) -> Tensor:  # (M, C)
        every = torch.arange(len(embeddings) + 1, device=x.device)
        labels = (neighbours.bonds.view(-1, 1) == every).to(x.dtype)  # one-hot (M·D, 1 + K)
        nothing = x.new_full((1, x.shape[1]), _NEVER)
        messages = x.index_select(0, neighbours.slots.flatten())  # (M·D, C)
        messages.addmm_(labels, torch.cat([nothing, embeddings])).relu_()
        ctx.save_for_backward(messages, labels)
        ctx.reverse = neighbours.reverse
        return F.embedding_bag(neighbours.places, messages, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        messages, labels = ctx.saved_tensors
        bonds = len(grad), -1, grad.shape[1]  # (M, D, C)
        of_message = torch.ops.aten.threshold_backward(
            grad[:, None].expand(messages.view(bonds).shape), messages.view(bonds), 0
        ).flatten(0, 1)
        grad_x = F.embedding_bag(ctx.reverse, of_message, mode="sum")
        return grad_x, (labels.T @ of_message)[1:], None
