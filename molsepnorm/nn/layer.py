"""One layer of the transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.degree import DegreeScaler
from molsepnorm.nn.kernels.dropout import ByteDropout, StochasticDepth
from molsepnorm.nn.local import GINE
from molsepnorm.nn.pairs.encoding import Relations
from molsepnorm.nn.pairs.pair_attention import PairAttention
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

__all__ = ["GraphormerLayer"]


class GraphormerLayer(nn.Module):
    r"""Attention and feed-forward, each with a residual connection.

    .. math::

        h' &= h + \mathrm{MHA}(\mathrm{norm}_1(h)) + \mathrm{GINE}(\mathrm{norm}_1(h)) \\
        h'' &= h' + \mathrm{FFN}(\mathrm{norm}_2(h'))

    the local branch being optional. In post-norm order each line is norm(h + …(h)).

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, eqs. 8 and 9; the local branch of
    Rampášek et al., NeurIPS 2022, arXiv 2205.12454, section 3.

    Args:
        config: of the network.
        attention_norm: norm_1.
        ffn_norm: norm_2.
        drop_path: how often a branch of a graph is left out.
        last: whether no layer follows, so that pair vectors need not be updated.
        tokens_only: whether `tokens` alone will be called, so that what only atoms need is left
            out.
    """

    def __init__(
        self,
        config: GraphormerConfig,
        attention_norm: SepNorm | SharedNorm,
        ffn_norm: SepNorm | SharedNorm,
        drop_path: float = 0.0,
        last: bool = False,
        tokens_only: bool = False,
    ) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.post_norm = config.norm_order == "post"
        self.attention_norm = attention_norm
        self.attention: BiasedSelfAttention | PairAttention
        if config.pair_width:
            self.attention = PairAttention(
                width, heads, config.pair_width, config.attention_dropout, update_pairs=not last
            )
        else:
            self.attention = BiasedSelfAttention(width, heads, config.attention_dropout)
        for_atoms = not tokens_only
        self.degree_scaler = DegreeScaler(width) if config.degree_scaler and for_atoms else None
        has_local = config.local == "gine" and for_atoms
        self.local = GINE(width, config.bond_sizes) if has_local else None
        self.ffn_norm = ffn_norm
        self.ffn_in = nn.Linear(width, config.ffn_width)
        self.ffn_out = nn.Linear(config.ffn_width, width)
        self.dropout = ByteDropout(config.dropout)
        self.activation_dropout = ByteDropout(config.activation_dropout)
        self.drop_path = StochasticDepth(drop_path)

    def forward(
        self, x: Tensor, relations: Relations, batch: GraphBatch
    ) -> tuple[Tensor, Relations]:  # (M, C)
        """Apply the layer to all slots of a batch, x (M, C); the pair vectors may be new."""

        def attention(normed: Tensor) -> Tensor:
            nonlocal relations
            y, relations = self._attend(normed, relations, batch)
            if self.degree_scaler is not None:
                y = self.degree_scaler(y, batch)
            if self.local is not None:
                assert relations.neighbours is not None
                y = y + self.local(normed, relations.neighbours, batch.mask)
            return y

        def norm(site: SepNorm | SharedNorm) -> Callable[[Tensor], Tensor]:
            return lambda h: site(h, batch.graph_token, batch.mask)

        x = self._joined(x, attention, norm(self.attention_norm), batch)
        return self._joined(x, self._feed_forward, norm(self.ffn_norm), batch), relations

    def tokens(self, x: Tensor, relations: Relations, batch: GraphBatch) -> Tensor:  # (B, C)
        """The graph tokens alone of what `forward` gives, in the order of their slots.

        For the last layer, after which nothing else is read. Needs norms that can normalise the
        tokens by themselves.
        """
        token = x.index_select(0, batch.graph_token.sort().values)
        normed = x if self.post_norm else self.attention_norm(x, batch.graph_token, batch.mask)
        attended, _ = self._attend(normed, relations, batch, tokens_only=True)
        token = self._add(token, attended, batch)
        if self.post_norm:
            token = self.attention_norm.tokens(token)
        return self._joined(token, self._feed_forward, self.ffn_norm.tokens, batch)

    def _joined(
        self,
        x: Tensor,
        branch: Callable[[Tensor], Tensor],
        norm: Callable[[Tensor], Tensor],
        batch: GraphBatch,
    ) -> Tensor:
        if self.post_norm:
            return norm(self._add(x, branch(x), batch))
        return self._add(x, branch(norm(x)), batch)

    def _add(self, x: Tensor, y: Tensor, batch: GraphBatch) -> Tensor:
        return self.dropout.add(x, self.drop_path(y, batch.blocks))

    def _attend(
        self, x: Tensor, relations: Relations, batch: GraphBatch, tokens_only: bool = False
    ) -> tuple[Tensor, Relations]:
        bias, gates, blocks = relations.bias, relations.gates, batch.blocks
        if isinstance(self.attention, PairAttention):
            assert relations.pairs is not None
            y, pairs = self.attention(x, relations.pairs, bias, blocks, tokens_only)
            return y, replace(relations, pairs=pairs)
        return self.attention(x, bias, blocks, tokens_only, gates), relations

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.ffn_out(self.activation_dropout(F.gelu(self.ffn_in(x))))
