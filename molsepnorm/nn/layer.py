"""One layer of the transformer."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.norms import Unchanged, make_norms
from molsepnorm.nn.pairs.neighbours import PairTensors
from molsepnorm.nn.parts import Parts


class GraphormerLayer(nn.Module):
    r"""Self-attention and a feed-forward block, each with a residual connection (pre-norm), and an
    optional local branch, GINE.

    .. math::

        h' &= h + \mathrm{MHA}(\mathrm{norm}_1(h)) + \mathrm{GINE}(\mathrm{norm}_1(h)) \\
        h'' &= h' + \mathrm{FFN}(\mathrm{norm}_2(h'))

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, eqs. 8 and 9; the local branch of
    Rampášek et al., NeurIPS 2022, arXiv 2205.12454, section 3.
    """

    def __init__(self, config: GraphormerConfig, index: int, parts: Parts) -> None:
        super().__init__()
        width = config.width
        self.attention_norm, ffn_norm = make_norms(config, index)
        dropout = parts.dropout(config.attention_dropout)
        self.attention = parts.attention(width, config.heads, dropout)
        has_local = config.local == "gine"
        self.local = parts.local(width, config.bond_sizes) if has_local else Unchanged()
        self.ffn_norm = ffn_norm
        self.ffn_in = nn.Linear(width, config.ffn_width)
        self.ffn_out = nn.Linear(config.ffn_width, width)
        self.dropout = parts.dropout(config.dropout)
        self.activation_dropout = parts.dropout(config.activation_dropout)

    def forward(self, x: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:  # (M, C)
        h = self.attention_norm(x, batch.graph_token, batch.mask)
        x = self.add_attention(x, h, pairs, batch)
        h = self.ffn_norm(x, batch.graph_token, batch.mask)
        y = self.ffn_out(self.activation_dropout(F.gelu(self.ffn_in(h))))
        return self.dropout.add(x, y)

    def add_attention(self, x: Tensor, h: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:
        """Return x + MHA(h) + GINE(h)."""
        y = self.attention(h, pairs, batch.groups)
        return self.dropout.add(x, self.local(y, h, pairs, batch))


class GraphTokenLayer(GraphormerLayer):
    """The last layer of a network that reads out the graph token only: it computes the graph tokens
    only, (B, C), in the order of their slots."""

    def __init__(self, config: GraphormerConfig, index: int, parts: Parts) -> None:
        super().__init__(replace(config, local="none"), index, parts)

    def add_attention(
        self, x: Tensor, h: Tensor, pairs: PairTensors, batch: GraphBatch
    ) -> Tensor:  # (B, C)
        tokens = x.index_select(0, batch.graph_token.sort().values)
        return super().add_attention(tokens, h, pairs.first_query(), batch)


def make_layer(config: GraphormerConfig, index: int, parts: Parts) -> GraphormerLayer:
    tokens_only = config.last_layer_is_token_only and index == config.layers - 1
    return (GraphTokenLayer if tokens_only else GraphormerLayer)(config, index, parts)
