"""Initial weights of a network."""

from __future__ import annotations

from torch import nn

from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.pairs.bias import AttentionBias

__all__ = ["initialize"]


def initialize(network: nn.Module, config: GraphormerConfig) -> None:
    """Draw linear layers and embeddings as `config.init` says; other modules reset themselves.

    Norms become the identity, and factors such as URPE's become 1.
    """
    std = 0.02 if config.init == "v1" else 0.5
    for module in network.modules():
        if isinstance(module, nn.Linear):
            if config.init == "v1":
                nn.init.normal_(module.weight, std=0.02 * config.layers**-0.5)
            else:
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, AtomEmbedding | AttentionBias | nn.ParameterList):
            for table in module.parameters(recurse=False):
                nn.init.normal_(table, std=std)
    for module in network.modules():  # some replace what the loop above drew in them
        reset = getattr(module, "reset_parameters", None)
        if reset is not None and module is not network and not isinstance(module, nn.Linear):
            reset()
