"""The encoding of molecules that a network reads, and whether the parts of a model fit each other.

Each check raises a `ConfigError` if they do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from molsepnorm.errors import ConfigError, ModelError, counted, did_you_mean
from molsepnorm.forest import Forest
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration, kind_fits


def encoding_of(config: GraphormerConfig) -> EncodingSpec:
    """Return the encoding of molecules that a network of this architecture needs."""
    return EncodingSpec(
        bond_sizes=config.bond_sizes,
        max_degree=config.max_degree,
        max_distance=config.max_distance,
        max_path_length=config.max_path_length,
        molecule_features=config.molecule_features,
    )


def require_featurizer(
    path: Path, about: Mapping[str, Any], config: GraphormerConfig, inputs: ExtraInputs
) -> None:
    """Check that the featuriser is registered, with the version and features of the model.

    Args:
        path: the description of the model, for error messages.
        config: the architecture of a network of the model.
        inputs: the inputs beside the features of the featuriser.

    Raises:
        ModelError: the featuriser or its version is not installed.
        ConfigError: the network reads other features.
    """
    name, version = about["featurizer"], about.get("featurizer_version", "1")
    if name not in featurize.SIZES:
        raise ModelError(
            f"{path}: the model needs the featuriser '{name!s:.80}' (version {version!s:.80}), "
            "which is not registered here: install the package that provides it, or call "
            "molsepnorm.featurize.register with its class before loading the model. "
            f"{did_you_mean(name, featurize.SIZES)}"
        )
    sizes = featurize.SIZES[name]
    if sizes.version != version:
        raise ModelError(
            f"{path}: the model was trained with version {version!s:.80} of the "
            f"featuriser '{name}', and version {sizes.version} is installed: install the former, "
            "or train again"
        )
    own, read = len(sizes.molecule), config.molecule_features
    fits = (config.atom_sizes, config.bond_sizes) == (sizes.atoms, sizes.bonds)
    if not fits or not own <= read <= own + inputs.width:
        raise ConfigError(f"atom_sizes, bond_sizes and molecule_features are not those of '{name}'")
    if config.columns and config.columns != inputs.column_widths:
        raise ConfigError("the network reads other feature columns than the model")


def require_shares(weights: Sequence[float], count: int) -> None:
    """Check the weights of the networks' predictions.

    Args:
        weights: one for each network; they sum to 1.
    """
    finite = all(math.isfinite(weight) and weight >= 0 for weight in weights)
    if len(weights) != count or not finite or abs(sum(weights) - 1) > 1e-6:
        raise ConfigError(
            f"the mean over {counted(count, 'network')} needs as many weights, which sum to 1; got "
            f"{weights!r:.80}"
        )


def require_forest_share(share: float, count: int) -> None:
    """Check the weight of the forests in the prediction."""
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
                f"network.{name} is {value!s:.40}, more than all weights of the model"
            )
    if config.layers * config.width * max(config.width, config.ffn_width) > available:
        raise ConfigError("network.layers and network.width need more weights than the model has")
