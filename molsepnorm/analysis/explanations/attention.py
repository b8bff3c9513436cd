"""The attention of the graph token to the atoms, which shows where a network looks, not why."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.observe import observed
from molsepnorm.nn.parts import FAST, PLAIN

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
        sites = [cast(GraphormerLayer, each).attention.dropout for each in self._network.layers]
        # weights (H, graphs, Q, S)
        means = observed(self._network, batch, sites, lambda weights: weights[:, :, 0].mean(0))
        return torch.stack(means).mean(0)[batch.order]
