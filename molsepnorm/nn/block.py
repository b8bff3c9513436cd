"""One layer of the transformer."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import ByteDropout
from molsepnorm.nn.sepnorm import SepNorm, SharedNorm

__all__ = ["GraphormerLayer"]


class GraphormerLayer(nn.Module):
    r"""Pre-norm attention and feed-forward, each with a residual connection.

    .. math::

        h' &= h + \mathrm{MHA}(\mathrm{norm}_1(h)) \\
        h'' &= h' + \mathrm{FFN}(\mathrm{norm}_2(h'))

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, eqs. 8 and 9.
    """

    def __init__(
        self,
        width: int,
        ffn_width: int,
        heads: int,
        attention_norm: SepNorm | SharedNorm,
        ffn_norm: SepNorm | SharedNorm,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
    ) -> None:
        super().__init__()
        self.attention_norm = attention_norm
        self.attention = BiasedSelfAttention(width, heads, attention_dropout)
        self.ffn_norm = ffn_norm
        self.ffn_in = nn.Linear(width, ffn_width)
        self.ffn_out = nn.Linear(ffn_width, width)
        self.dropout = ByteDropout(dropout)
        self.activation_dropout = ByteDropout(activation_dropout)

    def forward(self, x: Tensor, bias: list[Tensor], batch: GraphBatch) -> Tensor:  # (M, C)
        """Apply the layer to all slots of a batch, x (M, C)."""
        slots = (batch.graph_token, batch.mask)
        attended = self.attention(self.attention_norm(x, *slots), bias, batch.blocks)
        x = self.dropout.add(x, attended)
        return self.dropout.add(x, self._feed_forward(self.ffn_norm(x, *slots)))

    def tokens(self, x: Tensor, bias: list[Tensor], batch: GraphBatch) -> Tensor:  # (B, C)
        """The graph tokens alone of what `forward` gives, in the order of their slots.

        For the last layer, after which nothing else is read. Needs norms that can normalise the
        tokens by themselves.
        """
        slots = (batch.graph_token, batch.mask)
        normed = self.attention_norm(x, *slots)
        attended = self.attention(normed, bias, batch.blocks, tokens_only=True)
        token = self.dropout.add(x.index_select(0, batch.graph_token.sort().values), attended)
        return self.dropout.add(token, self._feed_forward(self.ffn_norm.tokens(token)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.ffn_out(self.activation_dropout(F.gelu(self.ffn_in(x))))
