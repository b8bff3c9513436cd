"""Attention that reads and updates a vector for every slot pair (GRIT)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import PaddedGroup
from molsepnorm.nn.dropout import Dropout
from molsepnorm.nn.pairs.tensors import PairTensors

__all__ = ["SMOOTHING", "PairAttention", "PairEmbedding"]

SMOOTHING = 1e-3
"""ε of the signed square root."""


class PairEmbedding(nn.Module):
    r"""The pair vectors before the first layer: a linear map of a pair's features and its bias.

    .. math:: e_{ij} = W [f_{ij}, b_{ij}] + c

    The bias encodes the distance, the bonds of the path and the graph token. Its −∞ at padding is
    replaced by 0; no slot attends to padding.

    Source: Ma et al., ICML 2023, arXiv 2305.17589, section 3.1, where f are random-walk
    probabilities and the bias is not read.

    With `features` = 0 only the bias is read.
    """

    def __init__(self, heads: int, features: int, pair_width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features + heads, pair_width)

    def forward(
        self,
        bias: list[Tensor],  # for each group (H, graphs, S, S)
        features: list[Tensor] | None = None,  # for each group (graphs, S, S, F), finite
    ) -> list[Tensor]:  # for each group (graphs, S, S, E)
        """Return the vectors of every padded group, in the precision of the bias."""
        inputs = [part.masked_fill(part == -torch.inf, 0).permute(1, 2, 3, 0) for part in bias]
        if features:
            inputs = [torch.cat(both, dim=-1) for both in zip(features, inputs, strict=True)]
        with torch.autocast(bias[0].device.type, enabled=False):
            return [self.linear(part) for part in inputs]


class PairAttention(nn.Module):
    r"""Self-attention within each graph of a batch that reads vectors e of slot pairs.

    For query i, key j and head h, with e normalised first:

    .. math::

        \hat e_{ij} &= \mathrm{ReLU}\left(\rho\left((W_Q x_i + W_K x_j) \odot W_{Ew} e_{ij}\right)
            + W_{Eb} e_{ij}\right) \\
        \alpha^h_{ij} &= \mathrm{softmax}_j\left(W^h_A \hat e_{ij} + b^h_{ij}\right) \\
        \hat x^h_i &= \sum_j \alpha^h_{ij} \left(W^h_V x_j + W^h_{Ev} \hat e_{ij}\right) \\
        e'_{ij} &= e_{ij} + W_{Eo} \hat e_{ij}

    ρ is the signed square root, here :math:`\rho(z) = z / \sqrt{|z| + \varepsilon}`, whose slope at
    0 is :math:`\varepsilon^{-1/2}`, about 32, instead of infinite.

    Source: Ma et al., "Graph Inductive Biases in Transformers without Message Passing", ICML 2023,
    arXiv 2305.17589, section 3.2 (GRIT).

    Differences from the paper: Graphormer's bias b is added to the logits. Pair vectors have any
    width, and every head reads all of their channels instead of a slice. They are normalised before
    the layer, not after it.

    `kernels.pair_attention.FastPairAttention` computes the same faster.

    The last layer does not update the pair vectors (`update_pairs`) and has no parameters for it.
    """

    def __init__(
        self, width: int, heads: int, pair_width: int, dropout: Dropout, update_pairs: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.split = (pair_width, pair_width, width)
        self.qkv = nn.Linear(width, sum(self.split))
        self.pair_norm = nn.LayerNorm(pair_width)
        self.pair_in = nn.Linear(pair_width, 2 * pair_width)
        """W_Ew above W_Eb."""
        self.logits = nn.Linear(pair_width, heads, bias=False)
        self.pair_values = nn.Linear(pair_width, width, bias=False)
        """W_Ev, head after head."""
        self.pair_out = nn.Linear(pair_width, pair_width) if update_pairs else None
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(
        self, x: Tensor, pairs: PairTensors, groups: tuple[PaddedGroup, ...]
    ) -> tuple[Tensor, PairTensors]:  # (ΣQ, C)
        """Attend within each graph, from the first Q slots to all slots.

        The projections of x follow autocast. Tensors of the size of the pairs keep the precision of
        the pair vectors.

        Args:
            x: (M, C).
            pairs: bias (H, graphs, Q, S) and vectors (graphs, Q, S, E) for each group.
            groups: the padded groups of the batch.

        Returns:
            The outputs of the queries, group after group, and the pairs with the new vectors.
        """
        assert pairs.vectors is not None
        outputs, updated = [], []
        qkv = self.qkv(x).split([group.graphs * group.slots for group in groups])
        with torch.autocast(x.device.type, enabled=False):
            for part, group, e, bias in zip(qkv, groups, pairs.vectors, pairs.bias, strict=True):
                part = part.view(group.graphs, group.slots, -1).to(e.dtype)
                y, hidden = self._attend(part, e, bias)
                outputs.append(y)
                updated.append(self.update(e, hidden))
        return self.out(torch.cat(outputs)), replace(pairs, vectors=updated)

    def _attend(
        self,
        qkv: Tensor,  # (graphs, S, 2E + C)
        e: Tensor,  # (graphs, Q, S, E)
        bias: Tensor,  # (H, graphs, Q, S)
    ) -> tuple[Tensor, Tensor]:  # (graphs·Q, C), and ê (graphs, Q, S, E)
        q, k, v = qkv.split(self.split, dim=-1)
        q, v = q[:, : e.shape[1]], v.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        hidden = self.hidden(q, k, e)
        logits = torch.matmul(self.logits.weight, hidden.transpose(2, 3))  # (graphs, Q, H, S)
        weights = self.dropout((logits + bias.permute(1, 2, 0, 3)).softmax(-1))
        # Σ_j α_ij W ê_ij = W Σ_j α_ij ê_ij: one product for every slot instead of every pair
        values = self.pair_values.weight.unflatten(0, (self.heads, -1))  # (H, C/H, E)
        attended = torch.einsum("gqhe,hce->gqhc", weights @ hidden, values)
        attended = attended + (weights.transpose(1, 2) @ v).transpose(1, 2)
        return attended.flatten(2).flatten(0, 1), hidden

    def hidden(self, q: Tensor, k: Tensor, e: Tensor) -> Tensor:  # (graphs, Q, S, E)
        """Return ê for queries q (graphs, Q, E), keys k (graphs, S, E) and vectors e."""
        scale, shift = self.pair_in(self.pair_norm(e)).chunk(2, dim=-1)
        z = (q[:, :, None] + k[:, None]) * scale
        return torch.relu(z / (z.abs() + SMOOTHING).sqrt() + shift)

    def update(self, e: Tensor, hidden: Tensor) -> Tensor:  # (graphs, S, S, E)
        """Return the pair vectors for the next layer."""
        return e if self.pair_out is None else e + self.pair_out(hidden)
