"""How the slots of a batch relate to each other, as every layer reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.pairs.neighbours import Neighbours, neighbours_of
from molsepnorm.nn.pairs.pair_attention import PairEmbedding
from molsepnorm.nn.pairs.urpe import RelativeGate
from molsepnorm.nn.pairs.walks import PairBias, ResistanceKernels, resistances

__all__ = ["RelationEncoding", "Relations"]


@dataclass(frozen=True)
class Relations:
    """What a layer knows of slot pairs."""

    bias: list[Tensor]
    """For each block (H, graphs, S, S): added to the attention logits; −∞ at padding."""
    gates: list[Tensor] | None = None
    """For each block (H, graphs, S, S): attention weights are multiplied by them."""
    neighbours: Neighbours | None = None
    """Who is bonded to whom."""
    pairs: list[Tensor] | None = None
    """For each block (graphs, S, S, E): the vectors of slot pairs, which layers may update."""


class _Features(NamedTuple):
    """Of slot pairs, for each block (graphs, S, S, …); None where there are none."""

    kernels: list[Tensor] | None
    all: list[Tensor] | None


class RelationEncoding(nn.Module):
    """What is added to Graphormer's own bias, as far as the configuration wants it.

    Random walks and resistances become a bias of their own, resistances part of the gates too;
    together with the whole bias they begin the pair vectors.

    Args:
        config: of the network.
    """

    def __init__(self, config: GraphormerConfig) -> None:
        super().__init__()
        self.walks = config.pair_walks
        self.local = config.local == "gine"
        kernels, heads, width = config.resistance_kernels, config.heads, config.pair_width
        features = kernels + (self.walks + 1 if self.walks else 0)
        self.kernels = ResistanceKernels(kernels) if kernels else None
        self.pair_bias = PairBias(features, config.pair_hidden, heads) if features else None
        self.gate = RelativeGate(heads, config.max_distance, kernels) if config.urpe else None
        self.pair_embedding = PairEmbedding(heads, features, width) if width else None

    def forward(
        self,
        batch: GraphBatch,
        bias: list[Tensor],  # for each block (H, graphs, S, S)
        walks: list[Tensor],  # for each block (graphs, S, S, W + 1); W is `pair_walks` or more
    ) -> Relations:
        """Put together what the layers read."""
        kernels, features = self._features(batch, walks, bias[0].dtype)
        if self.pair_bias is not None and features is not None:
            bias = [a + b for a, b in zip(bias, self.pair_bias(features), strict=True)]
        pairs = None if self.pair_embedding is None else self.pair_embedding(bias, features)
        return Relations(
            bias=bias,
            gates=None if self.gate is None else self.gate(batch, kernels),
            neighbours=neighbours_of(batch) if self.local else None,
            pairs=pairs,
        )

    def _features(self, batch: GraphBatch, walks: list[Tensor], dtype: torch.dtype) -> _Features:
        kernels, found = None, []
        if self.kernels is not None:
            kernels = [self.kernels(each) for each in resistances(batch, dtype)]
            found.append(kernels)
        if self.walks:
            found.append([each[..., : self.walks + 1] for each in walks])
        joined = [torch.cat(each, dim=-1) for each in zip(*found, strict=True)]
        return _Features(kernels, joined or None)
