"""Multi-head self-attention with an additive bias and optional gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.dropout import Dropout
from molsepnorm.nn.pairs.tensors import PairTensors


class BiasedSelfAttention(nn.Module):
    r"""Self-attention within each graph of a batch.

    .. math:: \left(\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{C/H}} + b\right) \odot G\right) V

    The gates G are optional. `kernels.attention.FastSelfAttention` computes the same faster.

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, section 3.1.2, for b; Luo et al., NeurIPS
    2022, arXiv 2205.13401, section 4, and Zhang et al., ICLR 2023, arXiv 2301.09505, section 4,
    for G.
    """

    def __init__(self, width: int, heads: int, dropout: Dropout) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        """Attend within each graph, from the first Q slots to all slots.

        Args:
            x: (M, C).
            pairs: bias and gates (H, graphs, Q, S) for each group.
            groups: the padded groups of the batch.

        Returns:
            The outputs of the queries, group after group.
        """
        return self.out(self.attend(x, pairs, groups))

    def attend(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> Tensor:  # (ΣQ, C)
        """Return the outputs of all heads, concatenated, before the last linear layer."""
        return plain_attention(self.qkv(x), groups, pairs.bias, pairs.gates, self.dropout)


def plain_attention(
    qkv: Tensor,  # (M, 3C): q of every head, then k, then v
    groups: tuple[PaddedGroup, ...],
    biases: Sequence[Tensor],  # for each group (H, graphs, Q, S)
    gates: Sequence[Tensor] | None,  # for each group (H, graphs, Q, S)
    dropout: Callable[[Tensor], Tensor],
) -> Tensor:  # (ΣQ, C)
    """Return the outputs of all heads by operations that have derivatives of any order."""
    outputs = []
    slots = [group.graphs * group.slots for group in groups]
    factors: Sequence[Tensor | None] = gates or [None] * len(groups)
    for rows, group, bias, gate in zip(qkv.split(slots), groups, biases, factors, strict=True):
        parts = rows.view(group.graphs, group.slots, 3, len(bias), -1)
        q, k, v = parts.permute(2, 3, 0, 1, 4)  # (H, graphs, S, C/H) each
        q = q[:, :, : bias.shape[2]]
        weights = dropout(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, dim=-1))
        weights = weights if gate is None else weights * gate
        outputs.append((weights.to(v.dtype) @ v).permute(1, 2, 0, 3).flatten(2).flatten(0, 1))
    return torch.cat(outputs)
