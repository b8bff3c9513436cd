"""Check that the parts of a model fit each other: networks, targets, forests, weights, calibration.

Each function raises a `ConfigError` if they do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from molsepnorm.errors import ConfigError, counted
from molsepnorm.forest import Forest
from molsepnorm.model.encoding import encoding_of
from molsepnorm.model.weights import WEIGHTS
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration, kind_fits


def require_shares(weights: Sequence[float], count: int) -> None:
    """Check the weights of the networks' predictions.

    Args:
        weights: one for each network; they sum to 1.
        count: the number of networks.
    """
    finite = all(math.isfinite(weight) and weight >= 0 for weight in weights)
    if len(weights) != count or not finite or abs(sum(weights) - 1) > 1e-6:
        raise ConfigError(
            f"the mean over {counted(count, 'network')} needs as many weights, which sum to 1; got "
            f"{weights!r:.80}"
        )


def require_forest_share(share: float, count: int) -> None:
    """Check the weight of the forests in the prediction.

    Args:
        share: the weight.
        count: the number of forests.
    """
    if not 0 <= share <= 1 or (share > 0) != bool(count):
        raise ConfigError(
            f"forest_share must be 0 without forests, and otherwise in 0 < s ≤ 1; got "
            f"{share!s:.40} for {counted(count, 'forest')}"
        )


def require_forests(forests: Sequence[Forest], task: Task, inputs: ExtraInputs) -> None:
    """Check that forests predict the targets from the inputs of the model."""
    widths = [target.width for target in task.targets]
    for forest in forests:
        if [trees.values.shape[1] for trees in forest.targets] != widths:
            raise ConfigError("a forest has other targets than the network")
        if len(forest.medians) != (read := inputs.width - inputs.pairs):
            raise ConfigError(
                f"a forest reads {len(forest.medians):,} features, and the model has {read:,}"
            )


def require_fitting(config: GraphormerConfig, first: GraphormerConfig, task: Task) -> None:
    """Check that a network has the task's outputs, and reads the molecules of the first one."""
    if task.outputs != config.outputs:
        raise ConfigError(f"targets of {task.outputs} outputs and {config.outputs} outputs")
    one, other = (replace(encoding_of(each), molecule_features=0) for each in (config, first))
    if (config.atom_sizes, one) != (first.atom_sizes, other):
        raise ConfigError("the networks read different features or encodings of molecules")


def require_calibration(calibration: Sequence[Calibration], task: Task) -> None:
    """Check that every target has a calibration of its kind, or that there is none at all."""
    fitting = all(kind_fits(*pair) for pair in zip(task.targets, calibration, strict=False))
    if calibration and (len(calibration) != len(task.targets) or not fitting):
        raise ConfigError("the calibration does not fit the targets")


def require_enough_weights(config: GraphormerConfig, weights: Mapping[str, Tensor]) -> None:
    """Check the sizes against the number of weights, before memory is allocated for them."""
    available = sum(tensor.numel() for tensor in weights.values())
    for name, value in vars(config).items():
        sizes = value if type(value) is tuple else (value,)
        if any(type(size) is int and size > available for size in sizes):
            raise ConfigError(
                f"network.{name} is {value!s:.40}, more than all weights in {WEIGHTS}"
            )
    if config.layers * config.width * max(config.width, config.ffn_width) > available:
        raise ConfigError(f"network.layers and network.width need more weights than {WEIGHTS} has")
