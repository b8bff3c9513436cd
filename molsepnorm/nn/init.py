"""Initial weights of a network, and the names of saved ones."""

from __future__ import annotations

from typing import Any

from torch import nn

from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.pairs.bias import AttentionBias

__all__ = ["current_name", "initialize", "rename_weights"]


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


_RENAMED = {
    "bias.": "pair_encoding.bias.",
    "relations.gate.": "pair_encoding.urpe.",
    "relations.": "pair_encoding.",
    "walk_encoding.": "embedding.walk_encoding.",
    "readout.": "head.",
}
"""Prefixes of weight names in earlier model folders and checkpoints -> prefixes of today."""


def current_name(name: str) -> str:
    """Return the name that a weight of a saved network has today.

    >>> current_name("readout.weight")
    'head.weight'
    """
    for old, new in _RENAMED.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def rename_weights(state_dict: dict[str, Any], prefix: str = "") -> None:
    """Replace names of earlier versions in a state dict, in place, below a prefix."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[prefix + current_name(name.removeprefix(prefix))] = state_dict.pop(name)
