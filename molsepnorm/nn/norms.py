"""The norms of the network's sites."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from molsepnorm.nn.config import GraphormerConfig, NormKind
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

_KINDS: dict[NormKind, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "batch": nn.BatchNorm1d,
    "rms": partial(nn.RMSNorm, eps=1e-5),  # Zhang and Sennrich, NeurIPS 2019, arXiv 1910.07467
    "none": nn.Identity,
}


class Unchanged(nn.Module):
    """Return the first argument. It replaces a part that a configuration leaves out."""

    def forward(self, x: Tensor, *_: Any) -> Tensor:
        return x


class GraphTokenSepNorm(SepNorm):
    """`SepNorm` at a site where only graph tokens are left, x (B, C). The norm of the atoms is not
    trained, because DistributedDataParallel would wait for its gradient."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tok_norm.requires_grad_(False)

    def forward(self, x: Tensor, *_: Any) -> Tensor:  # (B, C)
        return self.tokens(x)


class GraphTokenSharedNorm(SharedNorm):
    """`SharedNorm` at a site where only graph tokens are left, x (B, C)."""

    def forward(self, x: Tensor, *_: Any) -> Tensor:  # (B, C)
        return self.norm(x)


def make_norms(
    config: GraphormerConfig, index: int
) -> tuple[SepNorm | SharedNorm, SepNorm | SharedNorm]:
    """Return the norms of a layer's attention and feed-forward blocks."""
    kinds = config.norms
    tokens_only = config.last_layer_is_token_only and index == config.layers - 1
    first = kinds.graph if index else kinds.first_graph
    return _make(config, first, kinds.nodes), _make(config, kinds.graph, kinds.nodes, tokens_only)


def make_last_norm(config: GraphormerConfig) -> nn.Module:
    """Return the norm between the last layer and the read-out."""
    kinds = config.norms
    nodes: NormKind = "none" if config.readout == "token" and not kinds.shared else kinds.nodes
    return _make(config, kinds.graph, nodes, config.last_layer_is_token_only)


def _make(
    config: GraphormerConfig, graph: NormKind, nodes: NormKind, tokens_only: bool = False
) -> SepNorm | SharedNorm:
    if config.norms.shared:
        return (GraphTokenSharedNorm if tokens_only else SharedNorm)(config.width, _KINDS[nodes])
    kind = GraphTokenSepNorm if tokens_only else SepNorm
    return kind(config.width, _KINDS[graph], _KINDS[nodes])
