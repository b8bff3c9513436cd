"""`NetworkPart`, a Graphormer with its head, and `infer`, which runs a network on molecules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching import GraphTensors, size_sorted_batches
from molsepnorm.devices import Precision, autocast, products_in
from molsepnorm.errors import ConfigError
from molsepnorm.files.reading import check_types
from molsepnorm.model.parts.part import Inputs, Part, Predicted
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.parts import BIAS, INTERACTIONS, WEIGHT
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task

_LIMITS = {"cpu": (256, 1 << 20), "cuda": (4096, 1 << 21)}
"""Maximum numbers of molecules and slot pairs in a batch."""


@dataclass(frozen=True, eq=False)
class NetworkPart(Part):
    """A network that predicts by itself."""

    kind: ClassVar[str] = "network"
    in_spread: ClassVar[bool] = True
    network: Graphormer = field()
    reads: ExtraInputs = NO_INPUTS
    """Its molecule-level features after those of the featuriser."""

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, rows: np.ndarray, task: Task, read: Tensor | None = None
    ) -> Predicted:
        assert read is not None
        network, features = self.network, self._features(inputs, rows)
        last = read[:, -self.channels :].to(inputs.graphs.num_atoms.device)
        outputs = network.head(network.molecule_features(last, features))
        return Predicted(task.predictions(outputs.cpu()).numpy())

    def graphs(self, inputs: Inputs) -> GraphTensors:
        """Return the graphs with all molecule-level features that the network reads."""
        return replace(inputs.graphs, features=self._features(inputs, slice(None)))

    def _features(self, inputs: Inputs, rows: np.ndarray | slice) -> Tensor | None:
        graphs, extra = inputs
        own = None if graphs.features is None else graphs.features[rows]
        if not self.reads.width:
            return own
        added = torch.from_numpy(extra.read_by(self.reads).of(rows).stacked())
        added = added.to(graphs.num_atoms.device)
        return added if own is None else torch.cat([own, added], dim=1)

    @property
    def channels(self) -> int:  # type: ignore[override]
        return self.network.readout.width

    @property
    def outputs(self) -> int:
        return self.network.config.outputs

    def rescale(self, old: Task, new: Task) -> None:
        state = self.network.state_dict()
        weights = [state[name] for name in (WEIGHT, INTERACTIONS) if name in state]
        old.rescale_outputs(new, weights, state[BIAS])

    def state(self) -> dict[str, Tensor]:
        return {}

    @staticmethod
    def from_state(
        tensors: Mapping[str, Tensor], reads: ExtraInputs, network: Graphormer | None = None
    ) -> NetworkPart:
        if network is None:
            raise ValueError("a part has no network")
        return NetworkPart(network, reads)


def read_out(
    parts: Iterable[Part], inputs: Inputs, rows: np.ndarray, precision: Precision = "fp32"
) -> dict[Graphormer | None, Tensor]:  # (n, R) each
    """Return what the parts need of each network, for the molecules `rows`, int (n,)."""
    channels = dict[Graphormer, int]()
    for part in parts:
        if part.network is not None:
            channels[part.network] = max(part.channels, channels.get(part.network, 0))
    calls = {each: partial(each.embed_layers, channels=count) for each, count in channels.items()}
    graphs = inputs.graphs
    return {n: infer(n, graphs, rows, precision=precision, call=call) for n, call in calls.items()}


def are_equal(one: Graphormer | None, other: Graphormer | None) -> bool:
    """Return whether two networks have the same architecture and weights."""
    if one is None or other is None or one is other or one.config != other.config:
        return one is other
    state = other.state_dict()
    return all(torch.equal(each, state[name]) for name, each in one.state_dict().items())


def encoding_of(config: GraphormerConfig) -> EncodingSpec:
    """Return the encoding of molecules that a network of this architecture needs."""
    return EncodingSpec(
        bond_sizes=config.bond_sizes,
        max_degree=config.max_degree,
        max_distance=config.max_distance,
        max_path_length=config.max_path_length,
        molecule_features=config.molecule_features,
    )


def restored_network(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Graphormer:
    """Return the network with this architecture and state, in evaluation mode, or raise a
    `ModelError`, `ConfigError` or `RuntimeError` if they are invalid."""
    config = check_types(GraphormerConfig, settings, "the architecture of a network")
    _require_enough_weights(config, tensors)
    network = empty_network(config)
    network.load_state_dict(tensors)
    return network.eval()


def _require_enough_weights(config: GraphormerConfig, weights: Mapping[str, Tensor]) -> None:
    """Check the sizes against the number of weights, before memory is allocated for them."""
    available = sum(tensor.numel() for tensor in weights.values())
    for name, value in vars(config).items():
        sizes = value if type(value) is tuple else (value,)
        if any(type(size) is int and size > available for size in sizes):
            raise ConfigError(
                f"network.{name} is {value!s:.40}, more than all weights of the model"
            )
    if config.layers * config.width * max(config.width, config.ffn_width) > available:
        raise ConfigError("network.layers and network.width need more weights than the model has")


@torch.no_grad()
def infer(
    network: nn.Module,
    tensors: GraphTensors,
    graphs: np.ndarray,
    precision: Precision = "fp32",
    call: Callable[[GraphBatch], Tensor] | None = None,
) -> Tensor:  # float32 (G, …), (G, O) by default
    """Return the network's outputs for molecules in the given order, on the CPU.

    Batches hold molecules of similar size. The network's mode is restored.

    Args:
        network: a network on the device of the tensors.
        graphs: int [G], indices of the molecules.
        call: function from a batch to a row for each molecule; by default the network.
    """
    if not len(graphs):
        return torch.empty(0, 0)
    device = tensors.num_atoms.device
    limits = _LIMITS.get(device.type, _LIMITS["cuda"])
    batches = list(size_sorted_batches(np.arange(len(graphs)), tensors.sizes[graphs], *limits))
    was_training = network.training
    network.eval()
    try:
        with products_in(precision, device), autocast(precision, device):
            parts = [(call or network)(tensors.cut(graphs[rows])) for rows in batches]
    finally:
        network.train(was_training)
    sorted_outputs = torch.cat(parts).cpu()  # the only synchronisation with the device
    if precision == "bf16":
        sorted_outputs = sorted_outputs.float()
    outputs = torch.empty_like(sorted_outputs)
    outputs[torch.from_numpy(np.concatenate(batches))] = sorted_outputs
    return outputs
