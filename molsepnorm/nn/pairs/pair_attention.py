"""Attention that reads and updates a vector for every slot pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from molsepnorm.nn.batch import Block
from molsepnorm.nn.kernels.dropout import ByteDropout

__all__ = ["PairAttention", "PairEmbedding"]

_SMOOTHING = 1e-3
"""ε of the signed square root."""


class PairEmbedding(nn.Module):
    r"""The pair vectors before the first layer: a linear map of a pair's features and its bias.

    .. math:: e_{ij} = W [f_{ij}, b_{ij}] + c

    What the bias knows (distance, bonds of the path, graph token or not) thus begins the vectors
    too. Its −∞ of padding is read as 0: whatever a pair with padding holds, nobody attends to it.

    Source: Ma et al., ICML 2023, arXiv 2305.17589, section 3.1, for f being random-walk
    probabilities. The bias is not read there.

    Args:
        heads: H, of the bias.
        features: numbers of f, 0 where the bias alone is read.
        pair_width: E.
    """

    def __init__(self, heads: int, features: int, pair_width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features + heads, pair_width)

    def forward(
        self,
        bias: list[Tensor],  # for each block (H, graphs, S, S)
        features: list[Tensor] | None = None,  # for each block (graphs, S, S, F), finite
    ) -> list[Tensor]:  # for each block (graphs, S, S, E)
        """The vectors of every block, in the bias's precision under autocast too."""
        read = [_finite(part).permute(1, 2, 3, 0) for part in bias]
        if features is not None:
            read = [torch.cat(both, dim=-1) for both in zip(features, read, strict=True)]
        with torch.autocast(bias[0].device.type, enabled=False):
            return [self.linear(part) for part in read]


class PairAttention(nn.Module):
    r"""Self-attention within each graph of a batch, by vectors of slot pairs.

    Slot i asks slot j in head h; e is normalised before anything reads it:

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

    What differs from the paper: Graphormer's bias b is added to the logits; pair vectors are as
    wide as one likes, and every head reads all of their channels, not a slice of its own; they are
    normalised before the layer, not after it.

    Args:
        width: C.
        heads: H, a divisor of C.
        pair_width: E.
        dropout: of the attention weights.
        update_pairs: False in a last layer, whose pair vectors nobody reads: they are returned as
            they came, and there are no parameters for what is not computed.
    """

    def __init__(
        self, width: int, heads: int, pair_width: int, dropout: float, update_pairs: bool = True
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
        self.dropout = ByteDropout(dropout)

    def forward(
        self,
        x: Tensor,  # (M, C)
        pairs: list[Tensor],  # for each block (graphs, S, S, E)
        bias: list[Tensor],  # for each block (H, graphs, S, S), −∞ where padding is asked
        blocks: tuple[Block, ...],
        tokens_only: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:  # (M, C) or (B, C), and the pairs
        """Attend within each graph; blocks are attended one after the other.

        With `tokens_only` the graph tokens alone ask, of all slots; they answer in the blocks'
        order, and the pairs are returned as they came. The projections of x follow autocast; all
        that has the size of the pairs keeps the pairs' precision.
        """
        attended, updated = [], []
        qkv = self.qkv(x).split([block.graphs * block.slots for block in blocks])
        rows = 1 if tokens_only else None
        with torch.autocast(x.device.type, enabled=False):
            for projected, block, e, part in zip(qkv, blocks, pairs, bias, strict=True):
                own = projected.view(block.graphs, block.slots, -1).to(e.dtype)
                y, hidden = self._attend(own, e[:, :rows], part[:, :, :rows])
                attended.append(y)
                updated.append(e if tokens_only else self._updated(e, hidden))
        return self.out(torch.cat(attended)), updated

    def _attend(
        self,
        qkv: Tensor,  # (graphs, S, 2E + C)
        e: Tensor,  # (graphs, Q, S, E); Q is S, or 1: the graph tokens alone
        bias: Tensor,  # (H, graphs, Q, S)
    ) -> tuple[Tensor, Tensor]:  # (graphs·Q, C), and ê (graphs, Q, S, E)
        """Attend in one block."""
        q, k, v = qkv.split(self.split, dim=-1)
        q, v = q[:, : e.shape[1]], v.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        hidden = _Hidden.apply(q, k, _linear(self.pair_norm(e), self.pair_in))
        logits = torch.matmul(self.logits.weight, hidden.transpose(2, 3))  # (graphs, Q, H, S)
        weights = self.dropout((logits + bias.permute(1, 2, 0, 3)).softmax(-1))
        # Σ_j α_ij W ê_ij = W Σ_j α_ij ê_ij: a product for every slot, not for every pair
        values = self.pair_values.weight.unflatten(0, (self.heads, -1))  # (H, C/H, E)
        attended = torch.einsum("gqhe,hce->gqhc", weights @ hidden, values)
        attended = attended + (weights.transpose(1, 2) @ v).transpose(1, 2)
        return attended.flatten(2).flatten(0, 1), hidden

    def _updated(self, e: Tensor, hidden: Tensor) -> Tensor:  # (graphs, S, S, E)
        return e if self.pair_out is None else _linear(hidden, self.pair_out).add_(e)


class _Hidden(torch.autograd.Function):
    """ê of a block: ReLU(ρ((q_i + k_j) ⊙ w_ij) + b_ij).

    Nearly all time of a `PairAttention` goes into passes over tensors of the pairs' size. Composed
    of autograd's own operations, these few would keep six such tensors for the gradient, not four.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,  # (graphs, Q, E)
        k: Tensor,  # (graphs, S, E)
        read: Tensor,  # (graphs, Q, S, 2E): w and b side by side
    ) -> Tensor:  # (graphs, Q, S, E)
        scale, shift = read.chunk(2, dim=-1)
        z = (q[:, :, None] + k[:, None]).mul_(scale)
        root = z.abs().add_(_SMOOTHING).rsqrt_()
        hidden = z.mul_(root).add_(shift).relu_()
        ctx.save_for_backward(q, k, read, root, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, read, root, hidden = ctx.saved_tensors
        scale = read.chunk(2, dim=-1)[0]
        grad_read = torch.empty_like(read)
        by_scale, by_shift = grad_read.chunk(2, dim=-1)
        torch.mul(grad, hidden.sign(), out=by_shift)  # ReLU's
        # ρ'(z) = (1 + ε r²) r / 2, where r = 1 / √(|z| + ε)
        slope = root.square().mul_(_SMOOTHING / 2).add_(0.5).mul_(root).mul_(by_shift)
        torch.add(q[:, :, None], k[:, None], out=by_scale).mul_(slope)
        slope.mul_(scale)
        return slope.sum(2), slope.sum(1), grad_read


def _linear(x: Tensor, linear: nn.Linear) -> Tensor:
    """As `linear(x)`, which on a CPU takes twice as long for as narrow a matrix."""
    return (x @ linear.weight.T).add_(linear.bias)


def _finite(bias: Tensor) -> Tensor:
    return bias.masked_fill(bias == -torch.inf, 0)
