"""`model.safetensors`: the tensors of all networks and forests of a model.

The tensors of the first network have the names of its `state_dict`. Those of the other networks
begin with `partner-1.`, `partner-2.` and so on, and those of the forests with `forest-1.`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molsepnorm.errors import ModelError
from molsepnorm.files.digests import KEY
from molsepnorm.files.writing import clear_errors
from molsepnorm.forest import Forest
from molsepnorm.model.description import CONFIG, brief
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer, empty_network

WEIGHTS = "model.safetensors"
"""Name of the file."""

_FOREST = "forest-{}."  # prefix of a forest's tensors, counted from 1
_PARTNER = "partner-{}."  # prefix of a partner's tensors, counted from 1


def pack_weights(networks: Sequence[Graphormer], forests: Sequence[Forest]) -> bytes:
    """Return the content of the file.

    Args:
        networks: all networks of the model.
        forests: its forests, if any.

    Raises:
        ModelError: a number is not finite.
    """
    tensors: dict[str, Tensor] = {}
    for number, network in enumerate(networks):
        state, prefix = network.state_dict(), _network_prefix(number)
        tensors |= {prefix + name: each for name, each in state.items()}
    for number, forest in enumerate(forests, start=1):
        content, prefix = forest.tensors(), _FOREST.format(number)
        tensors |= {prefix + name: each for name, each in content.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ModelError(
                f"the model cannot be saved: {name} has a number that is not finite, as after a "
                "training that diverged. Train again with a lower learning rate"
            )
    return save({name: tensor.contiguous() for name, tensor in tensors.items()})


def read_weights(path: Path, about: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read the tensors and compare the file with its digest.

    Args:
        path: the file.
        about: the entries of the description, which hold the digest.

    Raises:
        ModelError: the file is damaged, or holds a number that is not finite.
        StorageError: it cannot be read.
    """
    with clear_errors(path, "read"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != about[KEY].get(WEIGHTS):
        raise other_weights(path, f"it does not match its digest in {CONFIG}")
    try:
        weights = load(content)
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise other_weights(path, error) from error
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise other_weights(path, f"{name} has a number that is not finite")
    return weights


def take_forests(weights: dict[str, Tensor]) -> tuple[Forest, ...]:
    """Remove the tensors of the forests from the weights, and return the forests."""
    forests: list[Forest] = []
    while True:
        prefix = _FOREST.format(len(forests) + 1)
        own = [name for name in weights if name.startswith(prefix)]
        if not own:
            return tuple(forests)
        found = {name.removeprefix(prefix): weights.pop(name) for name in own}
        forests.append(Forest.from_tensors(found))


def take_networks(
    configs: Sequence[GraphormerConfig], weights: dict[str, Tensor]
) -> list[Graphormer]:
    """Remove all tensors from the weights, and return the networks in evaluation mode."""
    networks = []
    for number, config in reversed([*enumerate(configs)]):  # the first network takes the rest
        network = empty_network(config)
        prefix = _network_prefix(number)
        own = [name for name in weights if name.startswith(prefix)]
        network.load_state_dict({name.removeprefix(prefix): weights.pop(name) for name in own})
        networks.append(network.eval())
    return networks[::-1]


def other_weights(path: Path, reason: object) -> ModelError:
    """Return the error for a file that does not contain the weights of this model."""
    return ModelError(
        f"{path} is damaged or belongs to another model ({brief(reason)}): copy the folder from "
        "its source again"
    )


def _network_prefix(number: int) -> str:
    return _PARTNER.format(number) if number else ""
