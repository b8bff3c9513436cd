"""The encoding of slot pairs, computed once per step and read by every layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.pairs.features import PairBias, ResistanceKernels, resistances
from molsepnorm.nn.pairs.neighbours import PairTensors, neighbours_of
from molsepnorm.nn.pairs.urpe import URPE
from molsepnorm.nn.parts import Parts


class PairEncoding(nn.Module):
    """Graphormer's attention bias, and the optional encodings of the configuration.

    Random walks and resistances become a bias of their own, and resistances a part of the URPE
    gates.
    """

    def __init__(self, config: GraphormerConfig, parts: Parts) -> None:
        super().__init__()
        heads, kernels = config.heads, config.resistance_kernels
        self.steps = config.pair_walks
        self.has_local = config.local == "gine"
        features = kernels + (self.steps + 1 if self.steps else 0)
        self.bias = parts.bias(
            heads, config.bond_sizes, config.max_distance, config.max_path_length
        )
        self.kernels = ResistanceKernels(kernels) if kernels else None
        self.pair_bias = PairBias(features, config.pair_hidden, heads) if features else None
        self.urpe = URPE(heads, config.max_distance, kernels) if config.urpe else None

    def forward(self, batch: GraphBatch, walks: Sequence[Tensor] = ()) -> PairTensors:
        """Encode the slot pairs, with the `walk_probabilities` of `config.pair_walks` steps."""
        bias = self.bias(batch)
        features, kernels = [], None
        if self.kernels is not None:
            kernels = [self.kernels(each) for each in resistances(batch, bias[0].dtype)]
            features.append(kernels)
        if self.steps:
            features.append([each[..., : self.steps + 1] for each in walks])
        if self.pair_bias is not None:
            joined = [
                each[0] if len(each) == 1 else torch.cat(each, dim=-1)  # cat copies a single tensor
                for each in zip(*features, strict=True)
            ]
            bias = [a + b for a, b in zip(bias, self.pair_bias(joined), strict=True)]
        return PairTensors(
            bias=bias,
            gates=None if self.urpe is None else self.urpe(batch, kernels),
            neighbours=neighbours_of(batch) if self.has_local else None,
        )
