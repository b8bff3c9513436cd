"""The classes that a network is built from: readable ones, and equal ones written for speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from molsepnorm.nn.attention import BiasedSelfAttention, FastSelfAttention
from molsepnorm.nn.conditional import ConditionalLinear
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.dropout import ByteDropout, Dropout
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.nn.local import GINE, FastGINE
from molsepnorm.nn.pairs.bias import AttentionBias, FastAttentionBias
from molsepnorm.nn.readout import FastReadout, GraphTokenReadout, Readout


class Parts(NamedTuple):
    """Classes with a readable and a fast version. Both have the same parameters and calls."""

    attention: type[BiasedSelfAttention]
    local: type[GINE]
    bias: type[AttentionBias]
    readout: type[Readout]
    dropout: Callable[[float], Dropout]


PLAIN = Parts(BiasedSelfAttention, GINE, AttentionBias, Readout, Dropout)
FAST = Parts(FastSelfAttention, FastGINE, FastAttentionBias, FastReadout, ByteDropout)


def make_readout(config: GraphormerConfig, parts: Parts) -> Readout | GraphTokenReadout:
    """Return the read-out of a network, or with `layers` of each of its layers."""
    if config.last_layer_is_token_only:
        return GraphTokenReadout(config.width)
    kind = "token+mean" if config.readout == "layers" else config.readout
    return parts.readout(kind, config.width)


def make_head(config: GraphormerConfig, width: int) -> nn.Module:
    """Return the map from R channels to the outputs, as `config.head` says."""
    if config.head == "linear":
        if not config.columns:
            return _output_layer(width, config.outputs)
        following = config.counts + config.descriptors
        return ConditionalLinear(width, config.outputs, sum(config.columns), following)
    if config.head == "kernel":
        features = config.columns, config.counts, config.descriptors, config.pairs
        return KernelHead(width, config.centers, config.outputs, *features, config.compares_counts)
    return nn.Sequential(
        nn.Linear(width, config.width), nn.GELU(), _output_layer(config.width, config.outputs)
    )


class _NoOutputs(nn.Linear):
    """A linear layer without outputs. torch would warn that it has no weights to draw."""

    def reset_parameters(self) -> None:
        pass


def _output_layer(width: int, outputs: int) -> nn.Linear:
    """Return a linear layer; without outputs, there is nothing in it to train."""
    return nn.Linear(width, outputs) if outputs else _NoOutputs(width, 0).requires_grad_(False)
