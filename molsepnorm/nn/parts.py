"""The classes that a network is built from: readable ones, and fast ones that compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from molsepnorm.nn.attention import BiasedSelfAttention, FastSelfAttention
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.dropout import ByteDropout, Dropout
from molsepnorm.nn.local import GINE, FastGINE
from molsepnorm.nn.pairs.bias import AttentionBias, FastAttentionBias
from molsepnorm.nn.readout import FastReadout, GraphTokenReadout, Readout


class Parts(NamedTuple):
    """Classes with a readable and a fast version, with the same parameters and calls."""

    attention: type[BiasedSelfAttention]
    local: type[GINE]
    bias: type[AttentionBias]
    readout: type[Readout]
    dropout: Callable[[float], Dropout]


PLAIN = Parts(BiasedSelfAttention, GINE, AttentionBias, Readout, Dropout)
FAST = Parts(FastSelfAttention, FastGINE, FastAttentionBias, FastReadout, ByteDropout)


def make_readout(config: GraphormerConfig, parts: Parts) -> Readout | GraphTokenReadout:
    if config.last_layer_is_token_only:
        return GraphTokenReadout(config.width)
    return parts.readout(config.readout, config.width)


def make_head(config: GraphormerConfig, width: int) -> nn.Linear:
    if not config.outputs:
        return _NoOutputs(width, 0).requires_grad_(False)
    if not config.columns:
        return nn.Linear(width, config.outputs)
    features = config.molecule_features - config.columns, config.columns
    return ConditionalLinear(width, config.outputs, *features)


class _NoOutputs(nn.Linear):
    """A linear layer without outputs, for which torch would issue a warning."""

    def reset_parameters(self) -> None:
        pass


def in_head(name: str) -> bool:
    return name.partition(".")[0] == "head"


WEIGHT, BIAS, INTERACTIONS = "head.weight", "head.bias", "head.interactions"
"""Names of the output weights in the state of a network; the last are the v of a
`ConditionalLinear`."""


class ConditionalLinear(nn.Linear):
    r"""A linear output layer whose weights depend on the feature columns of the table.

    .. math:: y_o = b_o + w_o \cdot [z, x, u] + \sum_c u_c \, v_{oc} \cdot z

    with z the read-out of the molecule (R channels), u the standardised feature columns (C
    channels), and x the other molecule-level features (F channels); the width is R + F + C. Without
    v, a column would shift the outputs of all molecules by the same amount. With it, each word of a
    column, such as the name of an assay, has its own output weights. v starts at 0.
    """

    def __init__(self, width: int, outputs: int, features: int, columns: int) -> None:
        super().__init__(width, outputs)
        self.sizes = width - features - columns, features, columns
        self.interactions = nn.Parameter(torch.zeros(outputs, columns, self.sizes[0]))

    def forward(self, read: Tensor) -> Tensor:  # (B, R + F + C) -> (B, outputs)
        z, _, columns = read.split(self.sizes, dim=1)
        by_column = (z @ self.interactions.flatten(0, 1).T).unflatten(1, (-1, columns.shape[1]))
        return super().forward(read) + (by_column * columns[:, None]).sum(dim=2)
