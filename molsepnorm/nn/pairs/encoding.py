"""The encoding of slot pairs, computed once per step and read by every layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.pairs.features import PairBias
from molsepnorm.nn.pairs.neighbours import PairTensors, neighbours_of
from molsepnorm.nn.parts import Parts


class PairEncoding(nn.Module):
    """Graphormer's attention bias, and optionally a bias from random walks and the neighbours."""

    def __init__(self, config: GraphormerConfig, parts: Parts) -> None:
        super().__init__()
        heads, steps = config.heads, config.pair_walks
        self.steps = steps
        self.has_local = config.local == "gine"
        self.bias = parts.bias(
            heads, config.bond_sizes, config.max_distance, config.max_path_length
        )
        self.pair_bias = PairBias(steps + 1, config.pair_hidden, heads) if steps else None

    def forward(self, batch: GraphBatch, walks: Sequence[Tensor] = ()) -> PairTensors:
        """Encode the slot pairs, with the `walk_probabilities` of `config.pair_walks` steps."""
        bias = self.bias(batch)
        if self.pair_bias is not None:
            walk_bias = self.pair_bias([group[..., : self.steps + 1] for group in walks])
            bias = [a + b for a, b in zip(bias, walk_bias, strict=True)]
        return PairTensors(bias, neighbours_of(batch) if self.has_local else None)
