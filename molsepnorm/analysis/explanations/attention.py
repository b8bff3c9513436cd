"""The attention of the graph token to the atoms, which shows where a network looks, not why."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.parts import FAST, PLAIN

__all__ = ["TokenAttention"]


_READABLE = FAST._replace(attention=PLAIN.attention, dropout=PLAIN.dropout)


class TokenAttention:
    """Computes the mean attention weight of the graph token over all heads and layers.

    The fast attention does not keep its weights, so this builds the network with the plain one.

    Args:
        network: the network; it is not changed.
    """

    def __init__(self, network: Graphormer) -> None:
        self._network = empty_network(network.config, _READABLE)
        self._network.load_state_dict(network.state_dict())
        self._network.to(network.embedding.graph_token.device).eval()

    @torch.no_grad()
    def __call__(self, batch: GraphBatch) -> Tensor:  # (B, S)
        """Return the weights of a batch in a single group, whose rows sum to 1.

        Slot 0 is the graph token, the atoms follow, and padding has weight 0.
        """
        kept: list[Tensor] = []

        def keep(module: nn.Module, inputs: Any, weights: Tensor) -> None:
            kept.append(weights[:, :, 0].mean(0))  # of (H, graphs, Q, S)

        attention = [cast(GraphormerLayer, layer).attention for layer in self._network.layers]
        hooks = [each.dropout.register_forward_hook(keep) for each in attention]
        try:
            self._network.embed(batch)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack(kept).mean(0)[batch.order]
