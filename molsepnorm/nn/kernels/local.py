"""`GINE` written for speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.nn.gradients import is_transformed
from molsepnorm.nn.local import GINE
from molsepnorm.nn.pairs.neighbours import Neighbours

_NO_BOND = -1e30
"""Added to an entry without a bond; its message is then 0 after the ReLU."""


class FastGINE(GINE):
    """`GINE` that gathers messages from tables of neighbours.

    Gradients are gathered, not scattered, so they repeat bit by bit.

    Without gradients on a CPU, the entries without a bond, about half of all, are left out.
    """

    def messages(self, x: Tensor, embeddings: Tensor, neighbours: Neighbours) -> Tensor:  # (M, C)
        if is_transformed():
            return super().messages(x, embeddings, neighbours)
        if torch.is_grad_enabled() or x.device.type != "cpu":
            return _Messages.apply(x, embeddings, neighbours)
        slots, labels, first = neighbours.real
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
