"""The local branch: messages along bonds, beside attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.gradients import is_transformed
from molsepnorm.nn.pairs.bias import label_embeddings
from molsepnorm.nn.pairs.neighbours import Neighbours, PairTensors


class GINE(nn.Module):
    r"""A graph isomorphism layer that reads bonds.

    .. math::

        \mathrm{MLP}\Bigl((1 + \epsilon) \, h_i
            + \sum_{j \in \mathcal{N}(i)} \mathrm{ReLU}(h_j + \mathrm{emb}(e_{ij}))\Bigr)

    The embeddings of a bond's features are averaged. The result is 0 in slots without an atom.
    Equal to `torch_geometric.nn.GINEConv`.

    Source: Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020, arXiv
    1905.12265; beside attention as in Rampášek et al., "Recipe for a General, Powerful, Scalable
    Graph Transformer", NeurIPS 2022, arXiv 2205.12454, section 3.
    """

    def __init__(self, width: int, bond_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.bonds = nn.ParameterList([torch.empty(size, width) for size in bond_sizes])
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.mlp_in = nn.Linear(width, width)
        self.mlp_out = nn.Linear(width, width)

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.epsilon)

    def forward(self, y: Tensor, x: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:
        """Return y + GINE(x), both (M, C)."""
        assert pairs.neighbours is not None
        embeddings = label_embeddings(self.bonds).to(x.dtype)
        sums = torch.addcmul(self.messages(x, embeddings, pairs.neighbours), x, 1 + self.epsilon)
        return y + self.mlp_out(F.gelu(self.mlp_in(sums))) * batch.mask[:, None]

    def messages(self, x: Tensor, embeddings: Tensor, neighbours: Neighbours) -> Tensor:  # (M, C)
        """Return Σ_j ReLU(x_j + e_ij), with the embeddings (K, C) of bond labels."""
        from torch_geometric.utils import scatter

        slots, columns = neighbours.bonds.nonzero(as_tuple=True)
        labels = neighbours.bonds[slots, columns] - 1
        messages = torch.relu(x[neighbours.slots[slots, columns]] + embeddings[labels])
        return scatter(messages, slots, dim_size=len(x))


_NO_BOND = -1e30
"""Added to an entry without a bond; its message is then 0 after the ReLU."""


class FastGINE(GINE):
    """`GINE` that gathers messages from tables of neighbours, so gradients repeat bit by bit."""

    def messages(self, x: Tensor, embeddings: Tensor, neighbours: Neighbours) -> Tensor:  # (M, C)
        if is_transformed():
            return super().messages(x, embeddings, neighbours)
        if torch.is_grad_enabled() or x.device.type != "cpu":
            return _Messages.apply(x, embeddings, neighbours)
        slots, labels, first = neighbours.real  # about half of the entries
        messages = x.index_select(0, slots).add_(embeddings.index_select(0, labels)).relu_()
        entries = torch.arange(len(slots))
        return F.embedding_bag(entries, messages, first, mode="sum")


class _Messages(torch.autograd.Function):
    """Σ_j ReLU(x_j + e_ij); the gradient of a bond is read at its other end."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (M, C)
        embeddings: Tensor,  # (K, C)
        neighbours: Neighbours,
    ) -> Tensor:  # (M, C)
        every = torch.arange(len(embeddings) + 1, device=x.device)
        labels = (neighbours.bonds.view(-1, 1) == every).to(x.dtype)  # one-hot (M·D, 1 + K)
        nothing = x.new_full((1, x.shape[1]), max(_NO_BOND, torch.finfo(x.dtype).min))
        messages = x.index_select(0, neighbours.slots.flatten())  # (M·D, C)
        messages.addmm_(labels, torch.cat([nothing, embeddings])).relu_()
        ctx.save_for_backward(messages, labels)
        ctx.reverse = neighbours.reverse
        return F.embedding_bag(neighbours.entries, messages, mode="sum")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        messages, labels = ctx.saved_tensors
        shape = len(grad), -1, grad.shape[1]  # (M, D, C)
        of_message = torch.ops.aten.threshold_backward(
            grad[:, None].expand(messages.view(shape).shape), messages.view(shape), 0
        ).reshape(messages.shape)
        grad_x = F.embedding_bag(ctx.reverse, of_message, mode="sum")
        return grad_x, (labels.T @ of_message)[1:], None
